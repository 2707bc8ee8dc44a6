/* SPDX-License-Identifier: MIT */
#include "client/option-check.h"
#include "client/embed/embed-command.h"
#include "client/option-table.h"
#include "libcommon/error.h"
#include <string.h>

/* Check the options that affect an answer only. @flags: an option with one of these flags is valid for the command. */
static int check_options_of(const struct options *o, const char *command, unsigned flags)
{
    for (unsigned i = 0; i < OPTION_COUNT; i++)
        if (OPTION_GIVEN(o, i) && !(option_table[i].flags & flags))
            return error_say(-EINVAL, "--%s cannot be used with '%s'", option_table[i].name, command);
    return 0;
}

static int check_command(const struct options *o, const char *command, unsigned flags)
{
    int r = check_options_of(o, command, flags);
    if (r < 0) return r;
    if (o->n_words > 0)
        return error_say(-EINVAL, "unexpected argument '%s' of '%s' (to send it as a prompt: hob -- %s %s …)",
                         o->words[0], command, command, o->words[0]);
    if (o->json && o->command != COMMAND_STATUS) return error_say(-EINVAL, "--json cannot be used with '%s'", command);
    return 0;
}

/* The interval of --watch may be a separate word. */
static int check_status(struct options *o)
{
    if (o->watch_ms && o->n_words == 1) {
        int r = options_watch(o, o->words[0]);
        if (r < 0) return error_in(r, "--watch");
        o->n_words = 0;
    }
    return check_command(o, "status", OPTION_COMMANDS | OPTION_STATUS);
}

static const struct {
    const char *word;
    enum sessions_verb verb;
    size_t least, most; /* number of names */
    bool json;
    const char *usage;
} verbs[] = {
    {"list", SESSIONS_LIST, 0, 0, true, "list"},
    {"show", SESSIONS_SHOW, 1, 1, true, "show NAME"},
    {"fork", SESSIONS_FORK, 2, 2, false, "fork NAME NEW"},
    {"rename", SESSIONS_RENAME, 2, 2, false, "rename NAME NEW"},
    {"rm", SESSIONS_REMOVE, 1, SIZE_MAX, false, "rm NAME…"},
    {"search", SESSIONS_SEARCH, 1, SIZE_MAX, false, "search WORD…"},
};

static int check_sessions(struct options *o)
{
    enum { N = sizeof(verbs) / sizeof(*verbs) };
    int r = check_options_of(o, "sessions", OPTION_COMMANDS);
    size_t v = 0;

    if (r < 0) return r;
    if (o->n_words > 0) {
        while (v < N && strcmp(verbs[v].word, o->words[0]) != 0) v++;
        if (v == N)
            return error_say(-EINVAL,
                             "unknown subcommand '%s' of 'sessions', use list, show, fork, rename, rm or search (to "
                             "send it as a prompt: hob -- sessions %s …)",
                             o->words[0], o->words[0]);
        o->n_words--;
        memmove(o->words, o->words + 1, o->n_words * sizeof(*o->words));
    }
    o->verb = verbs[v].verb;
    if (o->n_words < verbs[v].least || o->n_words > verbs[v].most)
        return error_say(-EINVAL, "usage: hob sessions %s", verbs[v].usage);
    if (o->json && !verbs[v].json) return error_say(-EINVAL, "--json cannot be used with 'sessions %s'", verbs[v].word);
    for (size_t i = 0; i < o->n_words; i++) {
        bool word = o->verb == SESSIONS_SEARCH;
        r = !word ? options_session_name(o->words[i]) : *o->words[i] ? 0 : error_say(-EINVAL, "must not be empty");
        if (r < 0) return error_in(r, "sessions %s: %s %zu", verbs[v].word, word ? "word" : "name", i + 1);
    }
    return 0;
}

/* One constraint at most, which determines the end of the answer. */
static int check_constraint(const struct options *o)
{
    static const unsigned char types[] = {OPTION_SCHEMA, OPTION_GRAMMAR, OPTION_REGEX, OPTION_CHOICE};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof(types); i++) {
        if (!OPTION_GIVEN(o, types[i])) continue;
        const char *name = option_table[types[i]].name;
        if (first) return error_say(-EINVAL, "--%s and --%s cannot be used together", first, name);
        first = name;
    }
    if (!OPTION_GIVEN(o, OPTION_SCHEMA) && o->command != COMMAND_CHAT)
        for (enum option_id i = OPTION_SCHEMA_LENIENT; i <= OPTION_COMPACT; i++)
            if (OPTION_GIVEN(o, i)) return error_say(-EINVAL, "--%s needs --schema", option_table[i].name);
    if (!first && o->constraint.on_limit)
        return error_say(-EINVAL, "--on-limit needs --schema, --grammar, --regex or --choice");
    if (first && (o->stop.n || o->ignore_eos))
        return error_say(-EINVAL, "--%s cannot be used with --%s, which determines the end of the answer",
                         o->stop.n ? "stop" : "ignore-eos", first);
    return 0;
}

/* Thinking, tools and media: parts of the chat template, on which some other options have no effect. */
static int check_template(const struct options *o)
{
    static const unsigned char never_raw[] = {OPTION_THINK, OPTION_THINK_BUDGET, OPTION_TOOLS,
                                              OPTION_TOOL,  OPTION_IMAGE,        OPTION_AUDIO};
    for (size_t i = 0; o->raw && i < sizeof(never_raw); i++)
        if (OPTION_GIVEN(o, never_raw[i]))
            return error_say(-EINVAL, "--%s cannot be used with --raw", option_table[never_raw[i]].name);
    if (OPTION_GIVEN(o, OPTION_THINK_BUDGET) && o->thinking.how == THINK_OFF)
        return error_say(-EINVAL, "--think-budget cannot be used with --think off");
    return 0;
}

static int check_tools(const struct options *o)
{
    static const unsigned char never[] = {OPTION_N, OPTION_DETACH, OPTION_TOOLS};
    const struct option_constraint *c = &o->constraint;
    bool tool = o->tools.n_paths, none = o->tools.choice && strcmp(o->tools.choice, "none") == 0;
    const char *name = tool ? "tool" : "tools";
    if (o->command != COMMAND_CHAT && !tool)
        for (enum option_id i = OPTION_YES; i <= OPTION_TOOL_TIMEOUT; i++)
            if (OPTION_GIVEN(o, i)) return error_say(-EINVAL, "--%s needs --tool", option_table[i].name);
    if (o->tools.choice && !tool && !o->tools.file && o->command != COMMAND_CHAT)
        return error_say(-EINVAL, "--tool-choice needs --tools or --tool");
    for (size_t i = 0; tool && i < sizeof(never); i++)
        if (OPTION_GIVEN(o, never[i]))
            return error_say(-EINVAL, "--%s cannot be used with --tool", option_table[never[i]].name);
    if (o->tools.file && o->extract) return error_say(-EINVAL, "--extract cannot be used with --tools");
    if ((tool || o->tools.file) && !none && (c->schema || c->grammar || c->regex || c->n_choices))
        return error_say(-EINVAL, "--%s cannot be used with a constraint: the calls are constrained by their tools",
                         name);
    if (option_call_required(o) && (o->stop.n || o->ignore_eos))
        return error_say(-EINVAL, "--%s cannot be used with --tool-choice, which determines the end of the answer",
                         o->stop.n ? "stop" : "ignore-eos");
    return 0;
}

static int check_infill(struct options *o)
{
    static const unsigned char never[] = {OPTION_SYSTEM, OPTION_SESSION, OPTION_CONTEXT, OPTION_WAIT,
                                          OPTION_RENDER, OPTION_FILE,    OPTION_IMAGE,   OPTION_AUDIO};
    int r = check_command(o, "infill", OPTION_COMMANDS | OPTION_CHAT | OPTION_INFILL);
    if (r < 0) return r;
    for (size_t i = 0; i < sizeof(never); i++)
        if (OPTION_GIVEN(o, never[i]))
            return error_say(-EINVAL, "--%s cannot be used with 'infill'", option_table[never[i]].name);
    for (enum option_id i = OPTION_SCHEMA; i <= OPTION_TOOL_TIMEOUT; i++)
        if (OPTION_GIVEN(o, i)) return error_say(-EINVAL, "--%s cannot be used with 'infill'", option_table[i].name);
    if (o->logprobs && !o->jsonl) return error_say(-EINVAL, "--logprobs needs --jsonl");
    if (o->infill.at >= 0 && (o->infill.prefix_file || o->infill.suffix_file))
        return error_say(-EINVAL, "--at splits standard input; it cannot be used with --%s-file",
                         o->infill.prefix_file ? "prefix" : "suffix");
    if (o->infill.at < 0 && !o->infill.prefix_file && !o->infill.suffix_file)
        return error_say(-EINVAL, "infill needs --prefix-file or --suffix-file or both, "
                                  "or --at and the whole text on standard input");
    if (o->infill.prefix_file && o->infill.suffix_file && !strcmp(o->infill.prefix_file, "-") &&
        !strcmp(o->infill.suffix_file, "-"))
        return error_say(-EINVAL, "--prefix-file and --suffix-file cannot both be standard input (see --at)");
    o->raw = true; /* nothing is added to the texts or to the answer */
    return 0;
}

static int check_embed(const struct options *o)
{
    const bool rank = o->command == COMMAND_RANK;
    int r = check_options_of(o, rank ? "rank" : "embed", OPTION_COMMANDS | OPTION_EMBED);
    if (r < 0) return r;
    if (o->json) return error_say(-EINVAL, "--json cannot be used with '%s'; use --jsonl", rank ? "rank" : "embed");
    return rank ? rank_check(o) : embed_check(o);
}

/* The answer is one line, so nothing of a conversation applies. */
static int check_do(const struct options *o)
{
    static const unsigned char never[] = {OPTION_SYSTEM, OPTION_SESSION,    OPTION_CONTEXT, OPTION_WAIT,
                                          OPTION_STOP,   OPTION_IGNORE_EOS, OPTION_RENDER};
    int r = check_options_of(o, "do", OPTION_COMMANDS | OPTION_CHAT | OPTION_DO);
    if (r < 0) return r;
    for (size_t i = 0; i < sizeof(never); i++)
        if (OPTION_GIVEN(o, never[i]))
            return error_say(-EINVAL, "--%s cannot be used with 'do'", option_table[never[i]].name);
    for (enum option_id i = OPTION_SCHEMA; i <= OPTION_COMPACT; i++)
        if (OPTION_GIVEN(o, i)) return error_say(-EINVAL, "--%s cannot be used with 'do'", option_table[i].name);
    for (enum option_id i = OPTION_TOOLS; i <= OPTION_TOOL_TIMEOUT; i++)
        if (OPTION_GIVEN(o, i)) return error_say(-EINVAL, "--%s cannot be used with 'do'", option_table[i].name);
    return o->json ? error_say(-EINVAL, "--json cannot be used with 'do'") : 0;
}

static int check_templates(const struct options *o)
{
    int r = check_options_of(o, "templates", OPTION_COMMANDS);
    return r == 0 && o->json ? error_say(-EINVAL, "--json cannot be used with 'templates'") : r;
}

static int check_stdin(const struct options *o)
{
    size_t n = 0;
    for (size_t i = 0; i < o->n_files; i++) n += o->files[i].kind && strcmp(o->files[i].path, "-") == 0;
    if (n && OPTION_GIVEN(o, OPTION_NO_STDIN))
        return error_say(-EINVAL, "--no-stdin cannot be used with an image or sound from standard input");
    return 0;
}

static int check_answer(const struct options *o)
{
    if (o->watch_ms) return error_say(-EINVAL, "--watch can be used only with 'status'");
    for (unsigned i = 0; i < OPTION_COUNT; i++)
        if (OPTION_GIVEN(o, i) && option_table[i].flags == OPTION_INFILL)
            return error_say(-EINVAL, "--%s can be used only with 'infill'", option_table[i].name);
    for (unsigned i = 0; i < OPTION_COUNT; i++)
        if (OPTION_GIVEN(o, i) && option_table[i].flags == OPTION_BATCH)
            return error_say(-EINVAL, "--%s can be used only with %s", option_table[i].name,
                             i == OPTION_JOBS || i == OPTION_RESUME  ? "'batch' and 'map'"
                             : i == OPTION_WRITE || i == OPTION_NULL ? "'map'"
                                                                     : "'batch'");
        else if (OPTION_GIVEN(o, i) && option_table[i].flags == OPTION_EMBED)
            return error_say(-EINVAL, "--%s can be used only with 'embed'", option_table[i].name);
    for (enum option_id i = OPTION_PRINT; i <= OPTION_NO_CONTEXT; i++)
        if (OPTION_GIVEN(o, i)) return error_say(-EINVAL, "--%s can be used only with 'do'", option_table[i].name);
    if (o->template.n_params && !o->template.name) return error_say(-EINVAL, "--param needs --template");
    if (o->json)
        return error_say(-EINVAL, "--json can be used only with 'status' and 'sessions'; use --jsonl for answers");
    if (o->session && o->continue_last) return error_say(-EINVAL, "--session and --continue cannot be used together");
    if (o->log.from && (o->fork || o->detach))
        return error_say(-EINVAL, "--%s cannot be used with an exchange of the log", o->fork ? "fork" : "detach");
    if (o->fork && !o->session && !o->continue_last)
        return error_say(-EINVAL, "--fork needs --session or --continue, which select the session to fork");
    if (o->n > 1 && (o->session || (o->continue_last && !o->log.from)))
        return error_say(-EINVAL, "--n cannot be used with a session, which stores one answer");
    if (o->detach && !o->session && !o->continue_last)
        return error_say(-EINVAL, "--detach needs --session or --continue, which store the answer");
    if (o->detach && o->warm) return error_say(-EINVAL, "--detach and --warm cannot be used together");
    if (o->extract && (o->jsonl || o->warm || o->detach || o->n > 1))
        return error_say(-EINVAL, "--extract cannot be used with --%s",
                         o->jsonl    ? "jsonl"
                         : o->warm   ? "warm"
                         : o->detach ? "detach"
                                     : "n");
    if (o->special && !o->raw) return error_say(-EINVAL, "--special needs --raw");
    if (o->logprobs && !o->jsonl) return error_say(-EINVAL, "--logprobs needs --jsonl");
    if (o->system && o->raw) return error_say(-EINVAL, "--system cannot be used with --raw");
    int r = check_stdin(o);
    if (r == 0) r = check_constraint(o);
    if (r == 0) r = check_template(o);
    return r == 0 ? check_tools(o) : r;
}

bool option_in_batch(unsigned id)
{
    static const unsigned char never[] = {
        OPTION_SESSION, OPTION_CONTINUE,  OPTION_FORK,   OPTION_WAIT,     OPTION_DETACH,      OPTION_WARM,
        OPTION_N,       OPTION_TOOL,      OPTION_YES,    OPTION_NO_STDIN, OPTION_TOOL_ROUNDS, OPTION_TOOL_TIMEOUT,
        OPTION_RENDER,  OPTION_NO_STREAM, OPTION_JSONL,  OPTION_JSON,     OPTION_WATCH,       OPTION_HELP,
        OPTION_VERSION, OPTION_TEMPLATE,  OPTION_PARAM,  OPTION_PRINT,    OPTION_NO_CONTEXT,  OPTION_LOG,
        OPTION_NO_LOG,  OPTION_LOG_SIZE,  OPTION_LOG_AGE};
    for (size_t i = 0; i < sizeof(never); i++)
        if (never[i] == id) return false;
    return option_table[id].flags != OPTION_INFILL && option_table[id].flags != OPTION_EMBED;
}

static int check_map(const struct options *o)
{
    static const unsigned char never[] = {OPTION_TOOL_CHOICE, OPTION_FILE,     OPTION_IMAGE, OPTION_AUDIO,
                                          OPTION_TOOLS,       OPTION_LOGPROBS, OPTION_OUT,   OPTION_ORDERED};
    for (size_t i = 0; i < sizeof(never); i++)
        if (OPTION_GIVEN(o, never[i]))
            return error_say(-EINVAL, "--%s cannot be used with 'map'", option_table[never[i]].name);
    if (!o->n_words || !*o->words[0])
        return error_say(-EINVAL, "map needs a prompt, in which {} is a file's text: hob map 'Summarize: {}' FILE…");
    if (o->batch.null && o->n_words > 1)
        return error_say(-EINVAL, "--null reads the names from standard input; give no files");
    if (o->batch.resume && !o->batch.write) return error_say(-EINVAL, "--resume needs --write");
    return 0;
}

static int check_lines(const struct options *o)
{
    if (OPTION_GIVEN(o, OPTION_WRITE) || OPTION_GIVEN(o, OPTION_NULL))
        return error_say(-EINVAL, "--%s can be used only with 'map'", OPTION_GIVEN(o, OPTION_NULL) ? "null" : "write");
    if (o->n_words > 1)
        return error_say(-EINVAL,
                         "unexpected argument '%s' of 'batch', which reads one file (to send it as a prompt: "
                         "hob -- batch %s …)",
                         o->words[1], o->words[0]);
    if (o->batch.resume && !o->batch.out) return error_say(-EINVAL, "--resume needs --out");
    return 0;
}

/* batch and map: the options are the defaults of all requests. */
static int check_batch(struct options *o)
{
    const char *command = o->command == COMMAND_MAP ? "map" : "batch";
    for (unsigned i = 0; i < OPTION_COUNT; i++)
        if (OPTION_GIVEN(o, i) && !option_in_batch(i))
            return error_say(-EINVAL, "--%s cannot be used with '%s'", option_table[i].name, command);
    if (o->thinking.how == THINK_STDERR && OPTION_GIVEN(o, OPTION_THINK))
        return error_say(-EINVAL, "--think stderr cannot be used with '%s'", command);
    int r = o->command == COMMAND_MAP ? check_map(o) : check_lines(o);
    if (o->priority == PROTO_PRIORITY_UNSET) o->priority = PROTO_PRIORITY_BATCH;
    if (r == 0) r = check_constraint(o);
    if (r == 0) r = check_template(o);
    return r == 0 ? check_tools(o) : r;
}

static int check_chat(const struct options *o)
{
    int r = check_command(o, "chat", OPTION_COMMANDS | OPTION_CHAT);
    if (r == 0) r = check_constraint(o);
    if (r == 0) r = check_template(o);
    return r == 0 ? check_tools(o) : r;
}

int option_check(struct options *o)
{
    switch (o->command) {
    case COMMAND_STATUS:
        return check_status(o);
    case COMMAND_STOP:
        return check_command(o, "stop", OPTION_COMMANDS);
    case COMMAND_CHAT:
        return check_chat(o);
    case COMMAND_SESSIONS:
        return check_sessions(o);
    case COMMAND_EMBED:
    case COMMAND_RANK:
        return check_embed(o);
    case COMMAND_INFILL:
        return check_infill(o);
    case COMMAND_BATCH:
    case COMMAND_MAP:
        return check_batch(o);
    case COMMAND_DO:
        return check_do(o);
    case COMMAND_TEMPLATES:
        return check_templates(o);
    default:
        return check_answer(o);
    }
}
