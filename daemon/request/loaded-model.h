/* SPDX-License-Identifier: MIT */
#pragma once
/* A model ready to serve: file, tokenizer, chat template, weights. Immutable once loaded, but for the backend, which is
 * the engine thread's, and the constraints. */
#include "daemon/model/backend.h"
#include "daemon/output/channel.h"
#include "daemon/request/adapters.h"
#include "daemon/request/config.h"
#include "daemon/sample/params.h"
#include "daemon/text/markup/markup.h"
#include "daemon/text/template/template.h"
#include "daemon/text/tokenizer/tokenizer.h"

struct constraints;
struct draft_model;
struct encoder;

struct loaded {
    struct gguf *gguf;
    struct tokenizer *tokenizer;
    struct template *template;           /* NULL: no usable template; template_why has the reason */
    char *template_why;                  /* the message for requests that need the template */
    struct markup *markup;               /* that the template writes; NULL: no usable template */
    const struct channel_format *format; /* of answers to raw prompts */
    struct constraints *constraints;     /* compiled for the tokenizer; has its own locks */
    struct backend *backend;
    struct adapters adapters;
    struct draft_model *draft;     /* NULL: none; its backend is the engine thread's */
    struct encoder *encoder;       /* of images; NULL: none */
    struct sample_params sampling; /* defaults, with the file's own */
    int32_t *eog;                  /* [n_eog] the tokens that end an answer, for ignore_eos */
    size_t n_eog;
    uint32_t vocab;         /* ids that can be sampled: < vocab */
    uint32_t piece_max;     /* bytes of the longest token */
    uint32_t ctx;           /* limit of one sequence: the model's, the configuration's, and what the pool holds */
    uint64_t kv_host_bytes; /* of KV in host memory, behind a device's */
};

/* Zero @m first. On error sets the error message, and nothing is left in *m. @progress as in struct backend_config. */
int load_model(struct loaded *m, const struct engine_config *c, void (*progress)(void *, uint64_t, uint64_t),
               void *ctx);
void loaded_fini(struct loaded *m);

/* Bytes of a block of the model's KV. */
uint64_t load_block_bytes(const struct hparams *s, enum kern_kv type);

/* The default of kv_bytes: a quarter of @available, at least one block, and at most the size of @parallel sequences of
 * @ctx tokens. @block: bytes of a block. */
uint64_t load_kv_bytes(uint64_t available, uint64_t block, uint32_t parallel, uint32_t ctx);

/* The default of kv_host_bytes: a quarter of @available, at most four times the device's @kv_bytes. */
uint64_t load_host_bytes(uint64_t available, uint64_t kv_bytes);

/* For a model with recurrent layers: the bytes that are added to it, so that states have @percent of all. @state: bytes
 * of a state. */
uint64_t load_state_room(uint64_t block, uint64_t state, uint32_t percent, uint32_t parallel, uint32_t ctx);
/* How many states are in kv_bytes of @bytes: @percent of them (all if @block is 0: the model has no attention), but one
 * for each sequence and two more if half of the bytes are enough, not many more than there are blocks, and at least
 * one. They leave room for a block of KV. @bytes is at least @block + @state. */
uint32_t load_states(uint64_t bytes, uint64_t block, uint64_t state, uint32_t percent, uint32_t parallel);
