/* SPDX-License-Identifier: MIT */
#include "daemon/sample/params.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <float.h>
#include <math.h>

#define MIROSTAT_TAU 5.0f /* for a file that turns mirostat on without a tau */

void sample_params_init(struct sample_params *p)
{
    *p = (struct sample_params){
        .top_k = 40,
        .top_p = 0.95f,
        .min_p = 0.05f,
        .typical_p = 1.0f,
        .temperature = 0.7f,
        .repeat = 1.0f,
        .repeat_n = 64,
        .mirostat_eta = 0.1f,
    };
}

/* @where begins the error message. */
static int check(const struct sample_params *p, const char *where)
{
    const struct {
        const char *name;
        float value, min, max;
        const char *range;
    } values[] = {
        {"temperature", p->temperature, 0, 100, "from 0 to 100"},
        {"top_p", p->top_p, 0, 1, "from 0 to 1"},
        {"min_p", p->min_p, 0, 1, "from 0 to 1"},
        {"typical_p", p->typical_p, 0, 1, "from 0 to 1"},
        {"repeat_penalty", p->repeat, FLT_MIN, 100, "above 0 and at most 100"},
        {"frequency_penalty", p->frequency, -2, 2, "from -2 to 2"},
        {"presence_penalty", p->presence, -2, 2, "from -2 to 2"},
        {"mirostat", p->mirostat, 0, 100, "from 0 to 100"},
        {"mirostat_eta", p->mirostat_eta, FLT_MIN, 1, "above 0 and at most 1"},
    };
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
        if (!(values[i].value >= values[i].min && values[i].value <= values[i].max)) /* written so that a NaN fails */
            return error_say(-EINVAL, "%s%s is %g; it must be %s", where, values[i].name, (double)values[i].value,
                             values[i].range);
    return 0;
}

/* A count; a negative one in the file means all, for which @all is written. */
static int file_count(const struct gguf *g, const char *key, uint32_t all, uint32_t *out)
{
    int64_t v = 0;
    int r = gguf_get_i64(g, key, &v);
    if (r == 0) *out = v < 0 ? all : v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
    return r;
}

/* Versions 1 and 2 aim at the same surprise; a file with version 1 gets version 2. */
static int file_mirostat(struct sample_params *p, const struct gguf *g)
{
    uint32_t version = 0;
    float tau = MIROSTAT_TAU;
    if (gguf_get_u32(g, "general.sampling.mirostat", &version) < 0 ||
        gguf_get_f32(g, "general.sampling.mirostat_tau", &tau) < 0 ||
        gguf_get_f32(g, "general.sampling.mirostat_eta", &p->mirostat_eta) < 0)
        return -EINVAL;
    if (version > 2) return error_say(-EINVAL, "general.sampling: mirostat is %u; it must be 0, 1 or 2", version);
    if (version > 0) p->mirostat = tau;
    return 0;
}

static void file_warn(const struct gguf *g)
{
    float xtc = 0;
    if (gguf_get_f32(g, "general.sampling.xtc_probability", &xtc) == 0 && xtc > 0)
        log_warning("%s: general.sampling.xtc_probability is ignored: hob does not support XTC", gguf_path(g));
    if (gguf_find(g, "general.sampling.sequence"))
        log_info("%s: general.sampling.sequence is ignored: hob has a fixed order (see hob(1))", gguf_path(g));
}

int sample_params_file(struct sample_params *p, const struct gguf *g)
{
    struct sample_params n = *p;
    if (file_count(g, "general.sampling.top_k", 0, &n.top_k) < 0 ||
        gguf_get_f32(g, "general.sampling.top_p", &n.top_p) < 0 ||
        gguf_get_f32(g, "general.sampling.min_p", &n.min_p) < 0 ||
        gguf_get_f32(g, "general.sampling.temp", &n.temperature) < 0 ||
        gguf_get_f32(g, "general.sampling.penalty_repeat", &n.repeat) < 0 ||
        gguf_get_f32(g, "general.sampling.penalty_freq", &n.frequency) < 0 ||
        gguf_get_f32(g, "general.sampling.penalty_present", &n.presence) < 0 ||
        file_count(g, "general.sampling.penalty_last_n", UINT32_MAX, &n.repeat_n) < 0)
        return -EINVAL;
    int r = file_mirostat(&n, g);
    if (r == 0) r = check(&n, "general.sampling: ");
    if (r < 0) return r;
    file_warn(g);
    *p = n;
    return 0;
}

static void take(float *to, float value)
{
    if (!isnan(value)) *to = value;
}

int sample_params_request(struct sample_params *p, const struct proto_sampling *s)
{
    take(&p->temperature, s->temperature);
    take(&p->top_p, s->top_p);
    take(&p->min_p, s->min_p);
    take(&p->typical_p, s->typical_p);
    take(&p->repeat, s->repeat_penalty);
    take(&p->frequency, s->frequency_penalty);
    take(&p->presence, s->presence_penalty);
    take(&p->mirostat, s->mirostat);
    take(&p->mirostat_eta, s->mirostat_eta);
    if (s->top_k < -1) return error_say(-EINVAL, "top_k is %lld; it must be 0 (off) or more", (long long)s->top_k);
    if (s->top_k >= 0) p->top_k = s->top_k > UINT32_MAX ? UINT32_MAX : (uint32_t)s->top_k;
    if (s->repeat_last_n < -1)
        return error_say(-EINVAL, "repeat_last_n is %lld; it must be 0 (none) or more", (long long)s->repeat_last_n);
    if (s->repeat_last_n >= 0) p->repeat_n = s->repeat_last_n > UINT32_MAX ? UINT32_MAX : (uint32_t)s->repeat_last_n;
    if (s->seed < -1) return error_say(-EINVAL, "seed is %lld; it must be 0 or more", (long long)s->seed);
    return check(p, "");
}
