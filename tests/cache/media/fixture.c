/* SPDX-License-Identifier: MIT */
#include "tests/cache/media/fixture.h"
#include "daemon/cache/media/media-file.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int place_setup(void **state)
{
    static struct place p;
    strcpy(p.dir, "/tmp/hob-media-XXXXXX");
    if (!mkdtemp(p.dir)) return -1;
    snprintf(p.sub, sizeof(p.sub), "%s/media", p.dir);
    *state = &p;
    return 0;
}

int place_teardown(void **state)
{
    char command[80];
    snprintf(command, sizeof(command), "rm -rf '%s'", ((struct place *)*state)->dir);
    return system(command);
}

struct media_disk *fixture_open(void **state, uint64_t files)
{
    const struct media_disk_config c = {.dir = ((struct place *)*state)->sub, .bytes_max = files * FILE_BYTES};
    struct media_disk *d = NULL;
    int r = media_disk_open(&d, &c);
    if (r < 0) fail_msg("%s", error_text(r));
    return d;
}

struct media_key fixture_key(uint32_t number)
{
    struct media_key k = {.namespace = {3}};
    memcpy(k.digest, &number, sizeof(number));
    return k;
}

int fixture_put(struct media_disk *d, uid_t uid, uint32_t number)
{
    struct embeddings *e;
    const struct media_key k = fixture_key(number);
    assert_int_equal(embeddings_new(&e, N, DIM), 0);
    for (int i = 0; i < N * DIM; i++) e->values[i] = (float)(number * 1000 + (unsigned)i);
    int r = media_disk_write(d, &k, uid, e);
    embeddings_unref(e);
    return r;
}

int fixture_get(struct media_disk *d, uint32_t number)
{
    struct embeddings *e = NULL;
    const struct media_key k = fixture_key(number);
    int r = media_disk_read(d, &k, &e);
    assert_int_equal(r == 0, e != NULL);
    for (int i = 0; r == 0 && i < N * DIM; i++) assert_true(e->values[i] == (float)(number * 1000 + (unsigned)i));
    if (e) assert_true(e->n == N && e->dim == DIM);
    embeddings_unref(e);
    return r;
}

struct media_disk_stats fixture_stats(struct media_disk *d)
{
    struct media_disk_stats s;
    media_disk_stats(d, &s);
    return s;
}

void fixture_path(void **state, uint32_t number, char out[128])
{
    uint64_t name[2];
    const struct media_key k = fixture_key(number);
    media_name(&k, name);
    snprintf(out, 128, "%s/%s", ((struct place *)*state)->sub, media_file_name(name).s);
}
