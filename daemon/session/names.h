/* SPDX-License-Identifier: MIT */
#pragma once
/* File names of a session in DIR/UID; HASH is the hex of the hash of its name. */
#include <stdbool.h>
#include <stdint.h>

#define SESSION_HEX       33                /* HASH with the terminator */
#define SESSION_FILE_NAME (SESSION_HEX + 6) /* HASH-1.bad is the longest */
#define SESSION_BADS      10                /* *.bad files of one session */
#define SESSION_BASES     4                 /* *.bI files of one session */

/* HASH and @ext: ".log", ".tmp". */
void session_file_name(char out[SESSION_FILE_NAME], const uint8_t hash[16], const char *ext);
bool session_file_name_read(const char *name, const char *ext, uint8_t hash[16]);

/* HASH.bad, HASH-1.bad … HASH-9.bad for @i of 0 … SESSION_BADS - 1. */
void session_bad_name(char out[SESSION_FILE_NAME], const uint8_t hash[16], int i);
bool session_bad_name_read(const char *name, uint8_t hash[16]);

/* HASH.b0 … HASH.b3 for @i of 0 … SESSION_BASES - 1. */
void session_base_name(char out[SESSION_FILE_NAME], const uint8_t hash[16], uint32_t i);
bool session_base_name_read(const char *name, uint8_t hash[16], uint32_t *i);
