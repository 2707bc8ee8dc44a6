/* SPDX-License-Identifier: MIT */
/* The methods of strings that test every character. */
#include "daemon/text/template/jinja-eval.h"
#include "daemon/text/template/jinja-methods.h"
#include "daemon/text/template/jinja-unicode.h"

static bool is_alnum(uint32_t c)
{
    return jj_is_alpha(c) || jj_is_numeric(c) || jj_is_decimal(c) || jj_is_digit(c);
}

static bool is_ascii(uint32_t c)
{
    return c < 0x80;
}

/* isalpha and similar methods: true if all characters pass and there is at least one (isascii and isprintable: or
 * none). */
int jj_method_is(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    static const struct {
        const char *name;
        bool (*test)(uint32_t);
        bool empty;
    } tests[] = {
        {"isalpha", jj_is_alpha, false}, {"isalnum", is_alnum, false},
        {"isdigit", jj_is_digit, false}, {"isdecimal", jj_is_decimal, false},
        {"isspace", jj_is_space, false}, {"isnumeric", jj_is_numeric, false},
        {"isascii", is_ascii, true},     {"isprintable", jj_is_printable, true},
    };
    size_t k = 0;
    while (strcmp(tests[k].name, c->name) != 0) k++;
    *out = jj_bool(c->self.s->len || tests[k].empty);
    for (size_t i = 0; i < c->self.s->len && out->b;) {
        uint32_t ch;
        i += jj_char(c->self.s->p + i, &ch);
        out->b = tests[k].test(ch);
    }
    return 0;
}

/* isupper and islower: true if there is no letter of the other case and at least one of this case. */
int jj_method_is_case(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    bool upper = c->name[2] == 'u', any = false;
    *out = jj_bool(false);
    for (size_t i = 0; i < c->self.s->len;) {
        uint32_t ch;
        i += jj_char(c->self.s->p + i, &ch);
        if (!jj_is_cased(ch)) continue;
        any = true;
        if (upper ? !jj_is_upper(ch) : !jj_is_lower(ch)) return 0;
    }
    *out = jj_bool(any);
    return 0;
}

int jj_method_istitle(struct jj *j, const struct jj_call *c, struct jj_value *out)
{
    bool any = false, before = false;
    *out = jj_bool(false);
    for (size_t i = 0; i < c->self.s->len;) {
        uint32_t ch;
        i += jj_char(c->self.s->p + i, &ch);
        bool cased = jj_is_cased(ch), lower = jj_is_lower(ch);
        if (cased && lower != before) return 0;
        any |= cased;
        before = cased;
    }
    *out = jj_bool(any);
    return 0;
}
