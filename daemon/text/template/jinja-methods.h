/* SPDX-License-Identifier: MIT */
#pragma once
/* The tables of methods, by type. */
#include "daemon/text/template/jinja-eval.h"

const struct jj_builtin *jj_find_str_method(const struct jj_str *name);

/* jinja-methods-pad.c: methods of strings. "center" is also a filter. */
int jj_method_center(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_method_ljust(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_method_rjust(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_method_zfill(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_method_expandtabs(struct jj *j, const struct jj_call *c, struct jj_value *out);

/* jinja-methods-is.c: methods of strings. jj_method_is reads the test ("isalpha", …) from the name of the method,
 * jj_method_is_case reads the case ("isupper", "islower") from it. */
int jj_method_is(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_method_is_case(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_method_istitle(struct jj *j, const struct jj_call *c, struct jj_value *out);

/* Adds the arguments of dict(…) to @d. */
int jj_dict_fill(struct jj *j, struct jj_dict *d, const struct jj_args *args);
