/* SPDX-License-Identifier: MIT */
#include "client/option_table.h"
#include "client/options.h"

/* clang-format off */
const struct option_def option_table[OPTION_COUNT] = {
    [OPTION_MODEL] = {"model", "NAME", "a name, or the path of a .gguf (default: default)", 'm',
                      OPTION_IN_FILE | OPTION_COMMANDS},
    [OPTION_SYSTEM] = {"system", "TEXT", "a system message in front", 's', OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_FILE] = {"file", "PATH", "put this file's text before the prompt (repeatable)", 'f', 0},
    [OPTION_RAW] = {"raw", NULL, "no chat template: continue the text as it is", 0, 0},
    [OPTION_SPECIAL] = {"special", NULL, "with --raw: special tokens in the text are parsed", 0, 0},
    [OPTION_NO_STDIN] = {"no-stdin", NULL, "do not read standard input", 0, OPTION_IN_FILE},
    [OPTION_WARM] = {"warm", NULL, "read the prompt for the next one, answer nothing", 0, 0},
    [OPTION_SESSION] = {"session", "NAME", "continue, or begin, the session NAME", 'S', OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_CONTINUE] = {"continue", NULL, "continue your last session", 'c', 0},
    [OPTION_FORK] = {"fork", "NAME", "go on in a new session that begins as that one", 0, 0},
    [OPTION_WAIT] = {"wait", NULL, "wait for a session that is in use", 0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_CONTEXT] = {"context", "HOW", "when full: refuse, shift, rotate (default: refuse)", 0,
                        OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_DETACH] = {"detach", NULL, "with a session: do not wait, it is found there", 0, 0},
    [OPTION_MAX_TOKENS] = {"max-tokens", "N", "at most N tokens of answer (default: 2048)", 'n', OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_STOP] = {"stop", "TEXT", "end the answer before this text (repeatable)", 0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_IGNORE_EOS] = {"ignore-eos", NULL, "go on where the model would end", 0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_N] = {"n", "N", "N answers (at most 32) to a prompt read once", 0, 0},
    [OPTION_TIMEOUT] = {"timeout", "TIME", "give up after TIME (500ms, 30s, 15min, 1h)", 0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_PRIORITY] = {"priority", "CLASS", "among your own: infill, interactive or batch", 0,
                         OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_TEMP] = {"temp", "X", "temperature; 0: the likeliest token (default: 0.7)", 0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_TOP_P] = {"top-p", "X", "the likeliest tokens that make up X (default: 0.95)", 0,
                      OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_TOP_K] = {"top-k", "N", "N likeliest tokens, 0: all (default: 40)", 0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_MIN_P] = {"min-p", "X", "at least X times the likeliest one (default: 0.05)", 0,
                      OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_SEED] = {"seed", "N", "same seed, same answer (default: random)", 0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_REPEAT_PENALTY] = {"repeat-penalty", "X", "above 1: what came is less likely (default: 1)",
                               0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_FREQUENCY_PENALTY] = {"frequency-penalty", "X", "take X off each time a token came (default: 0)",
                                  0, OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_PRESENCE_PENALTY] = {"presence-penalty", "X", "take X off once a token came (default: 0)", 0,
                                 OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_REPEAT_LAST_N] = {"repeat-last-n", "N", "penalties look at N newest tokens (default: 64)", 0,
                              OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_TYPICAL_P] = {"typical-p", "X", "the most typical tokens that make up X (default: 1)", 0,
                          OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_MIROSTAT] = {"mirostat", "TAU", "keep surprise near TAU bits; 0: off (default: 0)", 0,
                         OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_MIROSTAT_ETA] = {"mirostat-eta", "ETA", "how fast it learns (default: 0.1)", 0,
                             OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_LOGIT_BIAS] = {"logit-bias", "TOKEN=X", "add X to a token's logit, id or text (repeatable)", 0,
                           OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_QUIET] = {"quiet", NULL, "only errors on standard error", 'q', OPTION_IN_FILE | OPTION_COMMANDS},
    [OPTION_VERBOSE] = {"verbose", NULL, "a line of usage on standard error at the end", 'v',
                        OPTION_IN_FILE | OPTION_COMMANDS},
    [OPTION_EXTRACT] = {"extract", NULL, "print only the answer's first block of code", 'x', 0},
    [OPTION_RENDER] = {"render", NULL, "show Markdown in colour, if it goes to a terminal", 0,
                       OPTION_IN_FILE | OPTION_CHAT},
    [OPTION_NO_STREAM] = {"no-stream", NULL, "print the answer at once when it is complete", 0,
                          OPTION_IN_FILE | OPTION_INFILL},
    [OPTION_JSONL] = {"jsonl", NULL, "print events, one JSON object a line", 0, OPTION_INFILL | OPTION_ANSWER},
    [OPTION_LOGPROBS] = {"logprobs", NULL, "with --jsonl: ids and log-probabilities of tokens", 0,
                         OPTION_INFILL | OPTION_ANSWER},
    [OPTION_JSON] = {"json", NULL, "status, sessions: as JSON", 0, OPTION_COMMANDS},
    [OPTION_WATCH] = {"watch", "[TIME]", "status: again and again (default: every 1s)", 0, OPTION_STATUS},
    [OPTION_PREFIX_FILE] = {"prefix-file", "PATH", "infill: the text before the gap; -: standard input", 0,
                            OPTION_INFILL},
    [OPTION_SUFFIX_FILE] = {"suffix-file", "PATH", "infill: the text behind it; -: standard input", 0, OPTION_INFILL},
    [OPTION_AT] = {"at", "BYTE", "infill: where the gap is in standard input", 0, OPTION_INFILL},
    [OPTION_MAX_LINES] = {"max-lines", "N", "infill: at most N lines", 0, OPTION_INFILL},
    [OPTION_HELP] = {"help", NULL, "this text", 'h', OPTION_COMMANDS},
    [OPTION_VERSION] = {"version", NULL, "the version", 0, OPTION_COMMANDS},
    [OPTION_IMAGE] = {"image", "PATH", NULL, 'a', 0},
};
/* clang-format on */

const struct option_word option_words[] = {
    {"status", COMMAND_STATUS},
    {"stop", COMMAND_STOP},
    {"chat", COMMAND_CHAT},
    {"sessions", COMMAND_SESSIONS},
    {"models", COMMAND_MODELS},
    {"infill", COMMAND_INFILL},
    {NULL, 0},
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
