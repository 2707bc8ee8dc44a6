/* SPDX-License-Identifier: MIT */
#pragma once
/* Small chat templates, one for each form of markup. Turns are [ROLE]text[/ROLE]; the calls differ. */

struct own_template {
    const char *name, *source;
};

#define TURNS(BEFORE, TEXT, CALLS, PROMPT)                                                                             \
    "{{ bos_token }}{% if tools %}(tools: {{ tools | tojson }}){% endif %}"                                            \
    "{% for m in messages %}{% if m.role == 'assistant' %}<a>" BEFORE TEXT CALLS "</a>\n"                              \
    "{% else %}<u>{{ m.content }}</u>\n{% endif %}{% endfor %}"                                                        \
    "{% if add_generation_prompt %}<a>" PROMPT "{% endif %}"
#define TEXT        "{{ m.content or '' }}"
#define CALLS(CALL) "{% for c in m.tool_calls or [] %}{% set f = c.function %}" CALL "{% endfor %}"
#define SECTION(BEGIN, CALL, BETWEEN, END)                                                                             \
    "{% if m.tool_calls %}" BEGIN CALLS(CALL "{% if not loop.last %}" BETWEEN "{% endif %}") END "{% endif %}"

#define REASON(FIELD, OPEN, CLOSE) "{% if m." FIELD " %}" OPEN "{{ m." FIELD " }}" CLOSE "{% endif %}"
#define ENVELOPE                   "{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson }}}"

static const struct own_template own_templates[] = {
    {"plain", TURNS("", TEXT, "", "")},
    {"envelope",
     TURNS(REASON("reasoning_content", "<think>\n", "\n</think>\n\n"), TEXT, CALLS("\n<call>\n" ENVELOPE "\n</call>"),
           "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}")},
    {"section",
     TURNS(REASON("thinking", "[MUSE]", "[/MUSE]"), TEXT,
           SECTION("[CALLS][",
                   "{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson }}, \"id\": \"{{ c.id }}\"}",
                   ", ", "]"),
           "{% if thinking is not defined or thinking %}[MUSE]{% endif %}")},
    {"bare",
     TURNS("", "{% if not m.tool_calls %}{{ m.content }}{% endif %}",
           "{% if m.tool_calls | length > 1 %}{{ raise_exception('one call only') }}{% endif %}" CALLS(ENVELOPE), "")},
    {"keyed",
     TURNS("", TEXT, SECTION("<|calls|>[", "{\"{{ f.name }}\": {{ f.arguments | tojson }}}", ", ", "]<|end calls|>"),
           "")},
    {"wrapped", TURNS("", TEXT, CALLS("<fn>{\"type\": \"function\", \"function\": " ENVELOPE "}</fn>"), "")},
    {"named", TURNS("", TEXT, CALLS("[CALL]{{ f.name }}[ID]{{ c.id }}[ARGS]{{ f.arguments | tojson }}"), "")},
    {"numbered",
     TURNS(REASON("reasoning_content", "<think>", "</think>"), TEXT,
           SECTION("<|begin|>", "<|call|>tool.{{ f.name }}#{{ loop.index0 }}<|args|>{{ f.arguments | tojson }}<|done|>",
                   "", "<|end|>"),
           "<think>")},
    {"fenced", TURNS("", TEXT,
                     SECTION("<calls>", "<call>tool<sep>{{ f.name }}\n```json\n{{ f.arguments | tojson }}\n```</call>",
                             "\n", "</calls>"),
                     "")},
    {"quoted", TURNS("", "",
                     CALLS("<do|>{{ f.name }}{{ '{' }}"
                           "{% for k, v in f.arguments | items %}{{ k }}:"
                           "{% if v is string %}<q>{{ v }}<q>{% elif v is mapping %}"
                           "{{ '{hobk:[1,<q>hobx<q>]}' if v.hobk else '{deep:[1,<q>x<q>]}' }}"
                           "{% else %}{{ v | tojson }}{% endif %}{% if not loop.last %},{% endif %}{% endfor %}"
                           "}<|do>") TEXT,
                     "")},
    {"tagged",
     TURNS(REASON("reasoning_content", "<think>\n", "\n</think>\n"), TEXT,
           CALLS("\n<call>\n<function={{ f.name }}>\n{% for k, v in f.arguments | items %}<parameter={{ k }}>\n"
                 "{{ v if v is string else v | tojson }}\n</parameter>\n{% endfor %}</function>\n</call>"),
           "<think>\n")},
    {"paired", TURNS("", TEXT,
                     CALLS("\n<call>{{ f.name }}\n{% for k, v in f.arguments | items %}<key>{{ k }}</key>\n<value>"
                           "{{ v if v is string else v | tojson }}</value>\n{% endfor %}</call>"),
                     "")},
    {"attributes",
     TURNS("", TEXT,
           SECTION(
               "\n\n<all>\n",
               "<invoke name=\"{{ f.name }}\">\n{% for k, v in f.arguments | items %}<arg name=\"{{ k }}\" string="
               "\"{{ 'true' if v is string else 'false' }}\">{{ v if v is string else v | tojson }}</arg>\n{% endfor %}"
               "</invoke>\n",
               "", "</all>"),
           "")},
    {"recipients", TURNS("", "{% if m.content %}>>>all\n{{ m.content }}{% endif %}",
                         CALLS(">>>{{ f.name }}\n{{ f.arguments | tojson }}"), ">>>")},
    {"call", TURNS("", TEXT,
                   SECTION("<calls>[",
                           "{{ f.name }}({% for k, v in f.arguments | items %}{{ k }}={{ v | tojson }}"
                           "{% if not loop.last %}, {% endif %}{% endfor %})",
                           ", ", "]</calls>"),
                   "")},
    {"harmony", "{% for m in messages %}{% if m.role == 'assistant' %}"
                "{% if m.thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}"
                "{% if m.content %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}<|end|>{% endif %}"
                "{% for c in m.tool_calls or [] %}<|start|>assistant to=functions.{{ c.function.name "
                "}}<|channel|>commentary json<|message|>"
                "{{ c.function.arguments | tojson }}<|call|>{% endfor %}"
                "{% else %}<|start|>user<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
                "{% if add_generation_prompt %}<|start|>assistant{% endif %}"},
};
enum { N_OWN_TEMPLATES = sizeof(own_templates) / sizeof(*own_templates) };

/* The source of own template @name, or NULL. */
static inline const char *own_template(const char *name)
{
    for (int i = 0; i < N_OWN_TEMPLATES; i++)
        if (__builtin_strcmp(own_templates[i].name, name) == 0) return own_templates[i].source;
    return 0;
}
