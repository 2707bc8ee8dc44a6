/* SPDX-License-Identifier: MIT */
#include "libcommon/blob.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void test_copy(void **state)
{
    (void)state;
    char text[] = "abc";
    struct blob *b, *empty;
    assert_int_equal(blob_new(&b, text, 3), 0);
    text[0] = 'x';
    assert_ptr_equal(blob_ref(b), b);
    assert_null(blob_unref(b));
    assert_int_equal(blob_size(b), 3);
    assert_memory_equal(blob_data(b), "abc", 3);
    blob_unref(b);
    assert_int_equal(blob_new(&empty, NULL, 0), 0);
    assert_int_equal(blob_size(empty), 0);
    blob_unref(empty);
    assert_int_equal(blob_size(NULL), 0);
    assert_null(blob_unref(NULL));
    assert_int_equal(blob_take(&b, strdup("taken"), 5), 0);
    assert_memory_equal(blob_data(b), "taken", 5);
    blob_unref(b);
}

static int memfd(const char *text, int seals)
{
    int fd = memfd_create("blob", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    if (seals) assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void test_map(void **state)
{
    (void)state;
    struct blob *b;
    int fd = memfd("pixels", F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
    assert_int_equal(blob_map(&b, fd, 5), -EFBIG);
    assert_int_equal(blob_map(&b, fd, 6), 0);
    close(fd);
    assert_int_equal(blob_size(b), 6);
    assert_memory_equal(blob_data(b), "pixels", 6);
    blob_unref(b);
}

static void test_refused(void **state)
{
    (void)state;
    struct blob *b;
    const int seals[] = {0, F_SEAL_WRITE, F_SEAL_SHRINK, F_SEAL_GROW};
    for (size_t i = 0; i < 4; i++) {
        int fd = memfd("pixels", seals[i]);
        assert_int_equal(blob_map(&b, fd, 100), -EINVAL);
        close(fd);
    }
    int fd = memfd("", F_SEAL_WRITE | F_SEAL_SHRINK);
    assert_int_equal(blob_map(&b, fd, 100), -EINVAL);
    close(fd);
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(blob_map(&b, fd, 100), -EINVAL);
    close(fd);
    assert_int_equal(blob_map(&b, -1, 100), -EINVAL);
}

/* Pages that nobody has written would be allocated for the reader. */
static void test_sparse(void **state)
{
    (void)state;
    struct blob *b;
    const long page = sysconf(_SC_PAGESIZE);
    const off_t size = 40 * page + 1;
    int fd = memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, size), 0);
    assert_int_equal(posix_fallocate(fd, page, size - page), 0); /* all but one page */
    int copy = memfd_create("whole", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(posix_fallocate(copy, 0, size), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK), 0);
    assert_int_equal(fcntl(copy, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK), 0);
    assert_int_equal(blob_map(&b, fd, (size_t)size), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "the file is sparse"));
    assert_int_equal(blob_map(&b, copy, (size_t)size), 0);
    assert_int_equal(blob_size(b), size);
    assert_int_equal(blob_data(b)[size - 1], 0);
    blob_unref(b);
    close(fd);
    close(copy);
}

static void test_huge_pages(void **state)
{
    (void)state;
    struct blob *b;
    int fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    if (fd < 0) {
        print_message("skipped: this kernel has no huge pages\n");
        skip();
    }
    assert_int_equal(ftruncate(fd, 2 << 20), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK), 0);
    assert_int_equal(blob_map(&b, fd, 4 << 20), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "the memfd has huge pages (MFD_HUGETLB)");
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),   cmocka_unit_test(test_map),        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_sparse), cmocka_unit_test(test_huge_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
