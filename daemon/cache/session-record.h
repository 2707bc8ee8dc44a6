/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A turn as bytes: what takes a session from what its log says to what it is. Numbers are LEB128 unless said otherwise;
 * "bytes" is a length and as many bytes.
 *
 *     u8 flags (1: raw, 2: failed)   u8 context policy   model[16]
 *     keep_ids   keep_text   keep_messages      how much of what was before stays
 *     n   id × n   end × n                      ends: each as the distance from the one before
 *     text: bytes                               the first end is counted from keep_text
 *     n   run × n                               flags of the whole text, kept part included, as lengths of runs: the
 *                                               first of zeros, then of ones, …
 *     n   (role: bytes   content: bytes) × n    messages
 *     n   outcome × n                           uuid: bytes, u8 reason, prompt, cached, completion, shifted, miss_at
 *                                               and seed: u64 little-endian, answer: bytes
 *     why: bytes                                with the flag only
 *     summary                                   as struct session_summary, little-endian, then XXH3-64 of its bytes
 */
#include "daemon/cache/session.h"

/* Of the session after the turn, so that it can be listed without reading it. Stands at the end of the record. */
struct session_summary {
    uint64_t used;  /* as in struct session */
    uint64_t bytes; /* that it takes in memory */
    uint32_t ids, messages;
};

#define SESSION_SUMMARY_BYTES 32

/* Append its bytes to @out. 0 or -ENOMEM. */
int session_summary_write(struct buf *out, const struct session_summary *s);

/* Append the payload to @out. @all: as if the log said nothing yet. 0, -ENOMEM, or -E2BIG with a sentence. */
int session_record_write(struct buf *out, const struct session *x, bool all);

/* Do to @x what the payload says. 0; -EBADMSG: it does not fit what x is, or is no such payload; -ENOMEM. On error x
 * may be anything between. */
int session_record_apply(struct session *x, const uint8_t *p, size_t n);

/* False: these are not the bytes of a summary. */
bool session_record_summary(const uint8_t p[SESSION_SUMMARY_BYTES], struct session_summary *out);
