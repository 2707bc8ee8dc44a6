/* SPDX-License-Identifier: MIT */
/* When free memory is returned to the system. The service and the allocator's figures are the test's. */
#include "daemon/io/memory-trim.h"
#include "tests/libcommon/check.h"
#include <malloc.h>
#include <stdlib.h>

static uint64_t accepted, bytes;
static size_t free_bytes, used_bytes;
static int trims;

uint64_t __wrap_service_accepted(const struct service *s);
uint64_t __wrap_service_bytes(const struct service *s);
struct mallinfo2 __wrap_mallinfo2(void);
int __wrap_malloc_trim(size_t pad);

uint64_t __wrap_service_accepted(const struct service *s)
{
    return accepted;
}

uint64_t __wrap_service_bytes(const struct service *s)
{
    return bytes;
}

struct mallinfo2 __wrap_mallinfo2(void)
{
    return (struct mallinfo2){.fordblks = free_bytes, .uordblks = used_bytes};
}

int __wrap_malloc_trim(size_t pad)
{
    trims++;
    return 1;
}

static int setup(void **state)
{
    struct memory_trim *t = *state = calloc(1, sizeof(*t));
    accepted = bytes = used_bytes = 0;
    free_bytes = 1 << 30;
    trims = 0;
    return t ? sd_event_new(&t->event) : -1;
}

static int teardown(void **state)
{
    struct memory_trim *t = *state;
    memory_trim_fini(t);
    sd_event_unref(t->event);
    free(t);
    return 0;
}

static bool is_armed(const struct memory_trim *t)
{
    int on = SD_EVENT_OFF;
    if (t->timer) assert_true(sd_event_source_get_enabled(t->timer, &on) >= 0);
    return on != SD_EVENT_OFF;
}

/* The timer ends now. */
static void expire(struct memory_trim *t)
{
    assert_true(is_armed(t));
    assert_int_equal(sd_event_source_set_time(t->timer, 1), 0);
    assert_true(sd_event_run(t->event, UINT64_MAX) > 0);
    assert_false(is_armed(t));
}

static void test_after_requests(void **state)
{
    struct memory_trim *t = *state;
    memory_trim_look(t, NULL);
    assert_false(is_armed(t)); /* nothing happened yet */
    accepted = 1;
    memory_trim_look(t, NULL);
    expire(t);
    assert_int_equal(trims, 1);
    memory_trim_look(t, NULL);
    assert_false(is_armed(t)); /* nothing has happened since */
    bytes = 100;
    memory_trim_look(t, NULL);
    expire(t);
    assert_int_equal(trims, 2);
}

/* Many requests trim once, and not later than the first of them alone. */
static void test_many_requests(void **state)
{
    struct memory_trim *t = *state;
    uint64_t end;
    accepted = 1;
    memory_trim_look(t, NULL);
    assert_int_equal(sd_event_source_set_time(t->timer, 5), 0);
    for (accepted = 2; accepted < 10; accepted++) memory_trim_look(t, NULL);
    assert_int_equal(sd_event_source_get_time(t->timer, &end), 0);
    assert_int_equal(end, 5);
    expire(t);
    assert_int_equal(trims, 1);
    memory_trim_look(t, NULL); /* for those that came meanwhile */
    expire(t);
    assert_int_equal(trims, 2);
}

/* Trims only when @least bytes are free. */
static void check_least(struct memory_trim *t, size_t least)
{
    int before = trims;
    free_bytes = least - 1;
    accepted++;
    memory_trim_look(t, NULL);
    expire(t);
    assert_int_equal(trims, before);
    free_bytes = least;
    accepted++;
    memory_trim_look(t, NULL);
    expire(t);
    assert_int_equal(trims, before + 1);
}

static void test_little_is_free(void **state)
{
    check_least(*state, 1 << 20);
    used_bytes = 1 << 30;
    check_least(*state, 64 << 20);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(test_after_requests), TEST(test_many_requests), TEST(test_little_is_free)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
