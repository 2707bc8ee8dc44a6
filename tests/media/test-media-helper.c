/* SPDX-License-Identifier: MIT */
/* The helper, also from inside the sandbox of hobd, and what becomes of errors. */
#include "daemon/io/sandbox-calls.h"
#include "daemon/media/media-helper.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/sandbox.h"
#include "tests/io/child.h"
#include "tests/libcommon/check.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A gray pixel of 77 (PNG), and four samples (WAV). */
static const uint8_t pixel[] = {0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0,    0,    0,    0x0d, 0x49, 0x48,
                                0x44, 0x52, 0,    0,    0,    1,    0,    0,    0,    1,    8,    0,    0,    0,
                                0,    0x3a, 0x7e, 0x9b, 0x55, 0,    0,    0,    0x0a, 0x49, 0x44, 0x41, 0x54, 0x78,
                                0x9c, 0x63, 0xf0, 5,    0,    0,    0x4f, 0,    0x4e, 0x69, 0x8b, 1,    0x6c, 0,
                                0,    0,    0,    0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
static const uint8_t wav[] = "RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0data\x08\0\0\0"
                             "\0\0\0\x40\0\x80\xff\x7f";

#define ENDED "the process that starts decoders has ended: files are refused until hobd starts again"

enum { STARTS = 8 /* of media-helper.c */ };

static atomic_size_t no_memory_for; /* bytes; 0: there is memory */

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);

void *__wrap_malloc(size_t n)
{
    return n && n == no_memory_for ? NULL : __real_malloc(n);
}

static int decode_both(struct media_helper *h)
{
    struct media m;
    EXPECT(media_helper_decode(h, pixel, sizeof(pixel), &m) == 0);
    EXPECT(m.kind == MEDIA_IMAGE && m.format == MEDIA_PNG && m.width == 1 && m.height == 1);
    EXPECT(memcmp(m.data, (uint8_t[]){77, 77, 77}, 3) == 0);
    media_fini(&m);
    EXPECT(media_helper_decode(h, wav, sizeof(wav) - 1, &m) == 0);
    EXPECT(m.kind == MEDIA_SOUND && m.samples == 4);
    EXPECT(memcmp(m.data, (float[]){0, 0.5f, -1, 32767.0f / 32768}, 16) == 0);
    media_fini(&m);
    EXPECT(media_helper_decode(h, pixel, 40, &m) == -EBADMSG && !m.data);
    EXPECT(strcmp(error_text(-EBADMSG), "image: PNG: truncated: the last chunk, IEND, is missing") == 0);
    EXPECT(media_helper_decode(h, NULL, 0, &m) == -EBADMSG);
    EXPECT(strcmp(error_text(-EBADMSG), "the file is empty") == 0);
    EXPECT(media_helper_decode(h, pixel, MEDIA_FILE_MAX + 1ul, &m) == -EFBIG);
    return 0;
}

/* As hobd does it: start the helper, enter the sandbox, decode. */
static int in_the_sandbox(void)
{
    struct media_helper *h;
    EXPECT(media_helper_new(&h, HOBD_DECODE) == 0);
    if (!sandbox_is_left_out()) {
        int r = sandbox_calls();
        if (r == -ENOSYS || r == -EINVAL || r == -EOPNOTSUPP) return NO_KERNEL;
        EXPECT(r == 0);
        FAILS(fork(), EPERM);
    }
    if (decode_both(h)) return 1;
    return media_helper_free(h) != NULL;
}

static void test_sandbox(void **state)
{
    int r = child_run(in_the_sandbox);
    if (r == NO_KERNEL) skip();
    assert_int_equal(r, 0);
}

/* The next file is decoded when there is memory again. */
static void test_no_memory(void **state)
{
    struct media_helper *h;
    struct media m;
    assert_int_equal(media_helper_new(&h, HOBD_DECODE), 0);
    no_memory_for = 3 + 1; /* the pixel, and one byte */
    for (int i = 0; i < 2 * MEDIA_HELPER_FILES; i++) {
        assert_int_equal(media_helper_decode(h, pixel, sizeof(pixel), &m), -ENOMEM);
        assert_string_equal(error_text(-ENOMEM), "decoding: no memory for the decoded file");
    }
    no_memory_for = 0;
    assert_int_equal(decode_both(h), 0);
    media_helper_free(h);
}

static void *decode_in_thread(void *h)
{
    for (int i = 0; i < 10; i++)
        if (decode_both(h)) return h;
    return NULL;
}

static void test_threads(void **state)
{
    struct media_helper *h;
    pthread_t threads[4];
    void *failed;
    assert_int_equal(media_helper_new(&h, HOBD_DECODE), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, decode_in_thread, h), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_null(media_helper_free(h));
    assert_int_equal(waitpid(-1, NULL, 0), -1); /* nobody is left */
    assert_int_equal(errno, ECHILD);
    assert_null(media_helper_free(NULL));
}

static void test_no_helper(void **state)
{
    struct media_helper *h = NULL;
    assert_int_equal(media_helper_new(&h, "/nowhere/hobd-decode"), -ENOENT);
    assert_string_equal(error_text(-ENOENT), "/nowhere/hobd-decode cannot start: No such file or directory");
    assert_null(h);
    assert_int_equal(media_helper_new(&h, "/bin/true"), -ENODATA); /* a keeper that ends at once */
    assert_string_equal(error_text(-ENODATA), ENDED);
    assert_null(h);
}

/* A program whose keeper is hobd-decode's, and whose helpers do @what. */
static const char *make_program(char path[32], const char *what)
{
    strcpy(path, "/tmp/hob-helper-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    dprintf(fd, "#!/bin/sh\n[ $1 = helper ] || exec %s keeper $0\n%s\n", HOBD_DECODE, what);
    assert_int_equal(fchmod(fd, 0700), 0);
    close(fd);
    return path;
}

static void test_helpers_that_end(void **state)
{
    struct media_helper *h;
    struct media m;
    char path[32];
    int r;
    assert_int_equal(media_helper_new(&h, make_program(path, "exit 0")), 0);
    for (int i = 0; i <= STARTS + 2 * MEDIA_HELPER_FILES; i++) {
        r = media_helper_decode(h, pixel, sizeof(pixel), &m);
        if (r == -EAGAIN) break;
        assert_int_equal(r, -ENODATA);
        assert_string_equal(error_text(r), "decoding: the other process has ended");
    }
    assert_int_equal(r, -EAGAIN); /* and neither a loop nor a process is left */
    assert_string_equal(error_text(r),
                        "decoding: the processes that start decoders have ended 8 times within a minute: "
                        "try again later");
    media_helper_free(h);
    unlink(path);
}

/* The child processes of @pid, of which there are at most 8. Returns their number. */
static int children(pid_t pid, int out[8])
{
    char path[64];
    int n = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    _cleanup_(fclosep) FILE *f = fopen(path, "re");
    assert_non_null(f);
    while (n < 8 && fscanf(f, "%d", &out[n]) == 1) n++;
    return n;
}

/* End all child processes of @pid by SIGKILL, and wait until they are none. Returns their number. */
static int kill_children(pid_t pid)
{
    int all[8], n = children(pid, all);
    for (int i = 0; i < n; i++) assert_int_equal(kill(all[i], SIGKILL), 0);
    for (int i = 0; i < 60000 && children(pid, all) > 0; i++) usleep(1000);
    assert_int_equal(children(pid, all), 0);
    return n;
}

/* The process that starts helpers. */
static pid_t keeper(void)
{
    int all[8];
    assert_int_equal(children(getpid(), all), 1);
    return all[0];
}

static void test_killed_helpers(void **state)
{
    struct media_helper *h;
    struct media m;
    assert_int_equal(media_helper_new(&h, HOBD_DECODE), 0);
    for (int i = 0; i < STARTS / MEDIA_HELPER_FILES; i++) {
        assert_int_equal(kill_children(keeper()),
                         i ? 1 : MEDIA_HELPER_FILES); /* the second is started when it is needed */
        assert_int_equal(decode_both(h), 0);
    }
    kill_children(keeper());
    assert_int_equal(kill(keeper(), SIGKILL), 0);
    assert_int_equal(waitpid(-1, NULL, 0) > 0, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(media_helper_decode(h, pixel, sizeof(pixel), &m), -ENODATA);
        assert_string_equal(error_text(-ENODATA), "decoding: " ENDED);
    }
    media_helper_free(h);
}

static void *decode_until_stop(void *h)
{
    struct media m;
    return media_helper_decode(h, pixel, sizeof(pixel), &m) == -ECANCELED ? NULL : h;
}

static void test_stop(void **state)
{
    struct media_helper *h;
    pthread_t threads[MEDIA_HELPER_FILES + 1];
    char path[32];
    void *failed;
    /* It reads the file and never answers. */
    assert_int_equal(media_helper_new(&h, make_program(path, "exec /bin/cat >/dev/null 2>&1")), 0);
    for (int i = 0; i <= MEDIA_HELPER_FILES; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, decode_until_stop, h), 0);
    usleep(20000); /* some of them probably wait for an answer */
    media_helper_stop(h);
    for (int i = 0; i <= MEDIA_HELPER_FILES; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    media_helper_free(h);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sandbox),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_no_helper),
        cmocka_unit_test(test_helpers_that_end),
        cmocka_unit_test(test_killed_helpers),
        cmocka_unit_test(test_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
