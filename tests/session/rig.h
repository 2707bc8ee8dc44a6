/* SPDX-License-Identifier: MIT */
#pragma once
/* A store in a temporary directory, turns with a number, and sessions as text to compare. */
#include "daemon/session/store.h"

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
/* The number of its last turn; 0: none. */
unsigned rig_last(const struct session *x);
/* Acquire, load, turn @n, save, release; asserts. */
void rig_say(struct rig *g, uid_t uid, const char *name, unsigned n);

/* The whole content as text, the caller's to free. */
char *rig_dump(const struct session *x);
/* The path of its log or of another file of it: ext ".log", "-1.bad", … */
void rig_path(char out[256], const struct rig *g, uid_t uid, const char *name, const char *ext);
bool rig_exists(const struct rig *g, uid_t uid, const char *name, const char *ext);
/* Bytes of the uid's files on disk, in blocks of 4 KiB; a file with several names counts once. */
uint64_t rig_disk(const struct rig *g, uid_t uid);
/* The bytes of a file, the caller's to free. */
char *rig_read(const char *path, size_t *n);
void rig_write(const char *path, const char *p, size_t n);
