/* SPDX-License-Identifier: MIT */
/* Where sampling parameters come from: defaults, then the model's file, then the request. */
#include "daemon/engine/sample.h"
#include "libcommon/error.h"
#include <math.h>

void sample_params_init(struct sample_params *p)
{
    *p = (struct sample_params){
        .top_k = 40,
        .top_p = 0.95f,
        .min_p = 0.05f,
        .temperature = 0.7f,
        .repeat = 1.0f,
        .repeat_n = 64,
    };
}

/* @where goes in front of the sentence. */
static int check(const struct sample_params *p, const char *where)
{
    if (!(p->temperature >= 0.0f && p->temperature <= 100.0f))
        return error_say(-EINVAL, "%stemperature is %g; it must be from 0 to 100", where, (double)p->temperature);
    if (!(p->top_p >= 0.0f && p->top_p <= 1.0f))
        return error_say(-EINVAL, "%stop_p is %g; it must be from 0 to 1", where, (double)p->top_p);
    if (!(p->min_p >= 0.0f && p->min_p <= 1.0f))
        return error_say(-EINVAL, "%smin_p is %g; it must be from 0 to 1", where, (double)p->min_p);
    if (!(p->repeat > 0.0f && p->repeat <= 100.0f))
        return error_say(-EINVAL, "%srepeat_penalty is %g; it must be above 0 and at most 100", where,
                         (double)p->repeat);
    return 0;
}

int sample_params_file(struct sample_params *p, const struct gguf *g)
{
    struct sample_params n = *p;
    if (gguf_get_u32(g, "general.sampling.top_k", &n.top_k) < 0 ||
        gguf_get_f32(g, "general.sampling.top_p", &n.top_p) < 0 ||
        gguf_get_f32(g, "general.sampling.min_p", &n.min_p) < 0 ||
        gguf_get_f32(g, "general.sampling.temp", &n.temperature) < 0 ||
        gguf_get_f32(g, "general.sampling.penalty_repeat", &n.repeat) < 0 ||
        gguf_get_u32(g, "general.sampling.penalty_last_n", &n.repeat_n) < 0)
        return -EINVAL;
    int r = check(&n, "general.sampling: ");
    if (r == 0) *p = n;
    return r;
}

int sample_params_request(struct sample_params *p, const struct proto_sampling *s)
{
    if (!isnan(s->temperature)) p->temperature = s->temperature;
    if (!isnan(s->top_p)) p->top_p = s->top_p;
    if (!isnan(s->min_p)) p->min_p = s->min_p;
    if (!isnan(s->repeat_penalty)) p->repeat = s->repeat_penalty;
    if (s->top_k < -1) return error_say(-EINVAL, "top_k is %lld; it must be 0 (off) or more", (long long)s->top_k);
    if (s->top_k >= 0) p->top_k = s->top_k > UINT32_MAX ? UINT32_MAX : (uint32_t)s->top_k;
    if (s->seed < -1) return error_say(-EINVAL, "seed is %lld; it must be 0 or more", (long long)s->seed);
    return check(p, "");
}
