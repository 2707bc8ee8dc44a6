/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The precompiled character map of a SentencePiece model: which texts are replaced before the search for tokens, and by
 * what. Bytes in tokenizer.ggml.precompiled_charsmap: u32 the bytes of the trie; the trie, a double array of u32 units
 * (all little-endian); the replacements, each ended by a NUL. Immutable once made.
 *
 * The units are those of the Darts-clone library. Bits 0-7 the label, bit 8: a text ends here, bits 10-30 the offset,
 * bit 9: the offset counts in 256s; bit 31: no label, the unit holds a value, in bits 0-30. From a unit with number i,
 * base = i ^ offset; the child for byte c is unit base ^ c if that has the label c; the value is in unit base.
 */
#include "daemon/model/gguf.h"

struct charsmap {
    uint32_t *units; /* [n] */
    char *texts;     /* [n_texts], the last byte is NUL */
    size_t n, n_texts;
};

/* Reads the map; without the key, or with no bytes, it is empty. 0, -ENOMEM, or -EINVAL and the error message if a
 * number in it points outside of it. charsmap_fini frees @m in either case. */
int charsmap_init(struct charsmap *m, const struct gguf *g);
void charsmap_fini(struct charsmap *m);

/* The length of the longest text that @s begins with and that is replaced, with its replacement in *to, or 0. */
size_t charsmap_match(const struct charsmap *m, const char *s, size_t len, const char **to);
