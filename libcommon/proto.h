/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The protocol's messages as structs, and their msgpack form. man/hob-protocol.7 is the reference; the names of keys
 * there and of members here agree. Decoding checks depth, element counts and lengths against the bytes that are there
 * before msgpack-c sees them, and refuses unknown keys of a request by name. Of an event only what the member comments
 * name is set; what it does not carry is 0, "answer" (channel) or -1 (miss_at, seed).
 */
#include "libcommon/blob.h"
#include "libcommon/buf.h"
#include "libcommon/proto-embed.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROTO_VERSION        1
#define PROTO_DEPTH_MAX      16
#define PROTO_ELEMS_MAX      100000u /* maps, arrays and scalars in one message, together */
#define PROTO_STOPS_MAX      16
#define PROTO_STOP_MAX       1024 /* bytes of a stop string; held text is compared with each */
#define PROTO_BIASES_MAX     10000
#define PROTO_BIAS_TEXT_MAX  256        /* bytes of a text that shall be one token */
#define PROTO_NAME_MAX       128        /* bytes of a session's name */
#define PROTO_SALT_MAX       256        /* bytes of a salt */
#define PROTO_USER_MAX       64         /* bytes of the name of a gateway's user */
#define PROTO_NOTE_MAX       (2u << 20) /* bytes of a note */
#define PROTO_CURSOR_MAX     64         /* bytes of `next` of a page */
#define PROTO_PAGE_MAX       1000       /* sessions of a page */
#define PROTO_ANSWERS_MAX    32         /* to one prompt */
#define PROTO_TOP_MAX        20         /* most likely tokens of a position */
#define PROTO_CONSTRAINT_MAX (8u << 20) /* bytes of a schema, grammar, regular expression or choice */
#define PROTO_CHOICES_MAX    10000
#define PROTO_TOOLS_MAX      (1u << 20)   /* bytes of a list of tools */
#define PROTO_CALLS_MAX      1000         /* calls of a message */
#define PROTO_MEDIA_MAX      128          /* images and sounds of a request, and descriptors of a message */
#define PROTO_FILE_MAX       (512u << 20) /* bytes of an image or a sound */
#define PROTO_CALL_ID_MAX    256          /* bytes of a call's id, and of the name of a tool */
#define PROTO_TAKE_MIN       (1u << 20)   /* bytes of a message whose memory can become that of its text */

/* Bytes, not always text. The containing struct owns them. data has a NUL after len, for convenience. */
struct proto_text {
    char *data;
    size_t len;
};

/* A call of a tool. */
struct proto_call {
    struct proto_text id, name, arguments; /* the arguments are the JSON text of an object */
};

enum proto_media_kind { PROTO_MEDIA_IMAGE = 1, PROTO_MEDIA_SOUND };

/* An image or a sound of a message. */
struct proto_media {
    enum proto_media_kind kind;
    uint32_t fd;       /* of a message that was read, while @file is NULL: number of the descriptor with the file */
    size_t at;         /* offset in the content: it stands before this byte */
    struct blob *file; /* held; in any format that hobd decodes */
    /* Of the decoded file; zero before. */
    uint32_t width, height; /* of an image */
    uint64_t samples;       /* of a sound */
    uint8_t digest[16];     /* of the pixels or samples */
};

struct proto_message {
    struct proto_text role, content; /* the texts of typed parts are joined here */
    struct proto_media *media;       /* [n_media], owned; of typed parts, in order */
    size_t n_media;
    struct proto_text thinking; /* assistant: the thought before the answer; len 0: none */
    struct proto_call *calls;   /* assistant: [n_calls], owned */
    size_t n_calls;
    struct proto_text call_id, name; /* tool: the call that @content answers, and its tool; len 0: not given */
};

enum proto_type {
    PROTO_HELLO = 1,
    PROTO_GENERATE,
    PROTO_CANCEL,
    PROTO_TOKENIZE,
    PROTO_DETOKENIZE,
    PROTO_STATUS,
    PROTO_STOP,
    PROTO_WARM,         /* a generate that computes the prompt and ends with done */
    PROTO_INFILL,       /* a generate of what belongs between two texts */
    PROTO_SESSION_LIST, /* answered by sessions, a page of them */
    PROTO_SESSION_SHOW, /* by sessions */
    PROTO_SESSION_FORK, /* these three by ok */
    PROTO_SESSION_RENAME,
    PROTO_SESSION_REMOVE,
    PROTO_EMBED, /* vectors of texts: answered by embeddings and done */
    PROTO_RANK,  /* how well texts answer a question: by scores and done */
};

/* The behavior on a full context, see --context in hob(1). A session keeps its setting. */
enum proto_context { PROTO_CONTEXT_UNSET, PROTO_CONTEXT_REFUSE, PROTO_CONTEXT_SHIFT, PROTO_CONTEXT_ROTATE };

/* A value the request did not give: floats NAN, integers -1. */
struct proto_sampling {
    float temperature, top_p, min_p, repeat_penalty;
    int64_t top_k;
    int64_t seed; /* -1: the daemon draws one and tells it in done; else 0 … 2^63-1 */
    float typical_p, frequency_penalty, presence_penalty;
    float mirostat, mirostat_eta; /* the surprise it aims at, 0: off; how fast */
    int64_t repeat_last_n;        /* tokens that the three penalties look at */
};

/* A bias for the logit of one token: the token @id, or, if len > 0, the token that encodes @text. */
struct proto_bias {
    struct proto_text text;
    int64_t id;
    float bias;
};

/* Of two requests of one user, the more urgent one comes first. */
enum proto_priority { PROTO_PRIORITY_UNSET, PROTO_PRIORITY_INFILL, PROTO_PRIORITY_INTERACTIVE, PROTO_PRIORITY_BATCH };

/* When the length limit comes before the end of a constrained answer: it gets its shortest completion, or is cut. */
enum proto_on_limit { PROTO_LIMIT_UNSET, PROTO_LIMIT_CLOSE, PROTO_LIMIT_CUT };

/* The texts that an answer may be. */
enum proto_constraint_type {
    PROTO_CONSTRAINT_NONE,
    PROTO_CONSTRAINT_SCHEMA,  /* JSON texts that are valid against the JSON Schema in @text */
    PROTO_CONSTRAINT_GRAMMAR, /* those of the GBNF grammar in @text */
    PROTO_CONSTRAINT_REGEX,   /* those that the regular expression in @text matches as a whole */
    PROTO_CONSTRAINT_CHOICE,  /* @choices */
};

struct proto_constraint {
    enum proto_constraint_type type;
    struct proto_text text;
    struct proto_text *choices; /* [n_choices], owned */
    size_t n_choices;
    enum proto_on_limit on_limit; /* unset: close for a schema, else cut */
    bool schema_lenient;          /* a schema's keywords that cannot be enforced are ignored, with warnings */
    bool any_order;               /* the properties of a schema's objects may be in any order */
    bool compact;                 /* no white space between the tokens of a schema's JSON */
};

/* Unset is auto if the request has tools. */
enum proto_tool_choice {
    PROTO_TOOL_UNSET,
    PROTO_TOOL_AUTO,     /* the model decides */
    PROTO_TOOL_NONE,     /* no calls */
    PROTO_TOOL_REQUIRED, /* at least one call */
    PROTO_TOOL_NAMED,    /* a call of the tool @name */
};

struct proto_tools {
    struct proto_text list; /* JSON text: OpenAI's list of tools; len 0: none */
    enum proto_tool_choice choice;
    struct proto_text name;
};

/* Who may propose tokens of the answer, so that one pass computes several: it changes how long an answer takes, and
 * nothing else. Unset is auto. */
enum proto_speculate {
    PROTO_SPECULATE_UNSET,
    PROTO_SPECULATE_AUTO,
    PROTO_SPECULATE_OFF,
    PROTO_SPECULATE_LOOKUP,
    PROTO_SPECULATE_DRAFT
};

/* Unset: the template's default. */
enum proto_thinking_mode { PROTO_THINKING_UNSET, PROTO_THINKING_ON, PROTO_THINKING_OFF };

struct proto_thinking {
    enum proto_thinking_mode mode;
    bool limited; /* after @budget tokens the thought is closed */
    int64_t budget;
};

struct proto_infill {
    struct proto_text prefix, suffix; /* text before and after the gap; not both empty */
    int64_t max_lines;                /* of the answer, at most; -1: no limit */
};

struct proto_generate {
    char uuid[40]; /* "" when not given */
    bool raw;      /* prompt is text instead of messages */
    bool special;  /* with raw: special tokens in it are parsed */
    struct proto_text prompt;
    struct proto_infill infill; /* requests of that type only */
    struct proto_message *messages;
    size_t n_messages;
    struct proto_text session; /* len 0: none */
    bool continue_last;        /* the last session of this uid */
    struct proto_text fork;    /* the turn goes to a new session of this name, which begins as the other; len 0: no */
    bool wait;                 /* for a session that is busy, in the queue; without: EBUSY */
    enum proto_context context;
    enum proto_priority priority;
    struct proto_text salt;    /* narrows the namespace in which a cached prefix is found; len 0: none */
    int64_t max_tokens;        /* -1: the daemon's default */
    uint32_t n;                /* answers; 0 is 1 */
    bool detach;               /* continues after the end of its connection; the session stores the answer */
    bool ignore_eos, logprobs; /* logprobs: text events carry ids and logprobs */
    int64_t top_logprobs;      /* they also carry top, with so many likely tokens; -1: no */
    struct proto_sampling sampling;
    struct proto_bias *biases; /* [n_biases], owned */
    size_t n_biases;
    struct proto_text stop[PROTO_STOPS_MAX];
    size_t n_stop;
    int64_t timeout_ms; /* from arrival to the end of the answer; -1: none */
};

struct proto_request {
    enum proto_type type;
    uint64_t id;            /* the client's, not 0; every event that answers it carries it */
    uint32_t version;       /* hello; 0 is written as PROTO_VERSION */
    struct proto_text user; /* hello: of a gateway, the one of its users whom the connection belongs to; len 0: none */
    struct proto_generate gen;
    struct proto_constraint constraint; /* generate, warm: of the answers */
    struct proto_tools tools;           /* generate, warm */
    struct proto_thinking thinking;     /* generate, warm */
    enum proto_speculate speculate;     /* generate, warm, infill */
    struct proto_text adapter;          /* generate, warm, infill: "NAME[=SCALE]", or "none"; len 0: the session's */
    struct proto_text note;             /* generate: the session keeps it with the turn; len 0: none */
    struct proto_text text;             /* tokenize */
    int32_t *ids;                       /* detokenize: [n_ids], owned, none negative */
    size_t n_ids;
    bool special;             /* tokenize, detokenize */
    struct proto_text name;   /* session.*: which; not of session.list */
    struct proto_text to;     /* session.fork, session.rename: its other name */
    struct proto_text after;  /* session.list: `next` of the page before; len 0: the first page */
    uint32_t limit;           /* session.list: most sessions of a page; 0: the daemon's default */
    struct proto_embed embed; /* embed, rank; they also use salt, priority and timeout_ms of @gen */
    uint32_t n_fds;           /* descriptors that come with the message, at most PROTO_MEDIA_MAX; only read */
    size_t bytes;             /* memory this request holds, for the uid's account */
};

enum proto_event_type {
    PROTO_EV_HELLO = 1,
    PROTO_EV_QUEUED,
    PROTO_EV_PREFILL,
    PROTO_EV_TEXT,
    PROTO_EV_DONE,
    PROTO_EV_ERROR,
    PROTO_EV_TOKENS,
    PROTO_EV_DETOKENIZED,
    PROTO_EV_STATUS,
    PROTO_EV_STOPPING, /* answer to stop */
    PROTO_EV_SESSIONS, /* answer to session.list and session.show */
    PROTO_EV_OK,       /* answer to what has no other */
    PROTO_EV_TOOL_CALL,
    PROTO_EV_WARNING,
    PROTO_EV_EMBEDDINGS, /* to embed, in one or more pieces; then done */
    PROTO_EV_SCORES,     /* to rank, likewise */
    PROTO_EV_UNKNOWN,    /* a newer daemon's; ignore */
};

enum proto_reason {
    PROTO_STOP_EOS,
    PROTO_STOP_LENGTH,
    PROTO_STOP_CANCEL,
    PROTO_STOP_CONTEXT,
    PROTO_STOP_TOOL_CALLS, /* as EOS, and the answer has calls */
};                         /* "stop", "length", … */

/* A token of a position. */
struct proto_token {
    int32_t id;
    float logprob;
    struct proto_text text; /* its bytes, which may be a part of a character */
};

/* Joules of the CPU packages, without the idle power. */
struct proto_energy {
    bool known;      /* the daemon can read the counters */
    double prompt_j; /* of the whole prompt */
    double token_j;  /* of a token of the answer */
    double saved_j;  /* not spent, because tokens of the prompt were cached */
};

/* Parts of the prompt that were left out. */
struct proto_cut {
    uint64_t shifted;        /* tokens that the context policy left out */
    uint64_t prefix, suffix; /* bytes that an infill left out, at the far ends */
};

/* A part of a call. */
struct proto_call_part {
    bool withdrawn;         /* the call is malformed and none after all; its text follows as text of the answer */
    uint32_t number;        /* of the call in its answer, from 0 */
    struct proto_call call; /* id and name: only in the first part of a call; arguments: the next piece of the text */
};

/* An image or a sound of the prompt. */
struct proto_media_usage {
    enum proto_media_kind kind;
    uint32_t tokens;
    bool cached;      /* not encoded for this request: embeddings or KV were cached */
    double encode_ms; /* 0: cached */
};

/* Features of a daemon that a request can need: bits. */
enum proto_feature {
    PROTO_FEATURE_CONSTRAINT = 1 << 0,
    PROTO_FEATURE_THINKING = 1 << 1,
    PROTO_FEATURE_TOOLS = 1 << 2,
    PROTO_FEATURE_MEDIA = 1 << 3,
    PROTO_FEATURE_EMBED = 1 << 4,
};

/* error codes on the wire are errno names: "EBUSY", "EINVAL", … */
/* Of text; its ids also of tokens. */
struct proto_event_tokens {
    int32_t *ids;    /* [n], owned */
    float *logprobs; /* [n] or NULL, owned */
    size_t n, n_top;
    struct proto_token *top; /* [n_top], owned: the sampled token, then the most likely ones */
};

struct proto_event {
    enum proto_event_type type;
    uint64_t id;    /* 0: about the connection, not a request */
    uint32_t index; /* of the answer */
    bool more;      /* done, error: other answers to the same prompt have not ended */
    /* hello (0 is written as PROTO_VERSION; features: those of enum proto_feature, only read); queued */
    uint32_t version, features, position;
    /* prefill */
    uint64_t done, total, cached;
    /* text, detokenized: whole UTF-8; tokens when asked for (a text event may then have an empty text) */
    struct proto_text text;
    const char *channel; /* static: "answer", "thinking", "other"; NULL is written as "answer" */
    struct proto_event_tokens tokens;
    struct proto_call_part part; /* tool_call */
    /* done */
    enum proto_reason reason;
    uint64_t usage_prompt, usage_cached, usage_completion, usage_thinking, /* the last is a part of completion */
        usage_drafted, usage_accepted, /* proposed tokens that were computed; of these, parts of completion */
        usage_drafted_model;           /* part of drafted: those that the draft model has proposed */
    double queue_ms, prefill_ms, decode_ms, ttft_ms;
    struct proto_energy energy;
    struct proto_media_usage *media; /* [n_media], owned; those of this request's messages, in order */
    size_t n_media;
    struct proto_text session;
    int64_t miss_at; /* first prompt token that was not reused although the session had one there; -1: none */
    struct proto_cut cut;
    int64_t seed;
    /* error; the message also of warning */
    int code; /* positive errno */
    struct proto_text message;
    /* status: a JSON object as text, so that the client prints it without knowing it */
    struct proto_text status;
    /* sessions: a JSON array of objects (list), or one object (show), as text too; next: of a list, 'after' of the
     * request for the next page; len 0: this is the last page */
    struct proto_text sessions, next;
    struct proto_vectors vectors; /* embeddings, scores */
};

/* All values are unset. */
void proto_sampling_init(struct proto_sampling *s);

/* The client's defaults for a generate request. */
void proto_generate_init(struct proto_generate *g);

void proto_request_fini(struct proto_request *r); /* frees what it holds, leaves it zero */
void proto_event_fini(struct proto_event *e);
void proto_text_fini(struct proto_text *t);
void proto_call_fini(struct proto_call *c);
void proto_message_fini(struct proto_message *m);
void proto_tools_fini(struct proto_tools *t);
/* Copy; -ENOMEM. */
int proto_text_set(struct proto_text *t, const char *s, size_t len);

/* Append one framed message (length and body) to @out. 0 or -ENOMEM, -EMSGSIZE (sets the error message; over FRAME_MAX
 * bytes or PROTO_ELEMS_MAX elements), which leave @out's bytes as they were. A request is written as it is, right or
 * wrong; in an event's strings, what is not UTF-8 becomes U+FFFD. */
int proto_write_request(struct buf *out, const struct proto_request *r);
int proto_write_event(struct buf *out, const struct proto_event *e);

/* The descriptors that go with a message. */
struct proto_fds {
    int fds[PROTO_MEDIA_MAX]; /* [n], owned */
    size_t n;
};

void proto_fds_fini(struct proto_fds *f); /* closes them */

/* As proto_write_request, but a large file is not written: it goes by a descriptor of @f, which is empty at first, and
 * which the caller sends with the first bytes of the message. A file for which no descriptor can be made is written. */
int proto_write_request_fds(struct buf *out, struct proto_fds *f, const struct proto_request *r);

/* Give each medium of @r that refers to a descriptor its file: @files [r->n_fds], of which none is NULL. */
void proto_set_files(struct proto_request *r, struct blob *const *files);

/* Parse one body. On 0 the caller owns *r and calls _fini. -EBADMSG: not a message of this protocol; -EINVAL: a message
 * with a wrong key or value. Both set the error message; r->id, r->type and r->n_fds are those of the message if they
 * could be read, else 0. -EPROTO: a hello of another version (r->version). On error *r holds no memory. */
int proto_read_request(struct proto_request *r, const char *body, size_t len);
int proto_read_event(struct proto_event *e, const char *body, size_t len);
/* Like proto_read_request, for a body inside *memory (allocated by malloc, at least one byte longer than the body). If
 * the body has at least PROTO_TAKE_MIN bytes and is almost entirely one text, that text is not copied: it moves to the
 * front of *memory, *r takes the memory, and *memory becomes NULL. Otherwise the caller still owns *memory. */
int proto_take_request(struct proto_request *r, char **memory, const char *body, size_t len);

/* "image" <-> PROTO_MEDIA_IMAGE, "audio" <-> PROTO_MEDIA_SOUND; other names are 0. */
const char *proto_media_name(enum proto_media_kind kind);
enum proto_media_kind proto_media_value(const char *name);

/* The name of the first of @features, a static string. */
const char *proto_feature_name(uint32_t features);

/* "EBUSY" <-> EBUSY; names and numbers it does not know are "EIO" and EIO. */
const char *proto_errno_name(int code);
int proto_errno_value(const char *name);
/* Bytes of all texts of the message; and with its files. */
size_t proto_message_text(const struct proto_message *m);
size_t proto_message_bytes(const struct proto_message *m);
/* True if the message tells the model nothing. */
bool proto_message_empty(const struct proto_message *m);
/* True if the event's text belongs to the answer itself, not to another channel. */
bool proto_is_answer(const struct proto_event *e);
/* Images and sounds that were encoded for this done; the other e->n_media were cached. */
size_t proto_media_encoded(const struct proto_event *e);
const char *proto_reason_name(enum proto_reason r);
/* "shift" <-> PROTO_CONTEXT_SHIFT; unset is "", and what it does not know is unset. */
const char *proto_context_name(enum proto_context c);
enum proto_context proto_context_value(const char *name);
const char *proto_priority_name(enum proto_priority p);       /* "" for UNSET */
const char *proto_speculate_name(enum proto_speculate s);     /* "" for UNSET */
enum proto_speculate proto_speculate_value(const char *name); /* UNSET for no name */
enum proto_priority proto_priority_value(const char *name);

const char *proto_tool_choice_name(enum proto_tool_choice c); /* "" for UNSET */
enum proto_tool_choice proto_tool_choice_value(const char *name);
const char *proto_thinking_name(enum proto_thinking_mode m); /* "" for UNSET */
enum proto_thinking_mode proto_thinking_value(const char *name);

const char *proto_constraint_name(enum proto_constraint_type t); /* "" for NONE */
enum proto_constraint_type proto_constraint_value(const char *name);
const char *proto_on_limit_name(enum proto_on_limit l); /* "" for UNSET */
enum proto_on_limit proto_on_limit_value(const char *name);

/* Check a msgpack body without building anything: exactly one object, within depth and element limits, every length
 * inside the bytes. 0 or -EBADMSG; sets the error message. */
int proto_scan(const char *body, size_t len);
