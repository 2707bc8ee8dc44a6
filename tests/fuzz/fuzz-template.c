/* SPDX-License-Identifier: MIT */
/* Chat templates: any text is compiled, rendered with a conversation within few steps, and asked for its markup. Byte
 * 0: 1 for the markup, which renders it many times; 2 for tools. */
#include "daemon/text/markup/markup.h"
#include "libcommon/error.h"
#include "tests/fuzz/fuzz.h"
#include <errno.h>
#include <string.h>

const char *const fuzz_seeds[] = {
    "0{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m['content'] | trim }}<|im_end|>\n{% endfor %}",
    "1{%- for m in messages -%}{%- if m.thinking -%}<think>{{ m.thinking }}</think>{%- endif -%}{{ m.content }}{%- for "
    "c "
    "in m.tool_calls -%}<call>{{ c.function | tojson }}</call>{%- endfor -%}{%- endfor -%}",
    "2{% macro f(x, y=[1, 2]) %}{{ x ~ y | join(', ') }}{% endmacro %}{{ f('a' * 3) }}{% set ns = namespace(n=0) %}{% "
    "for t in tools %}{% set ns.n = ns.n + 1 %}{{ t | tojson(indent=2) }}{% endfor %}{{ ns.n }}",
    "0{{ '%s and %5.2f %r' % ('x', 2.5, [1]) }} {{ 'abc'.split('b') | last | upper }} {{ 7 // 2 ** 2 % 3 }}",
    "0{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list | length }}{{ [3,1,2] | "
    "sort "
    "| reverse | list }}{{ {'a': 1} | items | list }}{{ 'x' in 'xyz' and not none }}{{ range(1, 9, 2) | list }}",
    "0{% if loop is defined %}{% elif 1 < 2 <= 3 %}y{% else %}n{% endif %}{% for i in range(9) if i is odd %}{% if i "
    "== 5 "
    "%}{% break %}{% endif %}{{ loop.index }}{{ loop.last }}{% else %}none{% endfor %}",
    "0{{ raise_exception('no ' + strftime_now('%Y-%m-%d')) }}{{ '\\u00e9\\n\\x41' | replace('A', 'b') | title | "
    "indent(2) }}{# note #}{% raw %}{{ x }}{% endraw %}",
    "0{{ messages[0]['content'][::-1][1:-1] | default('x', true) }}{{ (1.5 | round | int, 2 | float, '3' | int) }}{{ "
    "messages[-1:] | tojson }}{% filter upper %}a{% endfilter %}{% call(u) m() %}{{ u }}{% endcall %}",
    NULL,
};

static const char vars_text[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"Be \\u00e9 <b>.\"},{\"role\":\"user\",\"content\":\"hello "
    "{{ x }}\"},{\"role\":\"assistant\",\"content\":\"\",\"thinking\":\"so\",\"tool_calls\":[{\"type\":\"function\","
    "\"id\":\"a1\",\"function\":{\"name\":\"f\",\"arguments\":{\"s\":\"x\",\"n\":[1,2.5,null,true]}}}]},{\"role\":"
    "\"tool\",\"content\":\"result\",\"name\":\"f\"}],\"bos_token\":\"<s>\",\"eos_token\":\"</s>\","
    "\"add_generation_prompt\":true,\"documents\":[],"
    "\"s\":\"hello world\",\"u\":\"Gr\\u00fc\\u00dfe, \\u201c\\u00dcn\\u00efcode\\u201d \\ud83d\\ude42 \\u00d"
    "f\",\"e\":\"\",\"n\":5,\"z\":0,\"neg\":-7,\"f\":2.5,\"big\":1e+20,\"tiny\":1.5e-07,\"t\":true,\"no\":fal"
    "se,\"nil\":null,\"l\":[3,1,2],\"ls\":[\"b\",\"A\",\"c\",\"a\"],\"d\":{\"b\":2,\"a\":1,\"C\":3},\"nested\""
    ":{\"x\":{\"y\":[1,{\"z\":\"deep\"}]},\"items\":[9],\"keys\":\"k\"},\"msgs\":[{\"role\":\"user\",\"conten"
    "t\":\" hi \",\"n\":2},{\"role\":\"assistant\",\"content\":\"yo\",\"n\":1},{\"role\":\"user\",\"content\""
    ":\"<|im_end|>\",\"n\":3}],\"html\":\"<a href=\\\"x\\\">&'</a>\",\"nl\":\"one\\ntwo\\n\\nthree\",\"mixed\""
    ":[1,\"a\",null,true,2.0,[1],{\"k\":\"v\"}],\"quote\":\"it's \\\"q\\\"\",\"tab\":\"a\\tb\\\\c\\u0001\\u00"
    "e9\\u2028\",\"num\":\"42\",\"fl\":\" 3.5 \",\"words\":\"The quick-brown fox (jumps) <over> it\",\"dup\":"
    "[1,1.0,true,\"a\",\"A\",\"a\"],\"tree\":[{\"v\":1,\"c\":[{\"v\":2,\"c\":[]},{\"v\":3,\"c\":[{\"v\":4,\"c"
    "\":[]}]}]}],\"pairs\":[[\"a\",1],[\"b\",2]]"
    ",\"tools\":[{\"type\":"
    "\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"s\":{\"type\":\"string\"}}}}}]}";

static void render(const struct template *t, bool tools)
{
    static const char *const trusted[] = {"bos_token", "eos_token", NULL};
    static json_t *vars[2];
    const struct template_limits limits = {20000, 100, 1 << 20};
    struct text out = {0};
    for (int i = 0; i < 2 && !vars[i]; i++) vars[i] = json_loads(vars_text, 0, NULL);
    json_object_del(vars[0], "tools");
    int r = template_render(t, vars[tools], trusted, 1700000000, &limits, &out);
    if (r < 0) fuzz_refused(r);
    for (size_t i = 0; r == 0 && i < out.n_spans; i++)
        FUZZ_CHECK(out.spans[i].end <= out.s.len && (i == 0 || out.spans[i].end > out.spans[i - 1].end));
    text_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct template *t;
    struct markup *m;
    if (size < 1 || size > 4096) return 0;
    const char *source = (const char *)data + 1;
    int r = template_new(&t, source, size - 1);
    if (r < 0) {
        fuzz_refused(r);
        return 0;
    }
    render(t, data[0] & 2);
    if (data[0] & 1 && size < 1024) {
        const struct markup_source s = {
            .template = t, .text = source, .len = size - 1, .bos = "<s>", .eos = "</s>", .now = 1700000000};
        FUZZ_CHECK(markup_new(&m, &s) == 0);
        markup_start(m, source, size - 1);
        markup_free(m);
    }
    template_free(t);
    return 0;
}
