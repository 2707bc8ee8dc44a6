/* SPDX-License-Identifier: MIT */
#pragma once
#include "tests/fuzz/fuzz.h"

/* Decodes @data [@size], and checks the result: pixels as many as it says, or a message of one line. */
void fuzz_decode(const uint8_t *data, size_t size);
