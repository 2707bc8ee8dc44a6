/* SPDX-License-Identifier: MIT */
#pragma once
/* A store in a directory of its own, turns that say which they are, and sessions as text to compare. */
#include "daemon/cache/session.h"

struct rig {
    char dir[64];
    struct session_store *store;
};

extern uint64_t rig_realtime, rig_boottime; /* of the clock in rig_config(); each look at it is 1 µs */

struct session_store_config rig_config(const struct rig *g);
void rig_make(struct rig *g);     /* the directory and an open store */
void rig_open(struct rig *g);     /* again */
void rig_close(struct rig *g);    /* the store, not the directory */
void rig_remove(struct rig *g);   /* all of it */
void rig_clear(const char *path); /* what is in a directory */

/* cmocka fixtures: *state is a rig that rig_make has made. */
int rig_setup(void **state);
int rig_teardown(void **state);

/* Acquire and load; asserts that it works. */
struct session *rig_acquire(struct rig *g, uid_t uid, const char *name);
/* Turn @n, without saving: two messages, about 20 ids with text and markup, an outcome with UUID "turn-N". */
void rig_turn(struct session *x, unsigned n);
/* The last turn that was made in it; 0: none. */
unsigned rig_last(const struct session *x);
/* Acquire, load, turn @n, save, release; asserts. */
void rig_say(struct rig *g, uid_t uid, const char *name, unsigned n);

/* All that is in it, as text; the caller's. */
char *rig_dump(const struct session *x);
/* The path of its log, or of a file beside it: ext ".log", "-1.bad", … */
void rig_path(char out[256], const struct rig *g, uid_t uid, const char *name, const char *ext);
bool rig_exists(const struct rig *g, uid_t uid, const char *name, const char *ext);
/* What the uid's files take on disk, each counted once, in blocks of 4 KiB. */
uint64_t rig_disk(const struct rig *g, uid_t uid);
/* A file's bytes; the caller's. */
char *rig_read(const char *path, size_t *n);
void rig_write(const char *path, const char *p, size_t n);
