/* SPDX-License-Identifier: MIT */
#include "client/option-table.h"
#include "client/options.h"

/* clang-format off */
const struct option_def option_table[OPTION_COUNT] = {
    [OPTION_MODEL] = {"model", "NAME", "model name or .gguf path (default: default)", 'm',
                      OPTION_IN_FILE | OPTION_COMMANDS},
    [OPTION_SYSTEM] = {"system", "TEXT", "set the system message", 's', OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_FILE] = {"file", "PATH", "put this file's text before the prompt (repeatable)", 'f', 0},
    [OPTION_IMAGE] = {"image", "PATH", "put this image before the prompt; -: standard input", 'a', 0},
    [OPTION_AUDIO] = {"audio", "PATH", "put this sound before the prompt; -: standard input", 0, 0},
    [OPTION_RAW] = {"raw", NULL, "do not apply the chat template", 0, 0},
    [OPTION_SPECIAL] = {"special", NULL, "with --raw: parse special tokens in the text", 0, 0},
    [OPTION_NO_STDIN] = {"no-stdin", NULL, "do not read standard input", 0, OPTION_IN_FILE},
    [OPTION_WARM] = {"warm", NULL, "prefill the prompt into the cache, generate nothing", 0, 0},
    [OPTION_SESSION] = {"session", "NAME", "continue the session NAME, or create it", 'S', OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_CONTINUE] = {"continue", NULL, "continue your last session", 'c', 0},
    [OPTION_FORK] = {"fork", "NAME", "with -S or -c: write the turn to a new session NAME", 0, 0},
    [OPTION_WAIT] = {"wait", NULL, "wait while the session is in use", 0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_CONTEXT] = {"context", "HOW", "on a full context: refuse (default), shift, rotate", 0,
                        OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_DETACH] = {"detach", NULL, "with a session: exit once the request is accepted", 0, 0},
    [OPTION_MAX_TOKENS] = {"max-tokens", "N", "generate at most N tokens (default: 2048)", 'n', OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_STOP] = {"stop", "TEXT", "stop before this text (repeatable)", 0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_IGNORE_EOS] = {"ignore-eos", NULL, "ignore end-of-generation tokens", 0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_N] = {"n", "N", "generate N answers (1 to 32) with one prefill", 0, 0},
    [OPTION_TIMEOUT] = {"timeout", "TIME", "fail after TIME (500ms, 30s, 15min, 1h)", 0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_PRIORITY] = {"priority", "CLASS", "among your requests: infill, interactive, batch", 0,
                         OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_SPECULATE] = {"speculate", "MODE", "propose tokens: auto (default), off, lookup, draft", 0,
                          OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_TEMP] = {"temp", "X", "temperature; 0: greedy (default: 0.7)", 0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_TOP_P] = {"top-p", "X", "top-p (nucleus) sampling; 1: off (default: 0.95)", 0,
                      OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_TOP_K] = {"top-k", "N", "keep the N most likely tokens; 0: all (default: 40)", 0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_MIN_P] = {"min-p", "X", "min-p sampling; 0: off (default: 0.05)", 0,
                      OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_SEED] = {"seed", "N", "random seed (default: random)", 0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_REPEAT_PENALTY] = {"repeat-penalty", "X", "penalize repeated tokens; 1: off (default: 1)",
                               0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_FREQUENCY_PENALTY] = {"frequency-penalty", "X", "penalty per occurrence of a token (default: 0)",
                                  0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_PRESENCE_PENALTY] = {"presence-penalty", "X", "penalty for a token that occurred (default: 0)", 0,
                                 OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_REPEAT_LAST_N] = {"repeat-last-n", "N", "penalties look at the N last tokens (default: 64)", 0,
                              OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_TYPICAL_P] = {"typical-p", "X", "locally typical sampling; 1: off (default: 1)", 0,
                          OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_MIROSTAT] = {"mirostat", "TAU", "Mirostat 2 target in bits; 0: off (default: 0)", 0,
                         OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_MIROSTAT_ETA] = {"mirostat-eta", "ETA", "Mirostat 2 learning rate (default: 0.1)", 0,
                             OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_LOGIT_BIAS] = {"logit-bias", "TOKEN=X", "add X to a token's logit; id or text (repeatable)", 0,
                           OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_SCHEMA] = {"schema", "FILE|JSON", "answer with JSON valid against a JSON Schema", 0, OPTION_CHAT},
    [OPTION_GRAMMAR] = {"grammar", "FILE", "answer with a text of a GBNF grammar", 0, OPTION_CHAT},
    [OPTION_REGEX] = {"regex", "RE", "answer with a text that matches RE as a whole", 0, OPTION_CHAT},
    [OPTION_CHOICE] = {"choice", "TEXT", "answer with one of these texts (repeatable)", 0, OPTION_CHAT},
    [OPTION_ON_LIMIT] = {"on-limit", "HOW", "answer too long: close (--schema's default), cut", 0, OPTION_CHAT},
    [OPTION_SCHEMA_LENIENT] = {"schema-lenient", NULL, "with --schema: ignore what cannot be enforced", 0,
                               OPTION_CHAT},
    [OPTION_ANY_ORDER] = {"any-order", NULL, "with --schema: properties in any order", 0, OPTION_CHAT},
    [OPTION_COMPACT] = {"compact", NULL, "with --schema: no white space", 0, OPTION_CHAT},
    [OPTION_THINK] = {"think", "HOW", "thinking: hide (default), show, stderr, on, off", 0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_THINK_BUDGET] = {"think-budget", "N", "end the thinking after N tokens", 0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_TOOLS] = {"tools", "FILE", "print calls of these tools as lines of JSON", 0, 0},
    [OPTION_TOOL] = {"tool", "PATH", "run this program on the model's calls (repeatable)", 0, OPTION_CHAT},
    [OPTION_TOOL_CHOICE] = {"tool-choice", "HOW", "auto (default), none, required, or a tool's name", 0, OPTION_CHAT},
    [OPTION_YES] = {"yes", NULL, "with --tool: run calls without a question", 0, OPTION_CHAT},
    [OPTION_TOOL_ROUNDS] = {"tool-rounds", "N", "with --tool: at most N rounds (default: 20)", 0,
                            OPTION_CHAT},
    [OPTION_TOOL_TIMEOUT] = {"tool-timeout", "TIME", "with --tool: end a call after TIME (default: 60s)", 0,
                             OPTION_CHAT},
    [OPTION_QUIET] = {"quiet", NULL, "print only errors on standard error", 'q', OPTION_IN_FILE | OPTION_COMMANDS},
    [OPTION_VERBOSE] = {"verbose", NULL, "print token counts and times on standard error", 'v',
                        OPTION_IN_FILE | OPTION_COMMANDS},
    [OPTION_EXTRACT] = {"extract", NULL, "print only the first fenced code block", 'x', 0},
    [OPTION_RENDER] = {"render", NULL, "style Markdown on a terminal", 0,
                       OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_NO_STREAM] = {"no-stream", NULL, "print the answer when it is complete", 0,
                          OPTION_IN_FILE | OPTION_INFILL},
    [OPTION_JSONL] = {"jsonl", NULL, "print events as JSON, one object per line", 0, OPTION_INFILL | OPTION_ANSWER},
    [OPTION_LOGPROBS] = {"logprobs", NULL, "with --jsonl: token ids and log-probabilities", 0,
                         OPTION_INFILL | OPTION_ANSWER},
    [OPTION_JSON] = {"json", NULL, "status, sessions: print JSON", 0, OPTION_COMMANDS},
    [OPTION_WATCH] = {"watch", "[TIME]", "status: refresh every TIME (default: 1s)", 0, OPTION_STATUS},
    [OPTION_PREFIX_FILE] = {"prefix-file", "PATH", "infill: text before the gap; -: standard input", 0,
                            OPTION_INFILL},
    [OPTION_SUFFIX_FILE] = {"suffix-file", "PATH", "infill: text after the gap; -: standard input", 0, OPTION_INFILL},
    [OPTION_AT] = {"at", "BYTE", "infill: byte offset of the gap in standard input", 0, OPTION_INFILL},
    [OPTION_MAX_LINES] = {"max-lines", "N", "infill: generate at most N lines", 0, OPTION_INFILL},
    [OPTION_HELP] = {"help", NULL, "print this help", 'h', OPTION_COMMANDS},
    [OPTION_VERSION] = {"version", NULL, "print the version", 0, OPTION_COMMANDS},
};
/* clang-format on */

const struct option_word option_words[] = {
    {"status", COMMAND_STATUS}, {"stop", COMMAND_STOP},   {"chat", COMMAND_CHAT},     {"sessions", COMMAND_SESSIONS},
    {"models", COMMAND_MODELS}, {"media", COMMAND_MEDIA}, {"infill", COMMAND_INFILL}, {NULL, 0},
};

void option_names(const char **names, bool in_file)
{
    unsigned i, n = 0;

    for (i = 0; i < OPTION_COUNT; i++) {
        const struct option_def *d = &option_table[i];
        if (!d->help || (in_file && !(d->flags & OPTION_IN_FILE))) continue;
        names[n++] = d->name;
    }
    names[n] = NULL;
}
