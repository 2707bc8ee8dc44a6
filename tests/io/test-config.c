/* SPDX-License-Identifier: MIT */
#include "daemon/serve-config.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char home[64], conf[128];

/* A home with nothing in it, and no other settings. */
static int setup(void **state)
{
    struct options *o = calloc(1, sizeof *o);
    char hob[96];

    snprintf(home, sizeof home, "/tmp/hob-options-XXXXXX");
    if (!o || !mkdtemp(home)) return -1;
    snprintf(hob, sizeof hob, "%s/hob", home);
    mkdir(hob, 0700);
    snprintf(conf, sizeof conf, "%s/hobd.conf", hob);
    setenv("XDG_CONFIG_HOME", home, 1);
    unsetenv("CONFIGURATION_DIRECTORY");
    unsetenv("STATE_DIRECTORY");
    unsetenv("HOB_SOCKET");
    unsetenv("HOB_CPU");
    if (options_init(o) < 0) return -1;
    *state = o;
    return 0;
}

static int teardown(void **state)
{
    struct options *o = *state;
    char hob[96];

    options_fini(o);
    free(o);
    unlink(conf);
    snprintf(hob, sizeof hob, "%s/hob", home);
    rmdir(hob);
    return rmdir(home);
}

static void write_conf(const char *text)
{
    FILE *f = fopen(conf, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

#define LOAD(o, ...)                                                                                                   \
    options_load(o, (int)(sizeof((char *[]){"serve", __VA_ARGS__}) / sizeof(char *)),                                  \
                 (char *[]){"serve", __VA_ARGS__, NULL})

static void expect_wrong(int r, const char *part)
{
    assert_int_equal(r, -EINVAL);
    if (!strstr(error_text(r), part)) fail_msg("'%s' does not say '%s'", error_text(r), part);
}

/* What --help and the manual say. */
static void defaults(void **state)
{
    struct options *o = *state;

    assert_int_equal(options_load(o, 1, (char *[]){"serve", NULL}), OPTIONS_RUN);
    assert_string_equal(o->model, "default");
    assert_null(o->socket);
    assert_false(o->system);
    assert_int_equal(o->engine.ctx, 0);
    assert_int_equal(o->engine.parallel, 16);
    assert_int_equal(o->engine.threads, 0);
    assert_int_equal(o->engine.kv_bytes, 0);
    assert_int_equal(o->engine.kv_host_bytes, KV_HOST_DEFAULT);
    assert_int_equal(o->engine.kv_type, KERN_KV_F16);
    assert_int_equal(o->idle_exit_usec, 15ull * 60 * 1000000);
    assert_int_equal(o->engine.queue, 256);
    assert_int_equal(o->engine.queue_timeout_usec, 600ull * 1000000);
    assert_true(o->engine.cache_bytes == 4ull << 30);
    assert_int_equal(o->engine.sessions.ttl_usec, 0);
    assert_true(o->engine.sessions.bytes == 1ull << 30);
    assert_int_equal(o->engine.sessions.count, 10000);
    assert_true(o->engine.disk_reserve == 256ull << 20);
    assert_int_equal(o->engine.batch_tokens, 0); /* the default of the backend */
    assert_int_equal(o->engine.batch_window_usec, 0);
    assert_int_equal(o->stop_timeout_usec, 30ull * 1000000);
    assert_int_equal(o->log_level, LOG_INFO);
}

static void every_option(void **state)
{
    struct options *o = *state;

    assert_int_equal(LOAD(o, "-m", "small", "--socket", "/tmp/x.sock", "--ctx", "128", "--parallel=3", "--threads", "2",
                          "--kv-bytes", "512M", "--kv-type", "f32", "--cache-bytes", "3G", "--session-ttl", "1h",
                          "--session-bytes", "2M", "--session-count", "9", "--disk-reserve", "3M", "--idle-exit",
                          "500ms", "--queue", "7", "--queue-timeout", "1h", "--batch-tokens", "64", "--batch-window",
                          "5ms", "--stop-timeout", "3s", "--system", "-q"),
                     OPTIONS_RUN);
    assert_string_equal(o->model, "small");
    assert_string_equal(o->socket, "/tmp/x.sock");
    assert_int_equal(o->engine.ctx, 128);
    assert_int_equal(o->engine.parallel, 3);
    assert_int_equal(o->engine.threads, 2);
    assert_int_equal(o->engine.kv_bytes, 512u << 20);
    assert_int_equal(o->engine.kv_type, KERN_KV_F32);
    assert_true(o->engine.cache_bytes == 3ull << 30);
    assert_true(o->engine.sessions.ttl_usec == 3600ull * 1000000);
    assert_int_equal(o->engine.sessions.bytes, 2u << 20);
    assert_int_equal(o->engine.sessions.count, 9);
    assert_int_equal(o->engine.disk_reserve, 3u << 20);
    assert_int_equal(o->idle_exit_usec, 500000);
    assert_int_equal(o->engine.queue, 7);
    assert_int_equal(o->engine.queue_timeout_usec, 3600ull * 1000000);
    assert_int_equal(o->engine.batch_tokens, 64);
    assert_int_equal(o->engine.batch_window_usec, 5000);
    assert_int_equal(o->stop_timeout_usec, 3000000);
    assert_true(o->system);
    assert_int_equal(o->log_level, LOG_WARNING);
}

static void letters_and_clusters(void **state)
{
    struct options *o = *state;

    assert_int_equal(LOAD(o, "-vmname"), OPTIONS_RUN);
    assert_string_equal(o->model, "name");
    assert_int_equal(o->log_level, LOG_DEBUG);
}

static void wrong_values_are_named(void **state)
{
    struct options *o = *state;

    expect_wrong(LOAD(o, "--ctx", "-1"), "--ctx: '-1'");
    expect_wrong(LOAD(o, "--ctx", "0"), "--ctx");
    expect_wrong(LOAD(o, "--parallel", "0"), "--parallel");
    expect_wrong(LOAD(o, "--parallel", "many"), "many");
    expect_wrong(LOAD(o, "--threads", "100000"), "--threads");
    expect_wrong(LOAD(o, "--kv-bytes", "lots"), "lots");
    expect_wrong(LOAD(o, "--kv-bytes", "0"), "--kv-bytes");
    expect_wrong(LOAD(o, "--kv-host-bytes", "1Z"), "--kv-host-bytes");
    expect_wrong(LOAD(o, "--kv-host-bytes", "1G"), "kv-host-bytes: the CPU's KV pool is in host memory");
    expect_wrong(LOAD(o, "--kv-type", "q3"), "q3");
    expect_wrong(LOAD(o, "--cache-bytes", "1X"), "--cache-bytes");
    expect_wrong(LOAD(o, "--session-bytes", "much"), "--session-bytes");
    expect_wrong(LOAD(o, "--session-count", "0"), "--session-count");
    expect_wrong(LOAD(o, "--idle-exit", "5 parsecs"), "parsecs");
    expect_wrong(LOAD(o, "--queue", "0"), "--queue");
    expect_wrong(LOAD(o, "--queue-timeout", "soon"), "soon");
    expect_wrong(LOAD(o, "--batch-tokens", "0"), "--batch-tokens");
    expect_wrong(LOAD(o, "--batch-window", "2s"), "--batch-window");
    expect_wrong(LOAD(o, "--stop-timeout", ""), "--stop-timeout");
    expect_wrong(LOAD(o, "-m", ""), "--model");
    expect_wrong(LOAD(o, "--socket", ""), "--socket");
}

static void wrong_options_are_named(void **state)
{
    struct options *o = *state;

    expect_wrong(LOAD(o, "--nonsense"), "--nonsense");
    expect_wrong(LOAD(o, "-q", "--paralel", "3"), "nearest is --parallel");
    expect_wrong(LOAD(o, "--paralel=3"), "nearest is --parallel");
    expect_wrong(LOAD(o, "-Z"), "-Z");
    expect_wrong(LOAD(o, "-qZ"), "-Z");
    expect_wrong(LOAD(o, "--ctx"), "--ctx needs a value");
    expect_wrong(LOAD(o, "-m"), "-m needs a value");
    expect_wrong(LOAD(o, "--system=yes"), "--system takes no value");
    expect_wrong(LOAD(o, "model.gguf"), "model.gguf");
    expect_wrong(LOAD(o, "-q", "--", "model.gguf"), "model.gguf");
}

static void help_and_version(void **state)
{
    struct options *o = *state;
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);

    assert_int_equal(LOAD(o, "--help"), OPTIONS_HELP);
    assert_int_equal(LOAD(o, "-h"), OPTIONS_HELP);
    assert_int_equal(LOAD(o, "--version"), OPTIONS_VERSION);
    options_help(f);
    fclose(f);
    assert_non_null(strstr(text, "-m, --model MODEL"));
    assert_non_null(strstr(text, "--stop-timeout TIME"));
    free(text);
}

static void file_sets_and_command_line_wins(void **state)
{
    struct options *o = *state;

    write_conf("# mine\n\n  ctx = 128\nparallel=3\nmodel = \"from file\"\nverbose = yes\nquiet = no\nkv-type = q8\n");
    assert_int_equal(LOAD(o, "--parallel", "5"), OPTIONS_RUN);
    assert_int_equal(o->engine.ctx, 128);
    assert_int_equal(o->engine.parallel, 5);
    assert_string_equal(o->model, "from file");
    assert_int_equal(o->log_level, LOG_DEBUG);
    assert_int_equal(o->engine.kv_type, KERN_KV_Q8);
    assert_int_equal(LOAD(o, "-m", "mine"), OPTIONS_RUN);
    assert_string_equal(o->model, "mine");
}

static void file_mistakes_have_a_line(void **state)
{
    struct options *o = *state;

    write_conf("ctx = 128\nparalel = 3\n");
    expect_wrong(options_load(o, 1, (char *[]){"serve", NULL}), "hobd.conf:2");
    assert_non_null(strstr(error_text(-EINVAL), "'parallel'"));
    write_conf("# x\n\nkv-bytes = lots\n");
    expect_wrong(options_load(o, 1, (char *[]){"serve", NULL}), "hobd.conf:3: kv-bytes: 'lots'");
    write_conf("verbose = perhaps\n");
    expect_wrong(options_load(o, 1, (char *[]){"serve", NULL}), "hobd.conf:1: verbose: 'perhaps'");
    write_conf("system = yes\n");
    expect_wrong(options_load(o, 1, (char *[]){"serve", NULL}), "command line");
    write_conf("ctx\n");
    expect_wrong(options_load(o, 1, (char *[]){"serve", NULL}), "hobd.conf:1");
    write_conf("cache-bytes = 5Q\n");
    expect_wrong(LOAD(o, "--cache-bytes", "0"), "hobd.conf:1: cache-bytes");
    write_conf("help = yes\n");
    expect_wrong(options_load(o, 1, (char *[]){"serve", NULL}), "help");
}

static void socket_of_environment_is_between(void **state)
{
    struct options *o = *state;

    write_conf("socket = /from/file\n");
    assert_int_equal(LOAD(o, "-q"), OPTIONS_RUN);
    assert_string_equal(o->socket, "/from/file");
    setenv("HOB_SOCKET", "/from/environment", 1);
    assert_int_equal(LOAD(o, "-q"), OPTIONS_RUN);
    assert_string_equal(o->socket, "/from/environment");
    assert_int_equal(LOAD(o, "--socket", "/from/argv"), OPTIONS_RUN);
    assert_string_equal(o->socket, "/from/argv");
}

static void model_is_resolved(void **state)
{
    struct options *o = *state;
    char path[128];
    FILE *f;

    snprintf(path, sizeof path, "%s/hob/a.gguf", home);
    assert_int_equal(LOAD(o, "-m", path), OPTIONS_RUN);
    assert_int_equal(options_resolve(o), -ENOENT);
    assert_non_null(strstr(error_text(-ENOENT), path));
    f = fopen(path, "w");
    fclose(f);
    options_fini(o);
    assert_int_equal(options_init(o), 0);
    assert_int_equal(LOAD(o, "-m", path), OPTIONS_RUN);
    assert_int_equal(options_resolve(o), 0);
    assert_string_equal(o->engine.model_path, path);
    assert_int_equal(strncmp(o->engine.model_name, "a-", 2), 0);
    unlink(path);
}

/* What can change in a daemon that runs is taken over, the rest is named, until it is as it was. */
static void taking_over(void **state)
{
    struct options *o = *state, fresh;
    struct buf taken = BUF_INIT, pending = BUF_INIT;

    assert_int_equal(options_init(&fresh), 0);
    assert_int_equal(options_take(o, &fresh, &taken, &pending), 0);
    assert_int_equal(taken.len + pending.len, 0);
    assert_int_equal(options_set(&fresh, "queue", "3"), 0);
    assert_int_equal(options_set(&fresh, "quiet", NULL), 0);
    assert_int_equal(options_set(&fresh, "cache-bytes", "1G"), 0);
    assert_int_equal(options_set(&fresh, "prefixes", "/elsewhere"), 0);
    assert_int_equal(options_set(&fresh, "socket", "/elsewhere"), 0); /* from none */
    assert_int_equal(options_set(&fresh, "packed-file", "no"), 0);
    assert_int_equal(options_take(o, &fresh, &taken, &pending), 0);
    assert_string_equal(taken.data, "cache-bytes, queue, verbose or quiet");
    assert_string_equal(pending.data, "socket, packed-file, prefixes");
    assert_int_equal(o->engine.queue, 3);
    assert_int_equal(o->log_level, LOG_WARNING);
    assert_int_equal(o->engine.cache_bytes, 1ull << 30);
    assert_null(o->socket);
    assert_false(o->engine.packed.no_file);
    assert_string_equal(o->engine.prefixes_dir, "/etc/hob/prefixes");
    buf_clear(&taken);
    buf_clear(&pending);
    assert_int_equal(options_set(&fresh, "cache-bytes", "0"), 0);
    assert_int_equal(options_take(o, &fresh, &taken, &pending), 0);
    assert_int_equal(taken.len, 0);
    assert_string_equal(pending.data, "socket, cache-bytes, packed-file, prefixes");
    assert_int_equal(o->engine.cache_bytes, 1ull << 30);
    buf_fini(&taken);
    buf_fini(&pending);
    options_fini(&fresh);
}

/* When there is no memory for the names, nothing has been taken over: what is reported and what counts agree. */
static void taking_over_all_or_nothing(void **state)
{
    struct options *o = *state, fresh;
    struct buf taken = BUF_INIT, full = {.len = SIZE_MAX};
    uint32_t queue = o->engine.queue;

    assert_int_equal(options_init(&fresh), 0);
    assert_int_equal(options_set(&fresh, "queue", "3"), 0);
    assert_int_equal(options_set(&fresh, "batch-tokens", "64"), 0);
    assert_int_equal(options_take(o, &fresh, &taken, &full), -ENOMEM);
    assert_int_equal(o->engine.queue, queue);
    assert_int_equal(options_take(o, &fresh, &full, &taken), -ENOMEM);
    assert_int_equal(o->engine.queue, queue);
    buf_fini(&taken);
    options_fini(&fresh);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(defaults),
        T(every_option),
        T(letters_and_clusters),
        T(wrong_values_are_named),
        T(wrong_options_are_named),
        T(help_and_version),
        T(file_sets_and_command_line_wins),
        T(file_mistakes_have_a_line),
        T(socket_of_environment_is_between),
        T(model_is_resolved),
        T(taking_over),
        T(taking_over_all_or_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
