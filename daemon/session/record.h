/* SPDX-License-Identifier: MIT */
#pragma once
/* The payload of a turn record, which turns the content that the log has into the new content. session-log.h has its
 * bytes. */
#include "daemon/session/store.h"

/* State of the session after a record. The last bytes of the payload, so that a scan of the directory can list the
 * session without reading the log. */
struct session_summary {
    uint64_t used;  /* last use, realtime microseconds */
    uint64_t bytes; /* in memory */
    uint32_t ids, messages;
};

#define SESSION_SUMMARY_BYTES 32

enum {
    SESSION_RECORD_RAW = 1,
    SESSION_RECORD_FAILED = 2,
    SESSION_RECORD_PARTS = 4,
    SESSION_RECORD_NOTE = 8,
    SESSION_RECORD_THOUGHT = 16,
    SESSION_RECORD_MEDIA = 32,
    SESSION_RECORD_ADAPTER = 64,
}; /* flags */

/* What a record has that an older hobd refuses. */
enum { SESSION_RECORD_HAS_RUNS = 1, SESSION_RECORD_HAS_PARTS = 2, SESSION_RECORD_HAS_MEDIA = 4 };

/* Append the bytes of @s to @out. 0 or -ENOMEM. */
int session_summary_write(struct buf *out, const struct session_summary *s);
/* False: the bytes are not a summary. */
bool session_summary_read(const uint8_t p[SESSION_SUMMARY_BYTES], struct session_summary *out);

/* Append the payload to @out. @all: as if the log was empty. 0, or what of SESSION_RECORD_HAS_* it has; -ENOMEM; -E2BIG
 * (message). */
int session_record_write(struct buf *out, const struct session *x, bool all);

/* Change the content of @x as the payload says. @runs: it is of the kind with runs. 0; -EBADMSG: not a payload, or it
 * does not fit the content; -ENOMEM. On error the content is valid but unspecified. */
int session_record_apply(struct session *x, const uint8_t *p, size_t n, bool runs);
