/* SPDX-License-Identifier: MIT */
#pragma once
/* A request to a daemon for one or several answers, and their state until the response is complete. The events of the
 * daemon are passed to a format, which writes them as JSON of one API. */
#include "client/http/exchange.h"
#include "client/tool-calls.h"
#include "libcommon/proto.h"
#include <jansson.h>

/* The JSON of one API. Each function appends to @out and returns 0, or negative with the error message. */
struct completion_format {
    enum api api;
    const char *id_prefix;
    int (*open)(struct completion *c, struct buf *out); /* a stream begins; NULL: nothing to write */
    int (*text)(struct completion *c, struct buf *out, const struct proto_event *e); /* of a stream */
    /* Of a stream: the new arguments of the last call of the answer @index, and its begin. NULL: it has no calls. */
    int (*call)(struct completion *c, struct buf *out, uint32_t index, bool begins);
    int (*end)(struct completion *c, struct buf *out, uint32_t index); /* one answer of a stream */
    int (*close)(struct completion *c, struct buf *out);               /* all answers of a stream */
    int (*whole)(struct completion *c, struct buf *out);               /* the body of a response that is not a stream */
    /* The last event of a stream that an error ends; NULL: the error in the form of the API. */
    int (*fault)(struct completion *c, struct buf *out, const struct fault *f);
    void (*explain)(struct completion *c, int code); /* the daemon's error has set the fault; NULL: nothing to add */
    const char *ping;                                /* text that keeps a silent stream alive */
};

/* The content blocks of Anthropic's API. */
enum block { BLOCK_NONE, BLOCK_TEXT, BLOCK_THINKING, BLOCK_CALL };

struct choice {
    struct buf text, thinking; /* not of a stream */
    json_t *logprobs;          /* not of a stream: a list as of openai-logprobs.h; NULL: none */
    size_t offset;             /* of completions: characters of the text that the tokens so far stand for */
    struct tool_calls calls;   /* of a stream: the arguments that were written are removed */
    size_t calls_begun;        /* calls that the stream has */
    enum proto_reason reason;
    enum block block;  /* the open block of a stream */
    unsigned n_blocks; /* blocks that a stream has begun */
};

struct completion {
    struct exchange *exchange;
    const struct completion_format *format;
    struct proto_request request; /* freed once the daemon works on it */
    char *model;                  /* as the client named it; NULL: not named */
    char *socket;
    char id[64];
    struct response *response; /* of /v1/responses; owned */
    int64_t created;           /* seconds since 1970 */
    bool stream, include_usage;
    bool logprobs; /* the client wants the probabilities of tokens */
    bool wants_echo;
    struct proto_text echo; /* completions: the prompt, in front of each answer; len 0: no */
    bool show_thinking;     /* Anthropic: the client wants the thinking */
    bool one_call;          /* the client accepts only one call in an answer */
    bool count;             /* only the number of prompt tokens is wanted */
    bool opened;            /* the stream has begun */
    bool queued;            /* the request waits in the daemon's queue */
    bool seen;              /* the daemon works on the request */
    unsigned tries;         /* connections made */
    struct choice *choices; /* [n], owned */
    uint32_t n;
    uint64_t prompt, cached, completed, thought; /* tokens; the last are a part of those completed */
    uint64_t heard;                              /* tokens of sounds, a part of those of the prompt */
    uint64_t texts;                              /* events with a text */
    uint64_t text_usec;                          /* time of the last text; 0: none */
};

/* A new one in x->completion, with the default values of a generate request. NULL: no memory, with x->fault. */
struct completion *completion_new(struct exchange *x, const struct completion_format *format);
void completion_free(struct completion *c); /* NULL does nothing */

/* Apply the limits of the client's key, and send the request. 0; negative with x->fault. */
int completion_start(struct completion *c);

/* Append @f as the last event of a stream. 0 or negative; sets the error message. */
int completion_put_fault(struct completion *c, struct buf *out, const struct fault *f);

/* A stream was silent for some time: begin it if it has not begun, and ping. */
void completion_ping(struct completion *c);

/* The model's name in a response. */
const char *completion_model(const struct completion *c);
