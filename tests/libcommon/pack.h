/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * msgpack bodies written as text, for messages that the writers of proto.h would never make:
 *   {'type': 'generate', 'id': 1, 'raw': true, 'prompt': b'bytes', 'temperature': 0.5, 'stop': ['x'], 'seed': -1,
 * 'uuid': null} Bytes between quotes are taken as they are. Numbers with a point are float64.
 */
#include "libcommon/buf.h"

/* Append the msgpack form of @text to @out; fails the test on bad text. */
void pack(struct buf *out, const char *text);
