/* SPDX-License-Identifier: MIT */
#include "client/infill.h"
#include "client/exit-status.h"
#include "client/generate.h"
#include "client/input.h"
#include "libcommon/error.h"
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* Read one text; @path NULL: empty. */
static int infill_file(struct buf *out, const char *path)
{
    if (!path) return 0;
    return input_whole(out, strcmp(path, "-") == 0 ? NULL : path, STDIN_FILENO);
}

/* Split standard input at byte @at. */
static int infill_split(struct buf *prefix, struct buf *suffix, uint64_t at)
{
    int r = input_whole(prefix, NULL, STDIN_FILENO);
    if (r < 0) return r;
    if (at > prefix->len)
        return error_say(-EINVAL, "--at %" PRIu64 " is out of range: standard input has %zu bytes", at, prefix->len);
    if (at < prefix->len && ((unsigned char)prefix->data[at] & 0xC0) == 0x80)
        return error_say(-EINVAL, "--at %" PRIu64 " is inside a UTF-8 character", at);
    r = at < prefix->len ? buf_append(suffix, prefix->data + at, prefix->len - at) : 0;
    if (r < 0) return error_say(r, "no memory for the text");
    prefix->len = at;
    if (prefix->data) prefix->data[at] = '\0';
    return 0;
}

/* The request takes the memory of @prefix and @suffix. */
static int infill_request(struct proto_request *r, const struct options *o, struct buf *prefix, struct buf *suffix)
{
    struct input none = {0};
    int e = generate_request(r, o, &none); /* the options that generate and infill share */
    if (e < 0) return e;
    r->type = PROTO_INFILL;
    r->gen.raw = false;
    r->gen.infill.max_lines = o->infill.max_lines;
    generate_take(&r->gen.infill.prefix, prefix);
    generate_take(&r->gen.infill.suffix, suffix);
    return 0;
}

int infill_run(const struct options *o)
{
    struct buf prefix = BUF_INIT, suffix = BUF_INIT;
    struct proto_request request = {0};
    int r = o->infill.at >= 0 ? infill_split(&prefix, &suffix, (uint64_t)o->infill.at)
                              : infill_file(&prefix, o->infill.prefix_file);
    if (r == 0 && o->infill.at < 0) r = infill_file(&suffix, o->infill.suffix_file);
    if (r == 0 && !prefix.len && !suffix.len) r = error_say(-EINVAL, "nothing to infill: both texts are empty");
    if (r == 0) r = infill_request(&request, o, &prefix, &suffix);
    r = r < 0 ? exit_status_before(r) : generate_turn(o, &request, NULL);
    proto_request_fini(&request);
    buf_fini(&prefix);
    buf_fini(&suffix);
    return r;
}
