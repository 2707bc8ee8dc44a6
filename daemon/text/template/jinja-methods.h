/* SPDX-License-Identifier: MIT */
#pragma once
/* The methods' tables, by type. */
#include "daemon/text/template/jinja-eval.h"

const struct jj_builtin *jj_find_str_method(const struct jj_str *name);
/* str.center, which is a filter too. */
int jj_method_center(struct jj *j, const struct jj_call *c, struct jj_value *out);
/* dict(…)'s arguments into @d. */
int jj_dict_fill(struct jj *j, struct jj_dict *d, const struct jj_args *args);
