/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The content of a session: the items of its prompt (model/items.h), the text they stand for, messages, and the
 * outcomes of its last turns. A reader gets it from session_content(); only the functions below change it. They need a
 * session that is busy and loaded, touch no file, and mark the session as unsaved until session_save().
 */
#include "daemon/model/items.h"
#include "libcommon/buf.h"
#include "libcommon/proto.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SESSION_OUTCOMES 8 /* outcomes that a session keeps */

struct session;

/* The end of a turn with a UUID: the answer to a retry of the same request. */
struct session_outcome {
    char uuid[40];
    enum proto_reason reason;
    uint64_t usage_prompt, usage_cached, usage_completion, usage_thinking, shifted;
    int64_t miss_at, seed;
    struct proto_text answer;
    size_t
        message; /* number of the answer's message in the session, from 1; 0: not known; SIZE_MAX: dropped. Not saved */
};

struct session_content {
    bool raw; /* made with --raw: a text, no messages */
    enum proto_context context;
    uint8_t model[16]; /* fingerprint of the model that the ids belong to */

    /* The ids, and for each id the offset in @text where its text ends. markup[i] is 1 if the template wrote byte i of
     * @text or a special token stands for it, else 0. */
    int32_t *ids;          /* [n_ids] */
    uint32_t *ends;        /* [n_ids], ascending, none above text.len */
    size_t n_ids, cap_ids; /* cap_ids: entries allocated */
    struct item_run *runs; /* [n_runs] whole runs, whose ids are ITEM_EMBD. All ids of a run have the same end. */
    size_t n_runs, cap_runs;
    struct buf text;   /* bytes */
    struct buf markup; /* text.len flags */

    struct proto_message *messages; /* [n_messages] */
    size_t n_messages;
    size_t message_bytes; /* memory of the messages */

    struct session_outcome *outcomes; /* [n_outcomes], oldest first */
    size_t n_outcomes;
    size_t outcome_bytes; /* memory of the outcomes */

    struct proto_text adapter; /* of its next turns, as a request names it; len 0: none */
    struct proto_text note;    /* the client's, of the last turn; len 0: none */
    struct proto_text failed;  /* why the last detached turn failed or was cut short; len 0: it did neither */
};

/* The content of a loaded session, owned by it; NULL for NULL. */
const struct session_content *session_content(const struct session *x);

/* The end of the session's KV: an id of the engine, zero for none. It is neither saved nor copied to a fork;
 * session_forget_tokens clears it, session_move moves it. */
struct session_tail {
    uint64_t high, low;
};
struct session_tail session_tail(const struct session *x);
void session_set_tail(struct session *x, struct session_tail tail);

void session_set_raw(struct session *x, bool raw);
void session_set_context(struct session *x, enum proto_context context);
void session_set_model(struct session *x, const uint8_t model[16]);
/* Replace the flags of the first @n bytes of the text, @n <= text.len. @markup: [n] of 0 or 1. */
void session_set_markup(struct session *x, const char *markup, size_t n);

/* Keep the first @keep ids with their runs, text and markup, and drop the rest. No run is cut there. */
void session_truncate(struct session *x, size_t keep);
/* Append one id with its text of @len bytes. 0 or -ENOMEM (nothing changed). */
int session_append(struct session *x, int32_t id, const char *text, size_t len, bool markup);
/* Make room, so that session_extend() with as many items, runs and bytes cannot fail. 0 or -ENOMEM. */
int session_reserve(struct session *x, struct items items, size_t len);
/* Append @items, whose runs are whole, with the @len bytes of text and flags they stand for. @ends: [items.n] offsets
 * into the text as it is after the call, the same for all items of a run. Everything is copied. 0 or -ENOMEM (nothing
 * changed). */
int session_extend(struct session *x, struct items items, const uint32_t *ends, const char *text, const char *markup,
                   size_t len);
/* The items; valid until the content changes. */
static inline struct items session_items(const struct session_content *c)
{
    return (struct items){.ids = c->ids, .n = (uint32_t)c->n_ids, .runs = c->runs, .n_runs = (uint32_t)c->n_runs};
}
/* Drop the ids, because they belong to another model. A raw session keeps its text and markup, its only content; a
 * session of messages keeps the messages. */
void session_forget_tokens(struct session *x);

/* Append a message. Both strings are copied. 0 or -ENOMEM (nothing changed). */
int session_add_message(struct session *x, const char *role, size_t role_len, const char *content, size_t len);
/* The same with thought, calls, media and the other parts of @m. The files of the media are not copied. */
int session_add_parts(struct session *x, const struct proto_message *m);
/* Add an image or a sound to message @i, behind those that the message has. Takes a reference of its own on the file. 0
 * or -ENOMEM (nothing changed). */
int session_add_media(struct session *x, size_t i, const struct proto_media *media);
/* Keep the first @keep messages. */
void session_drop_messages(struct session *x, size_t keep);

/* Set the error message of a detached turn; len 0 clears it. Copied. 0 or -ENOMEM (nothing changed). */
int session_set_failed(struct session *x, const char *message, size_t len);

/* Set the adapter; len 0 clears it. Copied. 0 or -ENOMEM (nothing changed). */
int session_set_adapter(struct session *x, const char *adapter, size_t len);

/* Set the note of the last turn; len 0 clears it. Copied. 0 or -ENOMEM (nothing changed). */
int session_set_note(struct session *x, const char *note, size_t len);

/* Add the outcome of a turn, copied; an outcome with the UUID "" is ignored. Of more than SESSION_OUTCOMES the oldest
 * is dropped. 0 or -ENOMEM (nothing changed). */
int session_add_outcome(struct session *x, const struct session_outcome *o);
/* Take back the last outcome, if it has this UUID. */
void session_drop_outcome(struct session *x, const char *uuid);
/* The outcome of the turn with this UUID, valid until the content changes. NULL: no such turn, or it was dropped. */
const struct session_outcome *session_find_outcome(const struct session *x, const char *uuid);
/* The message of the answer of @o, one of the outcomes: the one that it names, or else the only one with calls and this
 * text. NULL: none, or it cannot be told. Valid until the content changes. */
const struct proto_message *session_outcome_message(const struct session *x, const struct session_outcome *o);
