/* SPDX-License-Identifier: MIT */
/* Packed weights in a file: used when it is whole and the right one, and only then. */
#include "daemon/backend/cpu/packed.h"
#include "daemon/backend/cpu/weights.h"
#include "libcommon/error.h"
#include "tests/backend/backend-seq.h"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <xxhash.h>

#include <cmocka.h>

#define TOKENS 40

struct place {
    char top[64], dir[80], model[80], other[80];
    char file[160]; /* the last name found by count() */
};

/* --- a directory of its own --- */

static void write_model(const char *path, uint64_t seed, uint32_t type)
{
    struct tiny t;
    tiny_init(&t);
    t.seed = seed;
    t.type = type;
    assert_int_equal(tiny_write(&t, path), 0);
}

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof(*p));
    const char *tmp = getenv("TMPDIR");
    snprintf(p->top, sizeof(p->top), "%.40s/hob-packed-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(p->top)) return -1;
    snprintf(p->dir, sizeof(p->dir), "%s/packed", p->top);
    snprintf(p->model, sizeof(p->model), "%s/m.gguf", p->top);
    snprintf(p->other, sizeof(p->other), "%s/other.gguf", p->top);
    write_model(p->model, 1, 8);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    char cmd[128];
    snprintf(cmd, sizeof(cmd), "rm -rf '%s'", p->top);
    free(p);
    return system(cmd);
}

/* Count the names in the directory that end in @end, and write the last of them to p->file. */
static int count(struct place *p, const char *end)
{
    int n = 0;
    DIR *d = opendir(p->dir);
    if (!d) return 0;
    for (struct dirent *e; (e = readdir(d));) {
        size_t len = strlen(e->d_name);
        if (len <= strlen(end) || strcmp(e->d_name + len - strlen(end), end) != 0) continue;
        n++;
        snprintf(p->file, sizeof(p->file), "%s/%.64s", p->dir, e->d_name);
    }
    closedir(d);
    return n;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* --- files, changed by hand --- */

static void get(const char *path, uint64_t at, void *out, size_t n)
{
    int fd = open(path, O_RDONLY);
    assert_int_equal(pread(fd, out, n, (off_t)at), n);
    close(fd);
}

static void put(const char *path, uint64_t at, const void *from, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(pwrite(fd, from, n, (off_t)at), n);
    close(fd);
}

static void flip(const char *path, uint64_t at)
{
    uint8_t b;
    get(path, at, &b, 1);
    b ^= 0x40;
    put(path, at, &b, 1);
}

static struct packed_header header_of(const char *path)
{
    struct packed_header h;
    get(path, 0, &h, sizeof(h));
    return h;
}

static uint64_t head_bytes(const struct packed_header *h)
{
    return sizeof(*h) + h->items * sizeof(struct packed_item) + h->pieces * 16 + 16;
}

/* --- starts --- */

struct start {
    struct gguf *g;
    struct backend *b;
    struct backend_seq s;
};

static bool start_config(struct start *s, const struct place *p, const struct tiny_backend_config *c)
{
    int r = gguf_open(&s->g, p->model);
    if (r) fail_msg("%s", error_text(r));
    s->b = tiny_backend(s->g, c);
    backend_seq_init(&s->s, s->b, TOKENS, 3, 0);
    backend_seq_run(s->b, &s->s, 16);
    return s->b->weights_mapped;
}

static bool start(struct start *s, const struct place *p, const char *dir)
{
    return start_config(s, p, &(struct tiny_backend_config){.threads = 2, .packed_dir = dir});
}

static int verify_and_keep(struct start *s)
{
    atomic_bool stop = false;
    int r = s->b->ops->verify_weights(s->b, &stop);
    if (r == 0) s->b->ops->keep_weights(s->b, &stop);
    return r;
}

static void end(struct start *s)
{
    backend_seq_fini(&s->s);
    backend_free(s->b);
    gguf_close(s->g);
}

/* One start with the work behind it. Returns whether the weights were mapped. */
static bool once(const struct place *p)
{
    struct start s;
    bool mapped = start(&s, p, p->dir);
    assert_int_equal(verify_and_keep(&s), 0);
    end(&s);
    return mapped;
}

/* After the first start there is a file. */
static void first(struct place *p)
{
    assert_false(once(p));
    assert_int_equal(count(p, PACKED_EXT), 1);
}

/* The existing file is not used, but replaced. */
static void replaced(struct place *p)
{
    assert_false(once(p));
    assert_int_equal(count(p, PACKED_EXT), 1);
    assert_true(once(p));
}

/* --- used --- */

static void test_second_start_maps(void **state)
{
    static const uint32_t types[] = {0, 1, 30, 8, 2, 3};
    struct place *p = *state;
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        write_model(p->model, 10 + i, types[i]);
        struct start plain, packing, mapping;
        assert_false(start(&plain, p, NULL));
        assert_false(start(&packing, p, p->dir));
        assert_int_equal(verify_and_keep(&plain), 0);
        assert_int_equal(count(p, PACKED_EXT), i ? 1 : 0); /* of the model before */
        assert_int_equal(verify_and_keep(&packing), 0);
        assert_true(start(&mapping, p, p->dir));
        assert_int_equal(mapping.b->weight_bytes, plain.b->weight_bytes);
        backend_seq_same_logits(&plain.s, &packing.s);
        backend_seq_same_logits(&plain.s, &mapping.s);
        assert_int_equal(verify_and_keep(&mapping), 0);
        assert_int_equal(count(p, PACKED_EXT), 1); /* the old model was removed, and so are its weights */
        assert_int_equal(count(p, FINGERPRINT_EXT), 1);
        assert_int_equal(count(p, ".part"), 0);
        end(&plain);
        end(&packing);
        end(&mapping);
    }
}

static void test_model_that_was_touched(void **state)
{
    struct place *p = *state;
    struct stat before, after;
    first(p);
    assert_int_equal(stat(p->file, &before), 0);
    usleep(30000); /* longer than the file system's clock stands still */
    assert_int_equal(utimensat(AT_FDCWD, p->model, NULL, 0), 0);
    assert_false(once(p)); /* hashed again … */
    assert_int_equal(stat(p->file, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino); /* … but not written */
    assert_true(once(p));
}

static void test_layout_has_a_number(void **state)
{
    static const struct {
        enum kern_type type;
        uint64_t hash;
    } golden[] = {
        {KERN_F32, 0x97df56ff0d5b0886},    {KERN_F16, 0x8c31db43a7228a1a},    {KERN_BF16, 0x8c31db43a7228a1a},
        {KERN_Q8_0, 0x32de74e78419571f},   {KERN_Q4_0, 0xbbe5f7d7c71f026f},   {KERN_Q4_1, 0x52139936afff2887},
        {KERN_Q6_K, 0x4e3a34aed2e2c963},   {KERN_Q5_0, 0x76efd597d932eab1},   {KERN_Q5_1, 0x3991d54947c3c163},
        {KERN_Q2_K, 0x5c2f0cdc30c5eef2},   {KERN_Q3_K, 0xf5dadff05b15e23e},   {KERN_Q4_K, 0xc50b728f2d0257d7},
        {KERN_Q5_K, 0x9da5a7c3154e4c96},   {KERN_IQ4_NL, 0xbbe5f7d7c71f026f}, {KERN_IQ4_XS, 0xd711069f605e947b},
        {KERN_MXFP4, 0xc20d8541209dc15d},  {KERN_TQ1_0, 0xcc4497f251e4276e},  {KERN_TQ2_0, 0x2a93105c9293c45a},
        {KERN_IQ1_S, 0x51664cd3106e723d},  {KERN_IQ1_M, 0x7e53e13da062682},   {KERN_IQ2_XXS, 0xf7e6d6cfa92adc75},
        {KERN_IQ2_XS, 0xf3158285c2008644}, {KERN_IQ2_S, 0x9e7013f8e883d398},  {KERN_IQ3_XXS, 0x64449cb0c195fe37},
        {KERN_IQ3_S, 0xa006e674b7c3479f},
    };
    static const int layout = 1;
    static uint8_t src[16 * 2048], panel[65536];
    for (size_t i = 0; i < sizeof(src); i++) src[i] = (uint8_t)(i * 2654435761u >> 13);
    assert_int_equal(sizeof(golden) / sizeof(*golden), KERN_TYPES);
    if (layout != KERN_LAYOUT) fail_msg("write down the hashes of layout %d here", KERN_LAYOUT);
    for (size_t i = 0; i < sizeof(golden) / sizeof(*golden); i++) {
        enum kern_type t = golden[i].type;
        size_t bytes = kern_panel_bytes(t, 256);
        kern_panel_pack(t, panel, src, 256 / kern_type_block(t) * kern_type_bytes(t), 15, 256);
        uint64_t have = XXH3_64bits(panel, bytes);
        if (have != golden[i].hash)
            fail_msg("panels of %s have changed (0x%llx): KERN_LAYOUT must change too", kern_type_name(t),
                     (unsigned long long)have);
    }
}

/* --- not used --- */

static void test_every_length(void **state)
{
    struct place *p = *state;
    first(p);
    struct packed_header h = header_of(p->file);
    uint64_t all = h.image + h.size;
    const uint64_t lengths[] = {
        0,          1,       sizeof(h) - 1, sizeof(h), head_bytes(&h) - 1, head_bytes(&h), h.image, h.image + 1,
        all - 4096, all - 1, all + 1,       2 * all};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        assert_int_equal(truncate(p->file, (off_t)lengths[i]), 0);
        replaced(p);
    }
}

static void test_every_byte_of_the_head(void **state)
{
    struct place *p = *state;
    first(p);
    struct packed_header h = header_of(p->file);
    struct start s;
    struct weights w;
    struct hparams hparams;
    struct compute_pool *pool;
    struct fingerprint model;
    struct packed *map = NULL;
    assert_true(start(&s, p, p->dir));
    assert_int_equal(compute_pool_new(&pool, 1), 0);
    assert_int_equal(hparams_read(&hparams, s.g), 0);
    assert_int_equal(weights_load(&w, s.g, &hparams, NULL, pool, &(struct backend_config){.packed_dir = p->dir}), 0);
    assert_int_equal(weights_model(&w, &model), 0);
    for (uint64_t i = 0; i < head_bytes(&h); i++) {
        flip(p->file, i);
        if (packed_map(&map, &w.table, &model, p->dir) != 1) fail_msg("byte %llu", (unsigned long long)i);
        flip(p->file, i);
    }
    assert_int_equal(packed_map(&map, &w.table, &model, p->dir), 0);
    packed_unmap(map);
    weights_fini(&w);
    compute_pool_free(pool);
    end(&s);
    flip(p->file, 20);
    replaced(p);
}

/* The checksum at the head's end holds, and still it is not what we want. */
static void test_other_versions(void **state)
{
    struct place *p = *state;
    first(p);
    for (int i = 0; i < 4; i++) {
        struct packed_header h = header_of(p->file);
        uint64_t n = head_bytes(&h) - 16;
        uint8_t *head = malloc(n);
        get(p->file, 0, head, n);
        struct packed_header *to = (struct packed_header *)head;
        if (i == 0) to->layout++;
        if (i == 1) to->format++;
        if (i == 2) to->model.bytes[3] ^= 1;
        if (i == 3) ((struct packed_item *)(head + sizeof(h)))[2].offset += 64;
        XXH128_canonical_t c;
        XXH128_canonicalFromHash(&c, XXH3_128bits(head, n));
        put(p->file, 0, head, n);
        put(p->file, n, c.digest, 16);
        free(head);
        replaced(p);
    }
}

static void test_file_of_another_model(void **state)
{
    struct place *p = *state;
    char saved[100], one[160];
    struct start plain, mapped;
    snprintf(saved, sizeof(saved), "%s/saved", p->top);
    first(p);
    strcpy(one, p->file);
    assert_int_equal(rename(one, saved), 0);
    write_model(p->model, 2, 8);
    first(p);
    assert_string_not_equal(one, p->file);
    assert_int_equal(rename(saved, p->file), 0);
    replaced(p);
    assert_false(start(&plain, p, NULL));
    assert_true(start(&mapped, p, p->dir));
    backend_seq_same_logits(&plain.s, &mapped.s);
    end(&plain);
    end(&mapped);
}

static void test_file_that_others_may_write(void **state)
{
    struct place *p = *state;
    char elsewhere[100];
    snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", p->top);
    first(p);
    assert_int_equal(chmod(p->file, 0620), 0);
    replaced(p);
    assert_int_equal(rename(p->file, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, p->file), 0);
    replaced(p);
    assert_true(exists(elsewhere));
    if (geteuid() != 0) {
        print_message("skipped: only root can give a file away\n");
        return;
    }
    assert_int_equal(chown(p->file, 1, 1), 0);
    replaced(p);
}

/* The same size and mtime: the inode tells, or the ctime. */
static void test_model_that_was_replaced(void **state)
{
    struct place *p = *state;
    struct stat old, new;
    for (int in_place = 0; in_place < 2; in_place++) {
        first(p);
        assert_int_equal(stat(p->model, &old), 0);
        usleep(30000);
        write_model(in_place ? p->model : p->other, 5 + (uint64_t)in_place, 8);
        struct timespec times[2] = {old.st_atim, old.st_mtim};
        assert_int_equal(utimensat(AT_FDCWD, in_place ? p->model : p->other, times, 0), 0);
        if (!in_place) assert_int_equal(rename(p->other, p->model), 0);
        assert_int_equal(stat(p->model, &new), 0);
        assert_true(new.st_size == old.st_size &&new.st_mtim.tv_nsec == old.st_mtim.tv_nsec);
        struct start plain, mapped;
        assert_false(start(&plain, p, NULL));
        assert_false(once(p));
        assert_true(start(&mapped, p, p->dir));
        backend_seq_same_logits(&plain.s, &mapped.s);
        end(&plain);
        end(&mapped);
        write_model(p->model, 1, 8);
    }
}

static void test_model_that_changes_while_loaded(void **state)
{
    struct place *p = *state;
    struct start s;
    assert_false(start(&s, p, p->dir));
    usleep(30000);
    write_model(p->other, 9, 8);
    assert_int_equal(rename(p->other, p->model), 0);
    assert_int_equal(verify_and_keep(&s), 0);
    assert_int_equal(count(p, PACKED_EXT), 0);
    assert_int_equal(count(p, FINGERPRINT_EXT), 0);
    end(&s);
}

static void test_records(void **state)
{
    struct place *p = *state;
    first(p);
    assert_int_equal(count(p, FINGERPRINT_EXT), 1);
    struct stat st;
    assert_int_equal(stat(p->file, &st), 0);
    for (off_t i = 0; i < st.st_size; i++) {
        struct gguf *g;
        struct fingerprint f;
        assert_int_equal(gguf_open(&g, p->model), 0);
        assert_int_equal(fingerprint_recall(&f, g, p->dir), 0);
        flip(p->file, (uint64_t)i);
        if (fingerprint_recall(&f, g, p->dir) != 1) fail_msg("byte %lld", (long long)i);
        flip(p->file, (uint64_t)i);
        gguf_close(g);
    }
    flip(p->file, 70);
    assert_false(once(p));
    assert_true(once(p));
}

/* The model's file is hashed once, also where no packed weights are kept, and those that are there are left alone. */
static void test_records_alone(void **state)
{
    struct place *p = *state;
    const struct tiny_backend_config config = {.threads = 2, .packed_dir = p->dir, .no_packed_file = true};
    for (int i = 0; i < 3; i++) {
        struct start s;
        struct fingerprint f;
        assert_false(start_config(&s, p, &config));
        assert_int_equal(s.b->ops->fingerprint(s.b, &f), i == 0);
        assert_int_equal(verify_and_keep(&s), 0);
        assert_int_equal(s.b->ops->fingerprint(s.b, &f), 0);
        assert_int_equal(count(p, FINGERPRINT_EXT), 1);
        assert_int_equal(count(p, PACKED_EXT), i == 2);
        end(&s);
        if (i == 1) assert_false(once(p));
    }
    assert_true(once(p));
}

/* --- damaged --- */

static void test_damage_is_found(void **state)
{
    struct place *p = *state;
    first(p);
    struct packed_header h = header_of(p->file);
    const uint64_t at[] = {0, h.size / 2, h.size - 1};
    for (int i = 0; i < 3; i++) {
        struct start s;
        flip(p->file, h.image + at[i]);
        assert_true(start(&s, p, p->dir));
        assert_int_equal(verify_and_keep(&s), -EBADMSG);
        assert_non_null(strstr(error_text(-EBADMSG), "is wrong; the file was removed"));
        assert_non_null(strstr(error_text(-EBADMSG), p->file));
        assert_false(exists(p->file));
        assert_int_equal(verify_and_keep(&s), -EBADMSG); /* two threads may do so */
        end(&s);
        replaced(p);
    }
}

/* Of a file that another process has put in place of the damaged one. */
static void test_damage_spares_a_new_file(void **state)
{
    struct place *p = *state;
    struct start s;
    first(p);
    struct packed_header h = header_of(p->file);
    flip(p->file, h.image);
    assert_true(start(&s, p, p->dir));
    assert_int_equal(truncate(p->file, (off_t)(h.image + h.size)), 0);
    char new[180];
    snprintf(new, sizeof(new), "%s.new", p->file);
    put(new, 0, "x", 1);
    assert_int_equal(rename(new, p->file), 0);
    assert_int_equal(verify_and_keep(&s), -EBADMSG);
    assert_true(exists(p->file));
    end(&s);
}

/* --- not written --- */

static void test_no_directory(void **state)
{
    struct place *p = *state;
    struct start s;
    char under[100];
    snprintf(under, sizeof(under), "%s/packed", p->model); /* below a file */
    assert_false(start(&s, p, under));
    assert_int_equal(verify_and_keep(&s), 0);
    end(&s);
    assert_false(exists(p->dir));
}

static void test_read_only_directory(void **state)
{
    struct place *p = *state;
    struct start s;
    uid_t uid = geteuid();
    assert_int_equal(mkdir(p->dir, 0755), 0);
    assert_int_equal(chmod(p->top, 0755), 0);
    if (uid != 0) assert_int_equal(chmod(p->dir, 0555), 0);
    assert_false(start(&s, p, p->dir));
    if (uid == 0) assert_int_equal(seteuid(65534), 0); /* root may write anywhere */
    int r = verify_and_keep(&s);
    if (uid == 0) assert_int_equal(seteuid(0), 0);
    assert_int_equal(r, 0);
    assert_int_equal(count(p, ""), 2); /* . and .. */
    end(&s);
    assert_int_equal(chmod(p->dir, 0755), 0);
}

static void test_little_room(void **state)
{
    struct place *p = *state;
    struct start s;
    assert_int_equal(mkdir(p->dir, 0700), 0);
    if (mount("none", p->dir, "tmpfs", 0, "size=3m") < 0) {
        print_message("skipped: no tmpfs can be mounted: %s\n", strerror(errno));
        skip();
    }
    assert_false(start(&s, p, p->dir));
    int r = verify_and_keep(&s), files = count(p, PACKED_EXT), parts = count(p, ".part");
    umount(p->dir);
    end(&s);
    assert_true(r == 0 && files == 0 && parts == 0);
}

/* Bytes of the file that are mapped here. */
static size_t mapped_bytes(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[4352];
    unsigned long from, to, sum = 0;
    while (fgets(line, sizeof(line), f))
        if (strstr(line, PACKED_EXT) && sscanf(line, "%lx-%lx", &from, &to) == 2) sum += to - from;
    fclose(f);
    return sum;
}

/* If the page cache has no huge pages, the weights in use move to anonymous memory. */
static void *compute(void *arg)
{
    struct start *s = arg;
    for (int i = 0; i < 20; i++) {
        s->s.done = 0;
        backend_seq_run(s->b, &s->s, 16);
    }
    return NULL;
}

static void test_small_pages(void **state)
{
    struct place *p = *state;
    struct tiny t;
    tiny_init(&t);
    t.dim = 512, t.ffn = 4096, t.layers = 4;
    assert_int_equal(tiny_write(&t, p->model), 0);
    assert_int_equal(mkdir(p->dir, 0700), 0);
    char thp[128] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (f && !fgets(thp, sizeof(thp), f)) thp[0] = '\0';
    if (f) fclose(f);
    if (!thp[0] || strstr(thp, "[never]")) {
        print_message("skipped: no huge pages here\n");
        skip();
    }
    if (mount("none", p->dir, "tmpfs", 0, "size=200m,mode=700,huge=never") < 0) {
        print_message("skipped: no tmpfs can be mounted: %s\n", strerror(errno));
        skip();
    }
    struct start plain, mapped;
    pthread_t thread;
    first(p);
    assert_false(start(&plain, p, NULL));
    bool was = start(&mapped, p, p->dir);
    size_t before = mapped_bytes();
    assert_int_equal(pthread_create(&thread, NULL, compute, &mapped), 0);
    int r = verify_and_keep(&mapped);
    pthread_join(thread, NULL);
    size_t after = mapped_bytes();
    backend_seq_same_logits(&plain.s, &mapped.s);
    end(&mapped);
    size_t left = mapped_bytes();
    end(&plain);
    umount(p->dir);
    assert_true(was && r == 0);
    assert_true(before > 8 << 20);
    assert_int_equal(after, PACKED_ALIGN); /* the head */
    assert_int_equal(left, 0);
}

static void test_write_that_fails(void **state)
{
    struct place *p = *state;
    struct start s;
    struct rlimit old, tight;
    assert_false(start(&s, p, p->dir));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = old;
    tight.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    int r = verify_and_keep(&s);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(r, 0);
    assert_int_equal(count(p, PACKED_EXT), 0);
    assert_int_equal(count(p, ".part"), 0);
    end(&s);
    first(p);
}

static void test_stop(void **state)
{
    struct place *p = *state;
    struct start s;
    atomic_bool stop = true;
    for (int i = 0; i < 3; i++) {
        start(&s, p, p->dir); /* nothing known; the fingerprint known; mapped */
        int r = s.b->ops->verify_weights(s.b, &stop);
        assert_int_equal(r, i != 1); /* a known fingerprint proves the weights that were packed here */
        if (r == 0) s.b->ops->keep_weights(s.b, &stop);
        assert_int_equal(count(p, ".part"), 0);
        assert_int_equal(count(p, PACKED_EXT), i == 2);
        end(&s);
        if (i == 2) continue;
        first(p);
        if (i == 0) assert_int_equal(unlink(p->file), 0);
    }
}

/* --- several processes --- */

static void *verify_thread(void *arg)
{
    return (void *)(intptr_t)verify_and_keep(arg);
}

static void test_two_at_once(void **state)
{
    struct place *p = *state;
    struct start s[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_false(start(&s[i], p, p->dir));
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, verify_thread, &s[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *r;
        pthread_join(threads[i], &r);
        assert_null(r);
        end(&s[i]);
    }
    assert_int_equal(count(p, ".part"), 0);
    assert_int_equal(count(p, PACKED_EXT), 1);
    assert_true(once(p));
}

static void test_one_that_writes(void **state)
{
    struct place *p = *state;
    char part[180];
    first(p);
    snprintf(part, sizeof(part), "%s.part", p->file);
    assert_int_equal(unlink(p->file), 0);
    int fd = open(part, O_RDWR | O_CREAT, 0600);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_false(once(p));
    assert_int_equal(count(p, PACKED_EXT), 0);
    assert_true(exists(part));
    close(fd); /* it has crashed */
    first(p);
    assert_false(exists(part));
}

static void test_leftovers(void **state)
{
    static const char *const gone[] = {"x.part", "1-2.id", "00000000000000000000000000000000-1.hobw",
                                       "d41d8cd98f00b204e9800998ecf8427e-0.hobw", "y.hobw"},
                             *const stays[] = {"README", "x.parts"};
    struct place *p = *state;
    char path[160], old[160];
    assert_int_equal(mkdir(p->dir, 0700), 0);
    for (size_t i = 0; i < 5; i++) {
        snprintf(path, sizeof(path), "%s/%s", p->dir, gone[i]);
        put(path, 0, "x", 1);
    }
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", p->dir, stays[i]);
        put(path, 0, "x", 1);
    }
    first(p);
    for (size_t i = 0; i < 5; i++) {
        snprintf(path, sizeof(path), "%s/%s", p->dir, gone[i]);
        if (exists(path)) fail_msg("%s is still there", gone[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", p->dir, stays[i]);
        assert_true(exists(path));
    }
    /* of this model, an older layout and a newer one */
    int stem = (int)(strlen(p->file) - strlen("-1.hobw"));
    snprintf(old, sizeof(old), "%.*s-0.hobw", stem, p->file);
    put(old, 0, "x", 1);
    snprintf(path, sizeof(path), "%.*s-%d.hobw", stem, p->file, KERN_LAYOUT + 1);
    put(path, 0, "x", 1);
    assert_true(once(p));
    assert_true(!exists(old) && exists(path));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_second_start_maps),
        CASE(test_model_that_was_touched),
        CASE(test_layout_has_a_number),
        CASE(test_every_length),
        CASE(test_every_byte_of_the_head),
        CASE(test_other_versions),
        CASE(test_file_of_another_model),
        CASE(test_file_that_others_may_write),
        CASE(test_model_that_was_replaced),
        CASE(test_model_that_changes_while_loaded),
        CASE(test_records),
        CASE(test_records_alone),
        CASE(test_damage_is_found),
        CASE(test_damage_spares_a_new_file),
        CASE(test_no_directory),
        CASE(test_read_only_directory),
        CASE(test_little_room),
        CASE(test_small_pages),
        CASE(test_write_that_fails),
        CASE(test_stop),
        CASE(test_two_at_once),
        CASE(test_one_that_writes),
        CASE(test_leftovers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
