/* SPDX-License-Identifier: MIT */
/* Helpers of builtins: finding one in its table, and reading its arguments. */
#include "daemon/text/template/jinja-eval.h"

const struct jj_builtin *jj_find_in(const struct jj_builtin *table, size_t n, const struct jj_str *name)
{
    for (size_t i = 0; i < n; i++)
        if (jj_str_is(name, table[i].name)) return &table[i];
    return NULL;
}

int jj_arg_int(struct jj *j, struct jj_value v, int64_t *out)
{
    if (!jj_given(v)) return 0;
    int r = jj_check_defined(j, v);
    if (r < 0) return r;
    if (!jj_is_integral(v)) return jj_error(j, "'%s' object cannot be interpreted as an integer", jj_type_name(v));
    *out = jj_integral(v);
    return 0;
}

void jj_arg_bool(struct jj_value v, bool *out)
{
    if (jj_given(v)) *out = jj_truth(v);
}

int jj_arg_str(struct jj *j, const struct jj_call *c, struct jj_value v, const struct jj_str **out)
{
    if (!jj_given(v)) return 0;
    int r = jj_check_defined(j, v);
    if (r < 0) return r;
    if (v.type != JJ_STR) return jj_error(j, "%s() argument must be str, not %s", c->name, jj_type_name(v));
    *out = v.s;
    return 0;
}
