/* SPDX-License-Identifier: MIT */
/* The other parts of a pulled model. They stay as .part until hobd has checked the whole model. The first part's .part
 * is locked all the time, and its .from tells which model the others belong to. */
#include "client/models/parts.h"
#include "client/models/pull.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/model-parts.h"
#include <string.h>

int pull_parts_count(const struct origin *o, uint32_t *count)
{
    _cleanup_(freep) char *file = origin_file(o);
    uint32_t no, all;
    size_t stem;
    *count = 1;
    if (!file || !model_part_named(file, &stem, &no, &all) || all < 2) return 0;
    if (no != 1) return error_say(-EINVAL, "%.*s: this is part %u of a model: name the first part", 200, file, no);
    if (all > MODEL_PARTS_MAX) return error_say(-EINVAL, "%u parts; the limit is %d", all, MODEL_PARTS_MAX);
    *count = all;
    return 0;
}

/* The URL of part @no: that of the first with another number in its file name. NULL: no memory. */
static char *part_url(const char *first, uint32_t no)
{
    static const char number[] = "-00001-of-";
    size_t path = strcspn(first, "?"), last = 0;
    char *url = strdup(first), digits[16];
    for (size_t i = 0; i + sizeof(number) - 1 <= path; i++)
        if (memcmp(first + i, number, sizeof(number) - 1) == 0) last = i;
    snprintf(digits, sizeof(digits), "%05u", no);
    if (url && last) memcpy(url + last + 1, digits, 5);
    return url;
}

/* The origin of part @no, which the caller ends with origin_fini, also after an error. */
static int part_origin(struct origin *out, const struct origin *first, uint32_t no)
{
    *out = (struct origin){.url = part_url(first->url, no), .total = -1, .hub = first->hub};
    if (first->user) out->user = strdup(first->user);
    if (first->password) out->password = strdup(first->password);
    bool all = out->url && (!first->user || out->user) && (!first->password || out->password);
    return all ? 0 : error_say(-ENOMEM, "no memory for a URL");
}

static int pull_part(const struct pull *first, uint32_t no)
{
    struct pull p = {.o = first->o, .place = PLACE_INIT, .bar = {.on = first->bar.on}, .parts = 1, .checked = true};
    SHA256Init(&p.sum);
    int r = part_origin(&p.origin, &first->origin, no);
    if (r == 0) r = parts_place(&p.place, &first->place, no, first->parts);
    p.bar.name = p.place.name;
    if (r == 0) {
        r = pull_download(&p);
        if (r < 0) pull_keep(&p);
    }
    place_close(&p.place);
    origin_fini(&p.origin);
    return r;
}

int pull_parts(const struct pull *p)
{
    int r = 0;
    for (uint32_t no = 2; r == 0 && no <= p->parts; no++) r = pull_part(p, no);
    return r;
}

/* A first part that --force replaces goes before, so that the parts of two models never stand together. */
int pull_parts_commit(const struct pull *p)
{
    int r = 0;
    unlinkat(p->place.dir, p->place.file, 0);
    for (uint32_t no = 2; r == 0 && no <= p->parts; no++) {
        struct place part;
        r = parts_place(&part, &p->place, no, p->parts);
        if (r == 0) r = place_begin(&part);
        if (r == 0) r = place_commit(&part, true);
        place_close(&part);
    }
    return r;
}
