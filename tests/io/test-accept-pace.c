/* SPDX-License-Identifier: MIT */
#include "daemon/io/accept-pace.h"
#include "tests/libcommon/check.h"

static void a_burst_is_not_delayed(void **state)
{
    struct accept_pace p = {0};

    assert_int_equal(accept_pace_charge(&p, 2000, 7000000), 0);
    assert_int_equal(accept_pace_charge(&p, 999, 7000000), 0);
    assert_int_equal(accept_pace_charge(&p, 1, 7000000), 15000);
}

static void a_pause_pays_the_debt(void **state)
{
    struct accept_pace p = {0};
    uint64_t now = 7000000, pause = accept_pace_charge(&p, 4000, now);

    assert_int_equal(pause, 20000);
    now += pause;
    assert_int_equal(accept_pace_charge(&p, 2999, now), 0);
    assert_int_equal(accept_pace_charge(&p, 1000, now + 2500), 3499 * 5); /* 500 us were paid */
}

/* A rest longer than the debt gives no credit. */
static void time_without_connections_is_not_saved(void **state)
{
    struct accept_pace p = {0};

    assert_int_equal(accept_pace_charge(&p, 1000, 7000000), 0);
    assert_int_equal(accept_pace_charge(&p, 3000, 3600000000), 15000);
}

/* Peers who connect all the time take a fifth of it. */
static void the_share_is_a_fifth(void **state)
{
    const uint64_t begin = 7000000;
    struct accept_pace p = {0};
    uint64_t now = begin, used = 0;

    while (now - begin < 60000000) {
        used += 500;
        now += 500;
        now += accept_pace_charge(&p, 500, now);
    }
    assert_in_range(used * 5, (now - begin) * 95 / 100, (now - begin) * 105 / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_is_not_delayed),
        cmocka_unit_test(a_pause_pays_the_debt),
        cmocka_unit_test(time_without_connections_is_not_saved),
        cmocka_unit_test(the_share_is_a_fifth),
    };

    return cmocka_run_group_tests_name("accept-pace", tests, NULL, NULL);
}
