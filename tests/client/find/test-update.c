/* SPDX-License-Identifier: MIT */
/* An index follows its folder: update.c, batch.c, compact.c, index.c, place.c, index-store.c, index-meta.c, walk.c,
 * results.c. */
#include "client/find/index-batch.h"
#include "client/find/results.h"
#include "client/find/update.h"
#include "libcommon/error.h"
#include "tests/client/find/stand-in.h"
#include "tests/support/folder.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char tree[FOLDER_PATH], cache[FOLDER_PATH];
static struct stand_in embedder;

static int setup(void **state)
{
    stand_in_init(&embedder, 48);
    if (folder_make(tree, "tree") < 0 || folder_make(cache, "cache") < 0) return -1;
    return setenv("XDG_CACHE_HOME", cache, 1);
}

static int teardown(void **state)
{
    chmod(folder_at(tree, "locked"), 0700);
    return folder_remove(tree) | folder_remove(cache);
}

/* Write a file that was changed long ago, so that its time is trusted. */
static void put(const char *name, const char *text)
{
    static time_t when = 1000000000;
    struct timespec times[2] = {{++when, 0}, {when, 0}};
    assert_int_equal(folder_put(tree, name, text), 0);
    assert_int_equal(utimensat(AT_FDCWD, folder_at(tree, name), times, 0), 0);
}

static int open_index(struct index *x)
{
    static const struct store_meta new = {.model = (char *)"m", .prefix = (char *)"doc: "};
    *x = (struct index)INDEX_INIT;
    int r = place_of(&x->place, tree);
    return r == 0 ? index_write(x, &new) : r;
}

static int update(struct update *u)
{
    struct index x;
    int r = open_index(&x);
    *u = (struct update){.index = &x, .embedder = &embedder.e, .max_size = 100000};
    if (r == 0) r = update_run(u);
    index_close(&x);
    return r;
}

/* Find @question; writes "path:line path:line" to the result, which the next call reuses. */
static const char *find(const char *question, unsigned most)
{
    static char all[4096];
    float v[48];
    struct index x = INDEX_INIT;
    struct results found;
    struct words w;
    size_t len = 0;
    *all = 0;
    assert_int_equal(place_of(&x.place, tree), 0);
    assert_int_equal(index_read(&x), 0);
    stand_in_vector(&embedder, v, question, strlen(question));
    words_of(&w, question);
    assert_int_equal(results_find(&found, &x, v, &w, most), 0);
    for (size_t i = 0; i < found.n; i++)
        len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s:%u%s", i ? " " : "", found.all[i].path,
                                found.all[i].line.no, found.all[i].changed ? "!" : "");
    results_fini(&found);
    index_close(&x);
    return all;
}

static void only_changed_files_are_embedded(void **state)
{
    struct update u;
    put("a.txt", "apples are red\nand round\n");
    put("sub/b.txt", "bananas are yellow\n");
    put("sub/c.bin", "x");
    assert_int_equal(update(&u), 0);
    assert_int_equal(u.changed, 3);
    assert_int_equal(u.chunks, 3);
    assert_int_equal(embedder.texts, 4); /* one is the probe */
    assert_string_equal(find("yellow bananas", 1), "sub/b.txt:1");
    assert_string_equal(find("round apples", 1), "a.txt:1");
    assert_int_equal(update(&u), 0);
    assert_int_equal(u.changed, 0);
    assert_int_equal(embedder.texts, 4);
    put("a.txt", "cherries\n\ncherries grow on trees\n");
    assert_int_equal(update(&u), 0);
    assert_int_equal(u.changed, 1);
    assert_int_equal(u.chunks, 3);
    assert_int_equal(embedder.texts, 6);
    assert_string_equal(find("trees", 1), "a.txt:3");
    put("a.txt", "cherries\n\ncherries grow on trees\n"); /* another time, the same text */
    assert_int_equal(update(&u), 0);
    assert_int_equal(u.changed, 1);
    assert_int_equal(embedder.texts, 6);
}

static void renamed_and_copied_files_are_not_embedded_again(void **state)
{
    struct update u;
    put("a.txt", "apples are red\n");
    put("b.txt", "bananas are yellow\n");
    assert_int_equal(update(&u), 0);
    size_t before = embedder.texts;
    assert_int_equal(rename(folder_at(tree, "a.txt"), folder_at(tree, "z.txt")), 0);
    put("copy/b.txt", "bananas are yellow\n");
    assert_int_equal(update(&u), 0);
    assert_int_equal(embedder.texts, before);
    assert_int_equal(u.gone, 1);
    assert_int_equal(u.chunks, 2);
    assert_string_equal(find("apples", 1), "z.txt:1");
    assert_string_equal(find("bananas", 2), "b.txt:1 copy/b.txt:1");
    assert_int_equal(unlink(folder_at(tree, "z.txt")), 0);
    assert_int_equal(update(&u), 0);
    assert_int_equal(u.chunks, 1);
    assert_string_equal(find("apples", 9), "b.txt:1 copy/b.txt:1");
}

static void what_does_not_belong_is_left_out(void **state)
{
    struct update u;
    static char large[100002];
    memset(large, 'l', 100001);
    put("in.txt", "taken\n");
    put("large.txt", large);
    put(".hidden/x.txt", "hidden\n");
    put("build/x.txt", "ignored\n");
    put("sub/.gitignore", "*.log\n");
    put("sub/x.log", "ignored\n");
    put(".gitignore", "build/\n");
    assert_int_equal(symlink("/etc", folder_at(tree, "out")), 0);
    assert_int_equal(symlink("in.txt", folder_at(tree, "link.txt")), 0);
    assert_int_equal(mkfifo(folder_at(tree, "fifo"), 0600), 0);
    int fd = open(folder_at(tree, "data.bin"), O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "a\0b", 3), 3);
    close(fd);
    assert_int_equal(update(&u), 0);
    assert_int_equal(u.walked.files, 2);
    assert_int_equal(u.walked.large, 1);
    assert_int_equal(u.walked.links, 2);
    assert_int_equal(u.binary, 1);
    assert_int_equal(u.chunks, 1);
    assert_string_equal(find("hidden ignored taken", 9), "in.txt:1");
}

static void a_folder_that_cannot_be_read_loses_nothing(void **state)
{
    struct update u;
    if (geteuid() == 0) {
        print_message("skipped: root may read everything\n");
        skip();
    }
    put("locked/a.txt", "apples\n");
    assert_int_equal(update(&u), 0);
    assert_int_equal(chmod(folder_at(tree, "locked"), 0), 0);
    assert_int_equal(update(&u), 0);
    assert_int_equal(u.walked.unreadable, 1);
    assert_int_equal(u.gone, 0);
    assert_int_equal(u.chunks, 1);
}

/* Many files of @n different texts. */
static void put_many(int n)
{
    char name[32], text[64];
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "many/%04d.txt", i);
        snprintf(text, sizeof(text), "text number w%d\n", i);
        put(name, text);
    }
}

static void an_interrupted_run_goes_on_where_it_was(void **state)
{
    struct update u;
    put_many(BATCH_CHUNKS + 300);
    embedder.fail_after = BATCH_CHUNKS + 100;
    assert_int_equal(update(&u), -ECANCELED);
    assert_string_equal(find("w5", 1), "many/0005.txt:1");
    embedder.fail_after = 0;
    size_t before = embedder.texts;
    assert_int_equal(update(&u), 0);
    assert_int_equal(embedder.texts, before + 300 + 1);
    assert_int_equal(u.chunks, BATCH_CHUNKS + 300);
    assert_string_equal(find("w700", 1), "many/0700.txt:1");
}

static void unused_rows_are_dropped(void **state)
{
    struct update u;
    char name[32];
    put_many(600);
    assert_int_equal(update(&u), 0);
    for (int i = 0; i < 600; i++) {
        snprintf(name, sizeof(name), "many/%04d.txt", i);
        if (i % 2 == 0) unlink(folder_at(tree, name));
    }
    put("new.txt", "brand new\n");
    assert_int_equal(update(&u), 0);
    assert_int_equal(u.gone, 300);
    struct index x;
    assert_int_equal(open_index(&x), 0);
    assert_int_equal(x.meta.rows, 301);
    assert_int_equal(x.meta.generation, 2);
    assert_int_equal(faccessat(x.place.fd, "vectors-1", F_OK, 0), -1);
    index_close(&x);
    assert_string_equal(find("w77", 1), "many/0077.txt:1");
    assert_string_equal(find("w599", 1), "many/0599.txt:1");
    assert_string_equal(find("brand new", 1), "new.txt:1");
    put("new.txt", "still newer\n");
    assert_int_equal(update(&u), 0);
    assert_string_equal(find("still newer", 1), "new.txt:1");
}

static void a_changed_file_is_marked(void **state)
{
    struct update u;
    put("a.txt", "apples\n");
    assert_int_equal(update(&u), 0);
    put("a.txt", "now pears\n");
    assert_string_equal(find("apples", 1), "a.txt:1!");
    assert_int_equal(unlink(folder_at(tree, "a.txt")), 0);
    assert_string_equal(find("apples", 1), "");
}

static void one_process_writes_at_a_time(void **state)
{
    struct index x, y;
    assert_int_equal(open_index(&x), 0);
    assert_int_equal(open_index(&y), -EBUSY);
    assert_non_null(strstr(error_text(-EBUSY), tree));
    index_close(&y);
    index_close(&x);
    assert_int_equal(open_index(&y), 0);
    index_close(&y);
}

static void another_model_is_refused(void **state)
{
    struct update u;
    float v[48];
    put("a.txt", "apples\n");
    assert_int_equal(update(&u), 0);
    put("b.txt", "bananas\n");
    embedder.seed = 5;
    assert_int_equal(update(&u), -EMEDIUMTYPE);
    assert_non_null(strstr(error_text(-EMEDIUMTYPE), "hob index --rm"));
    embedder.dim = 40;
    assert_int_equal(update(&u), -EMEDIUMTYPE);
    stand_in_init(&embedder, 48);
    struct index x;
    assert_int_equal(open_index(&x), 0);
    stand_in_vector(&embedder, v, INDEX_PROBE, strlen(INDEX_PROBE));
    assert_int_equal(index_check_model(&x, v, 48), 0);
    index_close(&x);
    assert_int_equal(update(&u), 0);
    assert_string_equal(find("bananas", 1), "b.txt:1");
}

static int read_index(void)
{
    struct index x = INDEX_INIT;
    int r = place_of(&x.place, tree);
    if (r == 0) r = index_read(&x);
    index_close(&x);
    return r;
}

/* The path of a file of the index. */
static const char *inside(const char *name)
{
    static char path[256];
    struct place p;
    assert_int_equal(place_of(&p, tree), 0);
    snprintf(path, sizeof(path), "%s/%s", p.dir, name);
    place_close(&p);
    return path;
}

static void a_damaged_index_is_refused(void **state)
{
    struct update u;
    struct stat st;
    struct index x;
    put("a.txt", "apples\n");
    assert_int_equal(read_index(), 1);
    assert_int_equal(update(&u), 0);
    assert_int_equal(stat(inside(STORE_FILE), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(inside("."), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(truncate(inside("vectors-1"), 70), 0);
    assert_int_equal(read_index(), -EUCLEAN);
    assert_non_null(strstr(error_text(-EUCLEAN), "hob index --rm"));
    assert_int_equal(unlink(inside("vectors-1")), 0);
    assert_int_equal(read_index(), -EUCLEAN);
    assert_int_equal(truncate(inside(STORE_FILE), 5000), 0);
    assert_int_equal(read_index(), -EUCLEAN);
    int fd = open(inside(STORE_FILE), O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, "no database at all, but some text", 33), 33);
    close(fd);
    assert_int_equal(read_index(), -EUCLEAN);
    assert_int_equal(update(&u), -EUCLEAN);
    x = (struct index)INDEX_INIT;
    assert_int_equal(place_of(&x.place, tree), 0);
    assert_int_equal(place_open(&x.place, false), 0);
    assert_int_equal(place_lock(&x.place), 0);
    assert_int_equal(place_remove(&x.place), 0);
    index_close(&x);
    assert_int_equal(update(&u), 0);
    assert_string_equal(find("apples", 1), "a.txt:1");
}

static void a_vector_that_changed_on_disk_is_noticed(void **state)
{
    struct update u;
    struct index x = INDEX_INIT;
    struct results found;
    struct words w = {0};
    float v[48];
    put("a.txt", "apples\n");
    assert_int_equal(update(&u), 0);
    int fd = open(inside("vectors-1"), O_WRONLY);
    assert_int_equal(pwrite(fd, "\1", 1, 64 + 256 + 3), 1);
    close(fd);
    assert_int_equal(place_of(&x.place, tree), 0);
    assert_int_equal(index_read(&x), 0);
    stand_in_vector(&embedder, v, "apples", 6);
    assert_int_equal(results_find(&found, &x, v, &w, 1), -EUCLEAN);
    results_fini(&found);
    index_close(&x);
}

static void a_full_disk_leaves_the_index_as_it_was(void **state)
{
    struct update u;
    struct rlimit was, small;
    put("a.txt", "apples\n");
    assert_int_equal(update(&u), 0);
    put_many(400);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, SIG_IGN);
    small = (struct rlimit){16000, was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int r = update(&u);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_true(r < 0 && r != -EUCLEAN);
    assert_string_equal(find("apples", 1), "a.txt:1");
    assert_int_equal(update(&u), 0);
    assert_int_equal(u.chunks, 401);
    assert_string_equal(find("w399", 1), "many/0399.txt:1");
}

static void the_nearest_index_above_is_found(void **state)
{
    struct update u;
    struct place p;
    char here[512], *root = realpath(tree, NULL);
    put("sub/deep/a.txt", "apples\n");
    assert_non_null(getcwd(here, sizeof(here)));
    assert_int_equal(chdir(folder_at(tree, "sub/deep")), 0);
    assert_int_equal(place_nearest(&p), 1);
    assert_int_equal(update(&u), 0);
    assert_int_equal(place_nearest(&p), 0);
    assert_string_equal(p.root, root);
    place_close(&p);
    assert_int_equal(chdir(here), 0);
    free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_changed_files_are_embedded, setup, teardown),
        cmocka_unit_test_setup_teardown(renamed_and_copied_files_are_not_embedded_again, setup, teardown),
        cmocka_unit_test_setup_teardown(what_does_not_belong_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_that_cannot_be_read_loses_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(an_interrupted_run_goes_on_where_it_was, setup, teardown),
        cmocka_unit_test_setup_teardown(unused_rows_are_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(a_changed_file_is_marked, setup, teardown),
        cmocka_unit_test_setup_teardown(one_process_writes_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(another_model_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_damaged_index_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_vector_that_changed_on_disk_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_leaves_the_index_as_it_was, setup, teardown),
        cmocka_unit_test_setup_teardown(the_nearest_index_above_is_found, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
