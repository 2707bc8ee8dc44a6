/* SPDX-License-Identifier: MIT */
#include "tests/sample/fixture.h"

struct fixture_request fixture_plain(void)
{
    return (struct fixture_request){.p = {.top_p = 1, .typical_p = 1, .temperature = 1, .repeat = 1, .repeat_n = 64}};
}

int fixture_pick(struct sample_scratch *x, const struct fixture_request *w, const float *logits, const int32_t *history,
                 size_t n, double u, int32_t *id)
{
    struct sampling s = {.params = w->p};
    const struct logits_history h = {history, n};
    assert_int_equal(sampling_start(&s, w->bias, w->n_bias, w->ban, w->n_ban), 0);
    int r = logits_chain_pick(&s.chain, x, (struct logits){.row = logits}, &h, u, id);
    sampling_fini(&s);
    return r;
}
