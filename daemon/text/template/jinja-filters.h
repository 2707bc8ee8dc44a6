/* SPDX-License-Identifier: MIT */
#pragma once
/* Filters on collections (jinja-filters-seq.c, jinja-filters-map.c), for the table in jinja-filters.c. */
#include "daemon/text/template/jinja-eval.h"

int jj_f_batch(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_f_dictsort(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_f_first(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_f_groupby(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_f_items(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_f_join(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_f_last(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_f_length(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_f_list(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_f_map(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_f_min_max(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_f_reverse(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_f_select(struct jj *j, const struct jj_call *c,
                struct jj_value *out); /* select, reject, selectattr, rejectattr */
int jj_f_slice(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_f_sort(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_f_sum(struct jj *j, const struct jj_call *c, struct jj_value *out);
int jj_f_unique(struct jj *j, const struct jj_call *c, struct jj_value *out);
