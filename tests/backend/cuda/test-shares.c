/* SPDX-License-Identifier: MIT */
/* Which layers several devices get (daemon/backend/cuda/shares.c). Without a GPU. */
#include "daemon/backend/cuda/shares.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define LAYERS 12

static struct hparams s;

/* @n devices of @room each, for LAYERS layers of 100 bytes; 50 bytes come before them, and 10 behind. */
static void init(struct cuda_shares *p, uint32_t n, size_t room)
{
    assert_int_equal(cuda_shares_init(p, &s), 0);
    for (uint32_t l = 0; l <= LAYERS; l++) p->begin[l] = 50 + 100 * l;
    p->begin[LAYERS + 1] = p->begin[LAYERS] + 10;
    p->n = n;
    for (uint32_t i = 0; i < n; i++) p->of[i].left = room + 7, p->of[i].fixed = 7;
}

static void check(struct cuda_shares *p, const uint32_t *ends)
{
    assert_int_equal(cuda_shares_balance(p), 0);
    for (uint32_t i = 0; i < p->n; i++) assert_int_equal(p->of[i].end, ends[i]);
    cuda_shares_fini(p);
}

static int setup(void **state)
{
    s = (struct hparams){.n_layers = LAYERS, .n_groups = 1};
    memset(s.by_layer.parts, LAYER_ATTENTION | LAYER_FFN, sizeof(s.by_layer.parts));
    return 0;
}

static void test_equal_devices(void **state)
{
    struct cuda_shares p;
    init(&p, 1, 100);
    check(&p, (const uint32_t[]){12});
    init(&p, 2, 1000);
    check(&p, (const uint32_t[]){6, 12});
    init(&p, 3, 1000);
    check(&p, (const uint32_t[]){4, 8, 12});
    init(&p, 4, 1000);
    for (uint32_t l = 0; l <= LAYERS + 1; l++) p.begin[l] += 450; /* a large output matrix */
    check(&p, (const uint32_t[]){6, 10, 11, 12});
}

static void test_other_rooms(void **state)
{
    struct cuda_shares p;
    init(&p, 2, 1000);
    p.of[0].left = 507;
    check(&p, (const uint32_t[]){4, 12});
    init(&p, 2, 1000);
    for (uint32_t l = 0; l < 3; l++) p.kv[l] = 300; /* as much as three layers of weights */
    check(&p, (const uint32_t[]){3, 12});
    init(&p, 2, 1000);
    p.of[1].left = 7; /* nothing: it has a layer all the same, and the caller sees that it does not fit */
    check(&p, (const uint32_t[]){11, 12});
}

static void test_weights(void **state)
{
    struct cuda_shares p;
    init(&p, 2, 1000);
    assert_int_equal(cuda_shares_weights(&p, 0, LAYERS), 50 + 1200 + 10);
    assert_int_equal(cuda_shares_weights(&p, 0, 5), 500 + 10);
    assert_int_equal(cuda_shares_weights(&p, 5, 7), 200);
    assert_int_equal(cuda_shares_weights(&p, 5, LAYERS), 50 + 700 + 10);
    cuda_shares_fini(&p);
}

/* The last seven layers read the KV of layer 4. */
static void test_shared_kv(void **state)
{
    struct cuda_shares p;
    s.by_layer.shared_kv = 7;
    init(&p, 2, 1000);
    check(&p, (const uint32_t[]){4, 12});
    init(&p, 4, 1000);
    check(&p, (const uint32_t[]){2, 3, 4, 12});
    s.by_layer.shared_kv = 10;
    init(&p, 3, 1000);
    assert_int_equal(cuda_shares_balance(&p), -EOPNOTSUPP);
    assert_non_null(strstr(error_text(-EOPNOTSUPP), "cannot be split over 3 devices"));
    cuda_shares_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_equal_devices, setup), cmocka_unit_test_setup(test_other_rooms, setup),
        cmocka_unit_test_setup(test_weights, setup), cmocka_unit_test_setup(test_shared_kv, setup)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
