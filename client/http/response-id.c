/* SPDX-License-Identifier: MIT */
#include "client/http/response-id.h"
#include "libcommon/hex.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define PREFIX "resp_"

enum { FIXED = 16, DIGITS = 2 * (FIXED + RESPONSE_RANDOM) };

void response_id_choose(struct response_id *id)
{
    uint8_t random[RESPONSE_RANDOM];
    if (getrandom(random, sizeof(random), GRND_NONBLOCK) < 0) memcpy(random, &(void *){id}, sizeof(random));
    hex_write(id->random, random, sizeof(random));
}

void response_id_write(char out[static RESPONSE_ID_MAX], const struct response_id *id)
{
    snprintf(out, RESPONSE_ID_MAX, PREFIX "%08" PRIx32 "%08" PRIx32 "%016" PRIx64 "%s", id->created, id->model,
             id->instructions, id->random);
}

static uint64_t number_of(const uint8_t *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) v = v << 8 | p[i];
    return v;
}

bool response_id_read(struct response_id *id, const char *text)
{
    const char *digits = text + strlen(PREFIX);
    uint8_t p[FIXED + RESPONSE_RANDOM];
    if (strncmp(text, PREFIX, strlen(PREFIX)) != 0 || strlen(digits) != DIGITS) return false;
    if (!hex_read(p, digits, sizeof(p))) return false;
    id->created = (uint32_t)number_of(p, 4);
    id->model = (uint32_t)number_of(p + 4, 4);
    id->instructions = number_of(p + 8, 8);
    strcpy(id->random, digits + (size_t)2 * FIXED);
    return true;
}

uint64_t response_id_hash(const char *text, size_t n)
{
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)text[i]) * 0x100000001b3;
    return h ? h : 1;
}

void response_item_id(char out[static RESPONSE_ITEM_ID_MAX], const struct response_id *id, const char *kind, size_t n)
{
    snprintf(out, RESPONSE_ITEM_ID_MAX, "%s_%s_%zu", kind, id->random, n);
}
