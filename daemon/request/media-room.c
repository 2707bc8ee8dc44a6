/* SPDX-License-Identifier: MIT */
#include "daemon/request/media-room.h"
#include "daemon/cache/media/media-disk.h"
#include "daemon/cache/media/media-memo.h"
#include "daemon/encoder/encoder.h"
#include "daemon/media/media-helper.h"
#include "daemon/media/pixel-budget.h"
#include "daemon/request/core.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIXELS_MAX  (512ull << 20)
#define DISK_FACTOR 4 /* the files may have so many times the bytes of the memory */

static struct media_disk *open_disk(const struct engine_config *c)
{
    _cleanup_(freep) char *dir = NULL;
    struct media_disk *d = NULL;
    if (!c->cache_dir || !c->cache_bytes || !c->state_dir || !c->media.cache_bytes) return NULL;
    if (asprintf(&dir, "%s/media", c->cache_dir) < 0) {
        dir = NULL;
        return NULL;
    }
    const struct media_disk_config config = {
        .dir = dir, .bytes_max = DISK_FACTOR * c->media.cache_bytes, .reserve = c->disk_reserve};
    int r = media_disk_open(&d, &config);
    if (r < 0) log_warning("embeddings of images are kept only in memory: %s", error_text(r));
    return d;
}

int media_room_new(struct core *core)
{
    const struct engine_config *c = &core->config;
    if (!core->model.encoder) return 0;
    struct media_room *m = core->media = calloc(1, sizeof(*m));
    if (!m) return -ENOMEM;
    m->helper = c->media.helper;
    m->write_until = UINT64_MAX;
    m->cache.bytes_max = c->media.cache_bytes;
    m->disk = open_disk(c);
    int r = media_memo_new(&m->memo);
    if (r == 0) r = pixel_budget_new(&m->pixels, PIXELS_MAX);
    return r < 0 ? r : job_pool_new(&m->pool, MEDIA_HELPER_FILES, users_is_alone, &core->mail.users);
}

void media_room_stop(struct core *core, uint64_t write_until)
{
    struct media_room *m = core->media;
    if (!m) return;
    atomic_store(&m->write_until, write_until);
    if (m->helper) media_helper_stop(m->helper);
}

void media_room_free(struct core *core)
{
    struct media_room *m = core->media;
    if (!m) return;
    assert(!m->works);
    job_pool_free(m->pool);
    media_memo_free(m->memo);
    pixel_budget_free(m->pixels);
    media_cache_fini(&m->cache);
    media_disk_close(m->disk);
    free(m);
    core->media = NULL;
}

bool media_room_stats(const struct core *core, struct media_stats *out)
{
    const struct media_room *m = core->media;
    const struct encoder *e = core->model.encoder;
    struct media_disk_stats disk = {0};
    *out = (struct media_stats){0};
    if (!m) return false;
    if (m->disk) media_disk_stats(m->disk, &disk);
    *out = (struct media_stats){.projector = encoder_projector(e),
                                .encoder_bytes = encoder_bytes(e),
                                .cache_bytes = m->cache.table.bytes,
                                .cache_runs = m->cache.table.n,
                                .disk_bytes = disk.bytes,
                                .disk_runs = disk.files,
                                .pixel_bytes = pixel_budget_bytes(m->pixels),
                                .counts = m->counts};
    encoder_identity(e, out->identity);
    return true;
}

struct media_key media_key_of(const uint8_t namespace[16], const uint8_t digest[16])
{
    struct media_key k;
    memcpy(k.namespace, namespace, sizeof(k.namespace));
    memcpy(k.digest, digest, sizeof(k.digest));
    return k;
}
