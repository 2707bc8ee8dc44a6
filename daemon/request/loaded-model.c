/* SPDX-License-Identifier: MIT */
#include "daemon/request/loaded-model.h"
#include "daemon/cache/host-pool.h"
#include "daemon/cache/kv/kv-table.h"
#include "daemon/encoder/encoder.h"
#include "daemon/request/constraint.h"
#include "daemon/request/draft-model.h"
#include "daemon/request/texts.h"
#include "libcommon/cgroup.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/units.h"
#include <inttypes.h>
#include <string.h>
#include <time.h>

#define CTX_DEFAULT_MAX 32768
#define STATES_SPARE    8u /* states besides those of running sequences, however few tokens there are */

/* For models whose file has no template: with and without ChatML's tokens in the vocabulary. */
static const char fallback_chatml[] =
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
static const char fallback_plain[] =
    "{% for m in messages %}{{ m['role'] + ':\\n' + m['content'] + '\\n\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:\\n' }}{% endif %}";

uint64_t load_kv_bytes(uint64_t available, uint64_t block, uint32_t parallel, uint32_t ctx)
{
    uint64_t most, want = available / 4;
    if (__builtin_mul_overflow((uint64_t)parallel * kv_table_blocks(ctx), block, &most)) most = UINT64_MAX;
    if (want > most) want = most;
    return want < block ? block : want;
}

uint64_t load_host_bytes(uint64_t available, uint64_t kv_bytes)
{
    const uint64_t want = available / 4, most = kv_bytes > UINT64_MAX / 4 ? UINT64_MAX : kv_bytes * 4;
    return want < most ? want : most;
}

uint64_t load_block_bytes(const struct hparams *s, enum kern_kv type)
{
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < s->n_groups; g++)
        if (s->groups[g].kind != KV_STATE) bytes += s->groups[g].n_layers * backend_kv_bytes(s, type, g);
    return bytes;
}

uint64_t load_state_room(uint64_t block, uint64_t state, uint32_t percent, uint32_t parallel, uint32_t ctx)
{
    uint64_t kv, states;
    if (__builtin_mul_overflow((uint64_t)parallel * kv_table_blocks(ctx), block, &kv) ||
        __builtin_mul_overflow((uint64_t)parallel + STATES_SPARE, state, &states) || kv > UINT64_MAX / 100 ||
        __builtin_add_overflow(kv / (100 - percent) * percent, states, &states))
        return UINT64_MAX;
    return states;
}

uint32_t load_states(uint64_t bytes, uint64_t block, uint64_t state, uint32_t percent, uint32_t parallel)
{
    const uint64_t share = (block ? bytes / 100 * percent : bytes) / state, half = bytes / 2 / state;
    const uint64_t wanted = (uint64_t)parallel + 2, least = half < wanted ? half : wanted;
    const uint64_t room = bytes > block ? (bytes - block) / state : 0;
    uint64_t most = block ? bytes / block + parallel + STATES_SPARE : UINT32_MAX, n = share > least ? share : least;
    if (n > most) n = most;
    if (n > room) n = room;
    return n > UINT32_MAX ? UINT32_MAX : n ? (uint32_t)n : 1;
}

static bool has_token(const void *tokenizer, const char *text)
{
    return tokenizer_has_control(tokenizer, text);
}

/* The text of token @id, which the caller frees; "" if there is none. */
static char *token_text(const struct tokenizer *t, int32_t id)
{
    size_t len = 0;
    const char *piece = id < 0 ? "" : tokenizer_piece(t, id, &len);
    return strndup(piece ? piece : "", len);
}

static int load_markup(struct loaded *m, const struct gguf_str *template)
{
    _cleanup_(freep) char *bos = token_text(m->tokenizer, tokenizer_bos(m->tokenizer));
    _cleanup_(freep) char *eos = token_text(m->tokenizer, tokenizer_eos(m->tokenizer));
    const struct markup_source source = {.template = m->template,
                                         .text = template->data,
                                         .len = template->len,
                                         .bos = bos,
                                         .eos = eos,
                                         .now = time(NULL),
                                         .has_token = has_token,
                                         .vocabulary = m->tokenizer};
    return bos && eos ? markup_new(&m->markup, &source) : -ENOMEM;
}

static int load_template(struct loaded *m)
{
    struct gguf_str src;
    int r = gguf_get_str(m->gguf, "tokenizer.chat_template", &src);
    if (r < 0) return r;
    bool own = r == 0;
    if (!own) {
        bool chatml = tokenizer_has_control(m->tokenizer, "<|im_start|>");
        src.data = chatml ? fallback_chatml : fallback_plain;
        src.len = strlen(src.data);
        log_info("the model has no chat template; using %s", chatml ? "ChatML" : "plain 'role:' paragraphs");
    }
    r = template_new(&m->template, src.data, src.len);
    if (r == -ENOMEM) return r;
    if (r < 0) {
        /* Raw prompts still work, so the model is served. */
        m->template_why = strdup(error_text(r));
        if (!m->template_why) return -ENOMEM;
        log_warning("the model's chat template cannot be used: %s", m->template_why);
    }
    return r < 0 ? 0 : load_markup(m, &src);
}

static int load_vocabulary(struct loaded *m, const struct hparams *s)
{
    size_t n = tokenizer_vocab(m->tokenizer);
    if (n == 0 || n > s->vocab)
        return error_say(-EINVAL, "%s: the tokenizer has %zu tokens, the model %" PRIu32, gguf_path(m->gguf), n,
                         s->vocab);
    m->vocab = (uint32_t)n;
    m->format = channel_format_of(m->tokenizer);
    for (int32_t id = 0; (size_t)id < n; id++) {
        size_t len;
        tokenizer_piece(m->tokenizer, id, &len);
        if (len > m->piece_max) m->piece_max = (uint32_t)len;
        if (!tokenizer_is_eog(m->tokenizer, id)) continue;
        int32_t *eog = reallocarray(m->eog, m->n_eog + 1, sizeof(*eog));
        if (!eog) return -ENOMEM;
        m->eog = eog;
        m->eog[m->n_eog++] = id;
    }
    return 0;
}

/* Serve without the draft model, because of the error @r. */
static void drop_draft(struct loaded *m, int r)
{
    const bool mtp = m->draft && m->draft->mtp;
    log_warning("the model is served without %s: %s", mtp ? "its MTP layer" : "a draft model", error_text(r));
    m->draft = draft_model_free(m->draft);
}

/* The model's own layer that predicts later tokens. A model whose layer is not whole answers as well without it. */
static void open_mtp(struct loaded *m, const struct hparams *s)
{
    int r = draft_model_mtp(&m->draft, m->gguf, s, m->tokenizer);
    if (r < 0) log_warning("the model is served without its MTP layer: %s", error_text(r));
}

/* A draft model that cannot be right ends the start; one for which there is no memory does not. */
static int open_draft(struct loaded *m, const struct engine_config *c, const struct hparams *s)
{
    const bool off = c->speculation.mode == PROTO_SPECULATE_OFF || c->speculation.mode == PROTO_SPECULATE_LOOKUP;
    if (!c->speculation.draft && !c->speculation.no_mtp && !off && hparams_drafts(s)) open_mtp(m, s);
    if (!c->speculation.draft && c->speculation.mode == PROTO_SPECULATE_DRAFT && !m->draft)
        return error_say(-EINVAL, "speculate: 'draft' needs a draft model (--draft), or a model with an MTP layer: "
                                  "there is neither");
    if (!c->speculation.draft) return 0;
    int r = draft_model_open(&m->draft, c->speculation.draft, m->tokenizer);
    if (r != -ENOMEM) return r;
    drop_draft(m, r);
    return 0;
}

/* The part of @bytes of KV that is the draft model's. */
static uint64_t draft_bytes(struct loaded *m, const struct engine_config *c, uint64_t bytes, uint64_t block)
{
    uint64_t part = m->draft ? draft_model_kv(m->draft, c->kv_type, bytes, block, c->parallel, m->ctx) : 0;
    if (m->draft && part == 0) drop_draft(m, error_say(-ENOMEM, "its KV has no room in %" PRIu64 " bytes", bytes));
    return part;
}

static int load_draft(struct loaded *m, uint64_t kv_bytes, uint32_t parallel)
{
    char weights[32], kv[32];
    int r = m->draft ? draft_model_load(m->draft, m->backend, kv_bytes, m->ctx, parallel) : 0;
    if (r == -ENOMEM) drop_draft(m, r);
    if (r < 0) return r == -ENOMEM ? 0 : r;
    if (m->draft)
        log_info("%s %s: %s, and %s of KV", m->draft->mtp ? "MTP layer of" : "draft model", gguf_path(m->draft->gguf),
                 format_size(weights, m->draft->backend->weight_bytes), format_size(kv, kv_bytes));
    return 0;
}

static uint64_t default_bytes(const struct engine_config *c, const struct loaded *m, uint64_t block, uint64_t drafts,
                              uint64_t state)
{
    uint64_t available = cgroup_memory_available(""), adapters = adapters_bytes(&m->adapters);
    available = available > adapters ? available - adapters : 0;
    uint64_t bytes = load_kv_bytes(available, block + drafts, c->parallel, m->ctx);
    if (!state) return bytes;
    uint64_t room = load_state_room(block, state, c->state_share, c->parallel, m->ctx);
    if (__builtin_add_overflow(bytes, room, &bytes) || bytes > available / 4) bytes = available / 4;
    return bytes < block + 2 * state ? block + 2 * state : bytes;
}

/* Blocks that only count sequences' positions: such a backend keeps no KV between its steps, and no memory is behind
 * them. */
static uint32_t text_blocks(uint32_t parallel, uint32_t ctx)
{
    return (parallel > TEXTS_SLOTS ? parallel : TEXTS_SLOTS) * kv_table_blocks(ctx);
}

/* A model that computes texts whole has steps of at least its context. */
static uint32_t whole_tokens(const struct engine_config *c, uint32_t ctx)
{
    const uint32_t tokens = c->batch_tokens ? c->batch_tokens : BACKEND_TOKENS;
    return ctx > tokens ? ctx : tokens;
}

static int load_weights(struct loaded *m, const struct engine_config *c, const struct hparams *s,
                        void (*progress)(void *, uint64_t, uint64_t), void *ctx)
{
    m->ctx = c->ctx ? c->ctx : CTX_DEFAULT_MAX;
    if (m->ctx > s->ctx) {
        if (c->ctx) log_warning("--ctx %" PRIu32 " is more than the model's context; using %" PRIu32, c->ctx, s->ctx);
        m->ctx = s->ctx;
    }
    uint64_t block = load_block_bytes(s, c->kv_type), state = hparams_state(s) ? hparams_state(s)->state_bytes : 0;
    uint64_t drafts = m->draft ? load_block_bytes(&m->draft->hparams, c->kv_type) : 0;
    uint64_t bytes = c->kv_bytes ? c->kv_bytes : default_bytes(c, m, block, drafts, state);
    if (bytes < block + state) {
        char have[32], need[32];
        return error_say(-EINVAL, "kv-bytes is %s, but one block of 32 tokens of this model takes %s%s",
                         format_size(have, bytes), format_size(need, block + state),
                         state ? " with the state of its recurrent layers" : "");
    }
    drafts = draft_bytes(m, c, bytes, block);
    if (drafts && bytes - drafts < block + state) {
        drop_draft(m, error_say(-ENOMEM, "its KV has no room beside a state of the model's recurrent layers"));
        drafts = 0;
    }
    struct backend_config bc = {
        .device = c->device,
        .threads = c->threads,
        .no_numa = c->no_numa,
        .ctx = m->ctx,
        .kv_type = c->kv_type,
        .kv_bytes = bytes - drafts,
        .states = state ? load_states(bytes - drafts, block, state, c->state_share, c->parallel) : 0,
        .batch_tokens = s->embedding.whole ? whole_tokens(c, m->ctx) : c->batch_tokens,
        .window_group = !c->one_group,
        .cpu = c->cpu,
        .packed_dir = c->packed.dir,
        .no_packed_file = c->packed.no_file,
        .progress = progress,
        .progress_ctx = ctx,
        .mtp = {m->draft && m->draft->mtp ? drafts : 0, DRAFT_MODEL_TOKENS},
    };
    int r = backend_new(&m->backend, m->gguf, &bc);
    if (r < 0) return r;
    if (*m->backend->threads_text) log_info("computing with %s and %s", m->backend->isa, m->backend->threads_text);
    if (s->embedding.whole) {
        m->backend->kv_blocks[0] = text_blocks(c->parallel, m->ctx);
        return 0;
    }
    uint64_t tokens = (uint64_t)m->backend->kv_blocks[0] * KV_BLOCK;
    if (tokens < m->ctx) {
        log_warning("a sequence is limited to %" PRIu64 " tokens, the size of the KV pool, instead of %" PRIu32
                    " (see --kv-bytes)",
                    tokens, m->ctx);
        m->ctx = (uint32_t)tokens;
    }
    return load_draft(m, drafts, c->parallel);
}

/* Host memory for KV that a device has no room for. It must be there, or the daemon does not start: the kernel cannot
 * swap it. */
static int load_host(struct loaded *m, const struct engine_config *c)
{
    const struct backend *b = m->backend;
    const bool given = c->kv_host_bytes != KV_HOST_DEFAULT, state = hparams_state(&b->hparams) != NULL;
    const uint64_t available = cgroup_memory_available("");
    char have[32], need[32];
    if (!b->ops->host_alloc || c->kv_host_bytes == 0) return 0;
    if (b->hparams.embedding.whole && given)
        log_warning("kv-host-bytes is not used: a model for texts alone keeps no KV in host memory");
    if (b->hparams.embedding.whole) return 0;
    m->kv_host_bytes = given ? c->kv_host_bytes : load_host_bytes(available, b->config.kv_bytes);
    const uint64_t least = host_pool_least(b);
    if (given && m->kv_host_bytes < least)
        return error_say(-EINVAL, "kv-host-bytes is %s, but one block of 32 tokens%s of this model takes %s",
                         format_size(have, m->kv_host_bytes), state ? " with a recurrent state" : "",
                         format_size(need, least));
    if (given && available && m->kv_host_bytes > available)
        return error_say(-EINVAL, "kv-host-bytes is %s, but only %s of memory are free",
                         format_size(have, m->kv_host_bytes), format_size(need, available));
    if (m->kv_host_bytes >= least) log_info("up to %s of KV in host memory", format_size(have, m->kv_host_bytes));
    return 0;
}

static int load_encoder(struct loaded *m, const struct engine_config *c, const struct hparams *s)
{
    const struct encoder_config config = {.cpu = c->cpu};
    char size[32];
    if (!c->media.mmproj) return 0;
    if (s->desc->block.text_only)
        return error_say(-EOPNOTSUPP, "%s: images and sounds are not supported in a '%s' model", c->media.mmproj,
                         s->arch);
    int r = encoder_open(&m->encoder, c->media.mmproj, &config);
    if (r < 0) return r;
    r = encoder_fits(m->encoder, s->dim, hparams_grids(s));
    if (r < 0) return error_in(r, "%s", c->media.mmproj);
    log_info("image encoder %s: %s, %s", c->media.mmproj, encoder_projector(m->encoder),
             format_size(size, encoder_bytes(m->encoder)));
    return 0;
}

int load_model(struct loaded *m, const struct engine_config *c, void (*progress)(void *, uint64_t, uint64_t), void *ctx)
{
    struct hparams hparams;
    int r = gguf_open(&m->gguf, c->model_path);
    if (r == 0) r = hparams_read(&hparams, m->gguf);
    if (r == 0) r = tokenizer_new(&m->tokenizer, m->gguf);
    if (r == 0) r = load_vocabulary(m, &hparams);
    if (r == 0) r = constraints_new(&m->constraints, m->tokenizer);
    sample_params_init(&m->sampling);
    if (r == 0) r = sample_params_file(&m->sampling, m->gguf);
    if (r == 0) r = load_template(m);
    if (r == 0) r = open_draft(m, c, &hparams);
    if (r == 0) r = load_encoder(m, c, &hparams); /* before KV takes a part of the memory that is left */
    if (r == 0) r = adapters_open(&m->adapters, &c->adapters, m->gguf);
    if (r == 0) r = load_weights(m, c, &hparams, progress, ctx);
    if (r == 0) r = adapters_load(&m->adapters, &c->adapters, m->backend);
    if (r == 0) r = load_host(m, c);
    if (r < 0) loaded_fini(m);
    return r;
}

void loaded_fini(struct loaded *m)
{
    m->draft = draft_model_free(m->draft); /* computes with the backend's threads */
    m->backend = backend_free(m->backend);
    adapters_close(&m->adapters);
    m->encoder = encoder_close(m->encoder);
    m->markup = markup_free(m->markup);
    m->template = template_free(m->template);
    m->constraints = constraints_free(m->constraints);
    m->tokenizer = tokenizer_free(m->tokenizer);
    m->gguf = gguf_close(m->gguf);
    free(m->template_why);
    free(m->eog);
    *m = (struct loaded){0};
}
