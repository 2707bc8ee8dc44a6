/* SPDX-License-Identifier: MIT */
#include "daemon/model/xielu.h"
#include "libcommon/error.h"
#include <errno.h>
#include <math.h>

static int read_one(const struct gguf *g, const char *key, uint32_t n_layers, uint32_t layer, float *out)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return error_say(-EINVAL, "%s: key '%s' is missing", gguf_path(g), key);
    if (kv->type != GGUF_ARRAY) {
        int r = gguf_get_f32(g, key, out);
        if (r) return r;
    } else {
        if (kv->elem != GGUF_F32 || kv->n != n_layers)
            return error_say(-EINVAL, "%s: key '%s' is not an array of %u numbers, one for each layer", gguf_path(g),
                             key, n_layers);
        *out = gguf_array_f32(kv, layer);
    }
    if (fabsf(*out) <= 1e4f) return 0;
    return error_say(-EINVAL, "%s: key '%s' has the invalid value %g", gguf_path(g), key, *out);
}

static double softplus(double x)
{
    return x > 20 ? x : log1p(exp(x));
}

int xielu_read(const struct gguf *g, uint32_t n_layers, uint32_t layer, float out[4])
{
    float p = 0, n = 0, beta = 0, eps = 0;
    int r = read_one(g, "xielu.alpha_p", n_layers, layer, &p);
    if (!r) r = read_one(g, "xielu.alpha_n", n_layers, layer, &n);
    if (!r) r = read_one(g, "xielu.beta", n_layers, layer, &beta);
    if (!r) r = read_one(g, "xielu.eps", n_layers, layer, &eps);
    if (r) return r;
    if (eps > 0) return error_say(-EINVAL, "%s: key 'xielu.eps' is %g, which is above 0", gguf_path(g), eps);
    out[0] = (float)softplus(p);
    out[1] = (float)(beta + softplus(n));
    out[2] = beta;
    out[3] = eps;
    return 0;
}
