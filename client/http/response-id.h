/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The id of a response, which is also the name of the session that stores it. So a response is found without a table,
 * also after a restart. The id tells the daemon that has the session, and the instructions that the session begins
 * with: a next response with other instructions cannot continue it.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RESPONSE_RANDOM = 8, RESPONSE_ID_MAX = 64, RESPONSE_ITEM_ID_MAX = 48 };

struct response_id {
    uint32_t created;                     /* seconds since 1970 */
    uint32_t model;                       /* response_id_hash of the name of the daemon's socket, its lower half */
    uint64_t instructions;                /* response_id_hash; 0: none */
    char random[2 * RESPONSE_RANDOM + 1]; /* digits; also the UUID of the request to the daemon */
};

/* Choose @id->random. */
void response_id_choose(struct response_id *id);

void response_id_write(char out[static RESPONSE_ID_MAX], const struct response_id *id);

/* False: @text is not the id of a response. */
bool response_id_read(struct response_id *id, const char *text);

/* FNV-1a; never 0. */
uint64_t response_id_hash(const char *text, size_t n);

/* The id of the item @n of one kind, such as "msg", of the response. */
void response_item_id(char out[static RESPONSE_ITEM_ID_MAX], const struct response_id *id, const char *kind, size_t n);
