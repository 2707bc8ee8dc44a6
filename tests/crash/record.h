/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The log of what programs do to files, which record.c writes and replay.c reads: records, each of @size bytes, in the
 * order of the system calls. Files and directories are known by their inode numbers. A note is text of the script that
 * drives the programs (write_orders.py).
 */
#include <stdint.h>

enum record_op {
    RECORD_NOTE,
    RECORD_CREATE, /* the file @file gets the name @name in @dir */
    RECORD_MKDIR,  /* likewise a directory */
    RECORD_LINK,   /* @file gets the further name @name in @dir */
    RECORD_RENAME, /* @file moves from @from, of the same directory, to @name */
    RECORD_UNLINK, /* @name is removed from @dir */
    RECORD_WRITE,  /* the bytes after the names, at offset @at of @file */
    RECORD_SIZE,   /* @file has @at bytes from now on */
    RECORD_ASK,    /* fsync of @file begins */
    RECORD_SYNC,   /* the one that this thread began last ended without an error */
};

struct record {
    uint32_t size; /* of all, with names and bytes */
    uint16_t op;
    uint8_t name, from; /* their lengths */
    uint64_t file, dir;
    uint64_t at;
    uint32_t thread;
    uint32_t bytes;
};
