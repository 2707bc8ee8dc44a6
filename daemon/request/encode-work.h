/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * An image that sequences of one namespace wait for: its embeddings are read from disk, or its file is decoded again
 * if its pixels were dropped, and the engine's thread computes them in slices. Private to encode-*.c.
 */
#include "daemon/request/media-room.h"
#include "daemon/request/request.h"

enum encode_state {
    ENCODE_READING,  /* a job reads the disk */
    ENCODE_BARE,     /* its pixels are not at hand */
    ENCODE_DECODING, /* a job decodes its file */
    ENCODE_READY,    /* its pixels are at hand */
    ENCODE_RUNNING,  /* some slices are computed */
};

/* A run of it. */
struct encode_run {
    struct media_key key;
    uint32_t n;
    struct embeddings *e; /* held; NULL: not yet */
};

struct encode_work {
    struct return_job job;
    bool in_job;  /* a job has it */
    bool dropped; /* nobody waits for it; it is freed when the job is back */
    struct core *core;
    struct encode_work *next;
    uid_t uid;
    enum encode_state state;
    struct media_source *source; /* held; NULL: its file is not known, only the disk has the embeddings */
    bool decoded_again;          /* counts for room->decoding */
    struct media media;          /* of the job that decodes */
    int result;                  /* of a job */
    char why[300];
    struct encoding *encoding; /* ENCODE_RUNNING */
    double usec;               /* of its slices */
    double owed;               /* units of service that are not charged yet */
    struct seq **waiting;      /* [n_waiting] */
    uint32_t n_waiting;
    uint32_t n_runs;
    struct encode_run runs[];
};

/* The work for @run of @s, which waits for it from now on. Makes it if there is none. 0; -ENODATA: neither the prompt
 * nor the disk has it; -ENOMEM; with an error message. */
int encode_work_for(struct core *core, struct seq *s, const struct item_run *run, struct encode_work **out);
/* It is not in the list of works any more. */
void encode_work_free(struct encode_work *w);
/* Remove it from the list, and free it unless a job has it. */
void encode_work_drop(struct encode_work *w);

/* The account of the user that waits for it. */
static inline uint64_t encode_work_served(const struct encode_work *w)
{
    return w->waiting[0]->request->user->account.served;
}

/* Have jobs decode files of works without pixels, a few at a time and of each user, in the order of the accounts. */
void encode_work_pump(struct core *core);

/* All runs have their embeddings, or @result is negative with a message: tell all that wait, and free @w. In
 * encode-media.c. */
void encode_work_done(struct encode_work *w, int result, const char *why);

/* Have a job write the embeddings of @w to the disk. */
void encode_work_write(const struct encode_work *w);
