/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * JSON text that is complete, or none: a value for which there was no memory is remembered until json_whole_text(), so
 * that it need not be checked where it is set. Each thread makes one text at a time.
 */
#include "libcommon/buf.h"
#include <jansson.h>

/* For a program that makes one text after the other, like hob-http; to be called once, before any JSON. From then on
 * each allocation that fails within jansson counts as a missing value: version 2.14 ignores that in some places, and
 * cuts a text that it reads or copies. Such an error outside of a text spoils the next text. */
void json_whole_watch(void);

/* As json_loadb. 0; -EBADMSG with *why; -ENOMEM. *out is NULL if it fails. */
int json_whole_load(json_t **out, const char *text, size_t n, size_t flags, json_error_t *why);

/* As json_object_set_new and json_array_append_new; they take @value, which is NULL if there was no memory for it. */
void json_whole_set(json_t *object, const char *key, json_t *value);
void json_whole_append(json_t *array, json_t *value);

/* Set a string; null if it is NULL or not UTF-8. */
void json_whole_set_str(json_t *object, const char *key, const char *s, size_t n);

/* Append the text of @json, which it takes. 0; -ENOMEM: there was no memory for it or for one of the values since the
 * last text of this thread: @out may have a part of it. */
int json_whole_put(struct buf *out, json_t *json);

/* Takes @json. Its text, which the caller frees; NULL: as -ENOMEM of json_whole_put. */
char *json_whole_text(json_t *json);
