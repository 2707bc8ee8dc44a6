/* SPDX-License-Identifier: MIT */
#pragma once
/* A store in a temporary directory, turns with a number, and sessions as text to compare. */
#include "daemon/session/list.h"
#include "daemon/session/session.h"
#include "daemon/session/store.h"

struct fixture {
    char dir[64];
    struct session_store *store;
};

extern uint64_t fixture_realtime, fixture_boottime; /* of the clock in fixture_config(); each look at it is 1 µs */

struct session_store_config fixture_config(const struct fixture *g);
void fixture_make(struct fixture *g);   /* the directory and an open store */
void fixture_open(struct fixture *g);   /* again */
void fixture_close(struct fixture *g);  /* the store, not the directory */
void fixture_remove(struct fixture *g); /* all of it */
void fixture_reopen(struct fixture *g); /* close and open */
void fixture_clear(const char *path);   /* what is in a directory */

/* cmocka fixtures: *state is a struct fixture that fixture_make has made. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* Acquire and load; asserts that it works. */
struct session *fixture_acquire(struct fixture *g, uid_t uid, const char *name);
/* Turn @n, without saving: two messages, about 20 ids with text and markup, an outcome with UUID "turn-N". */
void fixture_turn(struct session *x, unsigned n);
/* The number of its last turn; 0: none. */
unsigned fixture_last(const struct session *x);
/* Acquire, load, turn @n, save, release; asserts. */
void fixture_say(struct fixture *g, uid_t uid, const char *name, unsigned n);
/* The same for turn 1 of a session whose log is so long that forks share it. */
void fixture_say_much(struct fixture *g, uid_t uid, const char *name);

/* Fork, rename and remove a session of uid 7. What session_duplicate, session_move and session_erase return. Only a
 * rename loads it first. */
int fixture_fork(struct fixture *g, const char *from, const char *to);
int fixture_rename(struct fixture *g, const char *from, const char *to);
int fixture_erase(struct fixture *g, const char *name);

/* The whole content as text, the caller's to free. */
char *fixture_dump(const struct session *x);
/* The path of its log or of another file of it: ext ".log", "-1.bad", … */
void fixture_path(char out[256], const struct fixture *g, uid_t uid, const char *name, const char *ext);
bool fixture_exists(const struct fixture *g, uid_t uid, const char *name, const char *ext);
uint64_t fixture_inode(const struct fixture *g, const char *name, const char *ext); /* of a file of uid 7 */
/* Bytes of the uid's files on disk, in blocks of 4 KiB; a file with several names counts once. */
uint64_t fixture_disk(const struct fixture *g, uid_t uid);
/* The bytes that the store counts for the uid. */
uint64_t fixture_bytes(const struct fixture *g, uid_t uid);
/* The bytes of a file, the caller's to free. */
char *fixture_read(const char *path, size_t *n);
void fixture_write(const char *path, const char *p, size_t n);
