/* SPDX-License-Identifier: MIT */
#include "client/options.h"
#include "libcommon/error.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>

/* Parse @args (NULL-terminated, without argv[0]) with @file as hob.conf (NULL: none). */
static int parse_with(struct options *o, const char *file, const char *const *args)
{
    const char *argv[32] = {"hob"};
    char path[] = "/tmp/hob-test-XXXXXX";
    int argc = 1, fd, r;

    while (args[argc - 1]) {
        argv[argc] = args[argc - 1];
        argc++;
    }
    r = options_parse(o, argc, (char **)argv);
    if (r < 0) return r;
    if (!file) return options_complete(o, NULL);
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, file, strlen(file)), strlen(file));
    close(fd);
    r = options_complete(o, path);
    unlink(path);
    return r;
}

#define PARSE(o, ...)            parse_with((o), NULL, (const char *const[]){__VA_ARGS__, NULL})
#define PARSE_FILE(o, file, ...) parse_with((o), (file), (const char *const[]){__VA_ARGS__, NULL})

/* A wrong usage whose error message contains @says. */
#define REFUSED(says, ...)                                                                                             \
    do {                                                                                                               \
        struct options _o;                                                                                             \
        int _r = PARSE(&_o, __VA_ARGS__);                                                                              \
        assert_int_equal(_r, -EINVAL);                                                                                 \
        if (!strstr(error_text(_r), says)) fail_msg("'%s' is not in: %s", says, error_text(_r));                       \
        options_fini(&_o);                                                                                             \
    } while (0)

static void test_nothing_given(void **state)
{
    struct options o;

    assert_int_equal(PARSE(&o, "hello"), 0);
    assert_int_equal(o.command, COMMAND_GENERATE);
    assert_null(o.model);
    assert_null(o.session);
    assert_int_equal(o.max_tokens, -1);
    assert_int_equal(o.timeout_ms, -1);
    assert_true(isnan(o.sampling.temperature) && isnan(o.sampling.top_p) && isnan(o.sampling.min_p));
    assert_true(isnan(o.sampling.repeat_penalty));
    assert_true(o.sampling.top_k == -1 && o.sampling.seed == -1);
    options_fini(&o);
}

static void test_every_option(void **state)
{
    struct options o;

    assert_int_equal(PARSE(&o, "-m", "m", "-s", "sys", "-f", "a", "-a", "i", "--audio=s", "--file=b", "-S", "ses", "-n",
                           "7", "--ignore-eos", "--temp", "0.5", "--top-p", "0.25", "--top-k", "3", "--min-p", "0.125"),
                     0);
    assert_string_equal(o.model, "m");
    assert_string_equal(o.system, "sys");
    assert_string_equal(o.session, "ses");
    assert_int_equal(o.n_files, 4);
    for (int i = 0; i < 4; i++) assert_string_equal(o.files[i].path, ((const char *[]){"a", "i", "s", "b"})[i]);
    assert_true(!o.files[0].kind && o.files[1].kind == PROTO_MEDIA_IMAGE && o.files[2].kind == PROTO_MEDIA_SOUND);
    assert_true(o.max_tokens == 7 && o.ignore_eos && o.sampling.top_k == 3);
    assert_true(o.sampling.temperature == 0.5f && o.sampling.top_p == 0.25f && o.sampling.min_p == 0.125f);
    options_fini(&o);
    assert_int_equal(PARSE(&o, "--repeat-penalty", "1.5", "--seed", "9223372036854775807", "--stop", "x", "--stop", "y",
                           "--raw", "--special", "--timeout", "1500us", "--no-stream", "--no-stdin", "--jsonl",
                           "--logprobs", "-c", "-q"),
                     0);
    assert_true(o.sampling.repeat_penalty == 1.5f && o.sampling.seed == INT64_MAX && o.timeout_ms == 2);
    assert_true(o.raw && o.special && o.no_stream && o.no_stdin && o.jsonl && o.logprobs && o.continue_last && o.quiet);
    assert_int_equal(o.stop.n, 2);
    assert_string_equal(o.stop.texts[1], "y");
    options_fini(&o);
    assert_int_equal(PARSE(&o, "--typical-p", "0.5", "--frequency-penalty", "-1.5", "--presence-penalty=2",
                           "--repeat-last-n", "0", "--mirostat", "5", "--mirostat-eta", "0.25", "--logit-bias",
                           "17=-3.5", "--logit-bias", "a=b=1", "--logit-bias", " 7=2", "--logit-bias", "\"7\"=0.5"),
                     0);
    assert_true(o.sampling.typical_p == 0.5f && o.sampling.frequency_penalty == -1.5f);
    assert_true(o.sampling.presence_penalty == 2 && o.sampling.repeat_last_n == 0);
    assert_true(o.sampling.mirostat == 5 && o.sampling.mirostat_eta == 0.25f);
    assert_int_equal(o.biases.n, 4);
    assert_true(o.biases.all[0].id == 17 && o.biases.all[0].text.len == 0 && o.biases.all[0].bias == -3.5f);
    assert_string_equal(o.biases.all[1].text.data, "a=b");
    assert_string_equal(o.biases.all[2].text.data, " 7");
    assert_string_equal(o.biases.all[3].text.data, "7");
    options_fini(&o);
    assert_int_equal(PARSE(&o, "-c", "--fork", "other", "--wait", "--context", "rotate", "--warm", "x"), 0);
    assert_string_equal(o.fork, "other");
    assert_true(o.continue_last && o.wait && o.warm && o.context == PROTO_CONTEXT_ROTATE);
    options_fini(&o);
    assert_int_equal(PARSE(&o, "-S", "ses", "--fork=other", "x"), 0);
    assert_true(!o.wait && !o.warm && o.context == PROTO_CONTEXT_UNSET);
    options_fini(&o);
}

static void test_words_and_options_mix(void **state)
{
    struct options o;

    assert_int_equal(PARSE(&o, "tidy", "-n", "5", "this", "--", "-v", "--", "x"), 0);
    assert_int_equal(o.n_words, 5);
    assert_string_equal(o.words[0], "tidy");
    assert_string_equal(o.words[2], "-v");
    assert_string_equal(o.words[3], "--");
    assert_false(o.verbose);
    options_fini(&o);
}

static void test_commands(void **state)
{
    struct options o;

    assert_int_equal(PARSE(&o, "status", "--json"), 0);
    assert_true(o.command == COMMAND_STATUS && o.json);
    options_fini(&o);
    assert_int_equal(PARSE(&o, "-m", "x", "stop"), 0);
    assert_int_equal(o.command, COMMAND_STOP);
    options_fini(&o);
    assert_int_equal(PARSE(&o, "--", "status", "of", "my", "life"), 0);
    assert_true(o.command == COMMAND_GENERATE && o.n_words == 4);
    options_fini(&o);
    assert_int_equal(PARSE(&o, "the", "status"), 0);
    assert_true(o.command == COMMAND_GENERATE && o.n_words == 2);
    options_fini(&o);
    assert_int_equal(PARSE(&o, "status of my life"), 0);
    assert_int_equal(o.command, COMMAND_GENERATE);
    options_fini(&o);
    assert_int_equal(PARSE(&o, "--help", "--nonsense"), 0);
    assert_int_equal(o.command, COMMAND_HELP);
    options_fini(&o);
    assert_int_equal(PARSE(&o, "--version"), 0);
    assert_int_equal(o.command, COMMAND_VERSION);
    options_fini(&o);
}

static void test_later_things_are_refused_by_name(void **state)
{
    REFUSED("unexpected argument 'why' of 'chat' (to send it as a prompt: hob -- chat why …)", "chat", "why");
    REFUSED("--jsonl cannot be used with 'chat'", "chat", "--jsonl");
    REFUSED("--json cannot be used with 'chat'", "chat", "--json");
    REFUSED("--n cannot be used with 'chat'", "chat", "--n", "2");
    REFUSED("--image cannot be used with 'infill'", "infill", "--at", "1", "-a", "x.png");
    REFUSED("--audio cannot be used with --raw", "--raw", "--audio", "x.wav", "x");
    REFUSED("--image: must not be empty", "-a", "", "x");
    REFUSED("--audio: standard input can be only one file", "-a", "-", "--audio", "-", "x");
    REFUSED("--no-stdin cannot be used with an image or sound from standard input", "--no-stdin", "-a", "-", "x");
    REFUSED("--extract cannot be used with --jsonl", "-x", "--jsonl", "x");
    REFUSED("--extract cannot be used with --n", "-x", "--n", "2", "x");
    REFUSED("--speculate: must be auto, off, lookup or draft", "--speculate", "on", "x");
    REFUSED("--priority: must be infill, interactive or batch", "--priority", "high", "x");
}

static void test_infill(void **state)
{
    struct options o;

    assert_int_equal(PARSE(&o, "infill", "--prefix-file", "a", "--suffix-file", "-", "--max-lines", "3"), 0);
    assert_int_equal(o.command, COMMAND_INFILL);
    assert_string_equal(o.infill.prefix_file, "a");
    assert_string_equal(o.infill.suffix_file, "-");
    assert_true(o.infill.max_lines == 3 && o.infill.at == -1 && o.raw && o.priority == PROTO_PRIORITY_UNSET);
    options_fini(&o);
    assert_int_equal(PARSE(&o, "infill", "--at", "0", "--priority", "batch", "--temp", "0.5", "--jsonl"), 0);
    assert_true(o.infill.at == 0 && o.infill.max_lines == -1 && o.priority == PROTO_PRIORITY_BATCH &&
                o.sampling.temperature == 0.5f);
    options_fini(&o);
    /* Of the file only what is not about conversations. */
    assert_int_equal(PARSE_FILE(&o,
                                "model = m\nsystem = s\ntemp = 1\nmax-tokens = 9\nstop = x\nsession = s\nwait = yes\n"
                                "timeout = 5s\npriority = batch\nno-stream = yes\nrender = yes\n",
                                "infill", "--at", "1"),
                     0);
    assert_string_equal(o.model, "m");
    assert_true(o.timeout_ms == 5000 && o.no_stream && isnan(o.sampling.temperature) && o.max_tokens == -1);
    assert_true(!o.system && !o.session && o.stop.n == 0 && !o.wait && !o.render);
    assert_int_equal(o.priority, PROTO_PRIORITY_UNSET);
    options_fini(&o);
    REFUSED("infill needs --prefix-file or --suffix-file or both", "infill");
    REFUSED("unexpected argument 'x' of 'infill'", "infill", "x", "--at", "1");
    REFUSED("--at splits standard input; it cannot be used with --suffix-file", "infill", "--at", "1", "--suffix-file",
            "b");
    REFUSED("cannot both be standard input", "infill", "--prefix-file", "-", "--suffix-file", "-");
    REFUSED("--session cannot be used with 'infill'", "infill", "--at", "1", "-S", "s");
    REFUSED("--file cannot be used with 'infill'", "infill", "--at", "1", "-f", "s");
    REFUSED("--json cannot be used with 'infill'", "infill", "--at", "1", "--json");
    REFUSED("--logprobs needs --jsonl", "infill", "--at", "1", "--logprobs");
    REFUSED("--at can be used only with 'infill'", "--at", "1", "x");
    REFUSED("--max-lines", "infill", "--at", "1", "--max-lines", "0");
    REFUSED("--at", "infill", "--at", "x");
}

static void test_wrong_usage(void **state)
{
    REFUSED("nearest is --model", "--modle", "x");
    REFUSED("'--zzzzzzzz'", "--zzzzzzzz");
    REFUSED("'-Z'", "-Z");
    REFUSED("'-Z'", "-qZ");
    REFUSED("needs a value", "-n");
    REFUSED("needs a value", "--system");
    REFUSED("takes no value", "--raw=yes");
    REFUSED("many", "-n", "many");
    REFUSED("--max-tokens", "-n", "0");
    REFUSED("--temp", "--temp", "-3");
    REFUSED("--top-p", "--top-p", "1.5");
    REFUSED("--top-p", "--top-p", "nan");
    REFUSED("--seed", "--seed", "9223372036854775808");
    REFUSED("--seed", "--seed", "-1");
    REFUSED("--timeout", "--timeout", "0s");
    REFUSED("--session", "-S", "");
    REFUSED("--session: must not contain '/'", "-S", "a/b");
    REFUSED("--session: must not contain '/'", "-S", "a\nb");
    REFUSED("--repeat-penalty", "--repeat-penalty", "10.5"); /* as the daemon would */
    REFUSED("--typical-p: '1.1' is not between 0 and 1", "--typical-p", "1.1");
    REFUSED("--typical-p: 'nan' is not a number", "--typical-p", "nan");
    REFUSED("--frequency-penalty: '-2.5' is not between -2 and 2", "--frequency-penalty", "-2.5");
    REFUSED("--presence-penalty: 'inf' is not a number", "--presence-penalty", "inf");
    REFUSED("--repeat-last-n: '-1' is not a whole number", "--repeat-last-n", "-1");
    REFUSED("--mirostat: '-5' is not between 0 and 100", "--mirostat", "-5");
    REFUSED("--mirostat-eta: '0' is not between", "--mirostat-eta", "0");
    REFUSED("--logit-bias: 'x' is not TOKEN=NUMBER", "--logit-bias", "x");
    REFUSED("--logit-bias: '' is not a number", "--logit-bias", "x=");
    REFUSED("--logit-bias: 'nan' is not a number", "--logit-bias", "7=nan");
    REFUSED("--logit-bias: '101' is not between -100 and 100", "--logit-bias", "7=101");
    REFUSED("--logit-bias: '-1e39' is not between -100 and 100", "--logit-bias", "7=-1e39");
    REFUSED("--logit-bias: the token must not be empty", "--logit-bias", "=1");
    REFUSED("--logit-bias: the token must not be empty", "--logit-bias", "\"\"=1");
    REFUSED("--logit-bias: '2147483648' is not between", "--logit-bias", "2147483648=1");
    REFUSED("--logit-bias: the token's id has 64 digits", "--logit-bias",
            "0000000000000000000000000000000000000000000000000000000000000001=1");
    REFUSED("--logit-bias: invalid UTF-8 at byte 1", "--logit-bias", "a\xff=1");
    REFUSED("--stop", "--stop", "");
    REFUSED("--model", "-m", "");
    REFUSED("invalid UTF-8 at byte 2", "-s", "ab\xff");
    REFUSED("--session and --continue cannot be used together", "-S", "a", "-c", "x");
    REFUSED("--fork needs --session or --continue", "--fork", "f", "x");
    REFUSED("--fork: must not contain '/'", "-S", "a", "--fork", "f/g", "x");
    REFUSED("--fork: must not be empty", "-c", "--fork", "", "x");
    REFUSED("--context: must be refuse, shift or rotate", "--context", "stretch", "x");
    REFUSED("--context: must be refuse, shift or rotate", "--context=", "x");
    REFUSED("takes no value", "--wait=5", "x");
    REFUSED("takes no value", "--warm=yes", "x");
    REFUSED("--special needs --raw", "--special", "x");
    REFUSED("--n cannot be used with a session, which stores one answer", "--n", "2", "-S", "s", "x");
    REFUSED("--n cannot be used with a session, which stores one answer", "--n=2", "-c", "x");
    REFUSED("--detach needs --session or --continue", "--detach", "x");
    REFUSED("--detach and --warm cannot be used together", "--detach", "--warm", "-c", "x");
    REFUSED("--logprobs needs --jsonl", "--logprobs", "x");
    REFUSED("system", "--raw", "-s", "a", "x");
    REFUSED("--jsonl", "--json", "x");
    REFUSED("--temp cannot be used with 'status'", "status", "--temp", "1");
    REFUSED("unexpected argument 'of' of 'status'", "status", "of", "my");
    REFUSED("--json", "stop", "--json");
    REFUSED("--warm cannot be used with 'status'", "status", "--warm");
}

static void sessions(enum sessions_verb verb, bool json, size_t n, const char *const *args)
{
    struct options o;

    assert_int_equal(parse_with(&o, NULL, args), 0);
    assert_int_equal(o.command, COMMAND_SESSIONS);
    assert_int_equal(o.verb, verb);
    assert_int_equal(o.json, json);
    assert_int_equal(o.n_words, n);
    if (n > 0) assert_string_equal(o.words[0], "a");
    if (n > 1) assert_string_equal(o.words[1], "b");
    options_fini(&o);
}

#define SESSIONS(verb, json, n, ...) sessions((verb), (json), (n), (const char *const[]){__VA_ARGS__, NULL})

static void test_sessions(void **state)
{
    SESSIONS(SESSIONS_LIST, false, 0, "sessions");
    SESSIONS(SESSIONS_LIST, true, 0, "sessions", "--json");
    SESSIONS(SESSIONS_LIST, true, 0, "--json", "-m", "m", "sessions", "list");
    SESSIONS(SESSIONS_SHOW, false, 1, "sessions", "show", "a");
    SESSIONS(SESSIONS_SHOW, true, 1, "sessions", "show", "--json", "--", "a");
    SESSIONS(SESSIONS_FORK, false, 2, "sessions", "fork", "a", "b");
    SESSIONS(SESSIONS_RENAME, false, 2, "sessions", "rename", "a", "b");
    SESSIONS(SESSIONS_REMOVE, false, 1, "sessions", "rm", "a");
    SESSIONS(SESSIONS_REMOVE, false, 3, "sessions", "rm", "a", "b", "list");
}

static void test_sessions_wrongly(void **state)
{
    char name[PROTO_NAME_MAX + 2];

    REFUSED("unknown subcommand 'of' of 'sessions', use list, show, fork, rename, rm or search", "sessions", "of",
            "psychotherapy");
    REFUSED("hob -- sessions of", "sessions", "of", "psychotherapy");
    REFUSED("usage: hob sessions list", "sessions", "list", "a");
    REFUSED("usage: hob sessions show NAME", "sessions", "show");
    REFUSED("usage: hob sessions show NAME", "sessions", "show", "a", "b");
    REFUSED("usage: hob sessions fork NAME NEW", "sessions", "fork", "a");
    REFUSED("usage: hob sessions fork NAME NEW", "sessions", "fork", "a", "b", "c");
    REFUSED("usage: hob sessions rename NAME NEW", "sessions", "rename", "a");
    REFUSED("usage: hob sessions rm NAME", "sessions", "rm");
    REFUSED("--json cannot be used with 'sessions rm'", "sessions", "rm", "a", "--json");
    REFUSED("--json cannot be used with 'sessions fork'", "sessions", "fork", "a", "b", "--json");
    REFUSED("--session cannot be used with 'sessions'", "sessions", "-S", "a");
    REFUSED("--wait cannot be used with 'sessions'", "sessions", "fork", "a", "b", "--wait");
    REFUSED("sessions show: name 1: must not contain '/'", "sessions", "show", "../a");
    REFUSED("sessions rm: name 2: must not be empty", "sessions", "rm", "a", "");
    REFUSED("sessions rename: name 2: invalid UTF-8 at byte 1", "sessions", "rename", "a", "b\xff");
    memset(name, 'n', sizeof name);
    name[PROTO_NAME_MAX + 1] = 0;
    REFUSED("sessions show: name 1: longer than 128 bytes", "sessions", "show", name);
}

static void test_constraints(void **state)
{
    struct options o;

    assert_int_equal(PARSE(&o, "--schema", "{}", "--on-limit", "cut", "x"), 0);
    assert_string_equal(o.constraint.schema, "{}");
    assert_int_equal(o.constraint.on_limit, PROTO_LIMIT_CUT);
    options_fini(&o);
    assert_int_equal(PARSE(&o, "--choice", "a", "--choice", "b", "--choice=c", "x"), 0);
    assert_int_equal(o.constraint.n_choices, 3);
    assert_string_equal(o.constraint.choices[2], "c");
    options_fini(&o);
    assert_int_equal(PARSE(&o, "chat", "--grammar", "g.gbnf"), 0);
    options_fini(&o);
    REFUSED("--schema and --regex cannot be used together", "--regex", "a", "--schema", "{}", "x");
    REFUSED("--grammar and --choice cannot be used together", "--choice", "a", "--grammar", "g", "x");
    REFUSED("--on-limit needs --schema, --grammar, --regex or --choice", "--on-limit", "close", "x");
    REFUSED("--on-limit: must be close or cut", "--regex", "a", "--on-limit", "end", "x");
    REFUSED("--stop cannot be used with --regex", "--regex", "a", "--stop", "b", "x");
    REFUSED("--ignore-eos cannot be used with --choice", "--choice", "a", "--ignore-eos", "x");
    REFUSED("--regex: must not be empty", "--regex", "", "x");
    REFUSED("--choice: must not be empty", "--choice", "", "x");
    REFUSED("--regex: invalid UTF-8 at byte 1", "--regex", "a\xff", "x");
    REFUSED("--regex cannot be used with 'infill'", "infill", "--at", "1", "--regex", "a");
    REFUSED("--grammar cannot be used with 'status'", "status", "--grammar", "a");
}

static void test_thinking(void **state)
{
    struct options o;

    assert_int_equal(PARSE(&o, "x"), 0);
    assert_int_equal(o.thinking.how, THINK_HIDE);
    assert_int_equal(o.thinking.budget, -1);
    options_fini(&o);
    assert_int_equal(PARSE_FILE(&o, "think = stderr\nthink-budget = 7\n", "--think", "show", "x"), 0);
    assert_int_equal(o.thinking.how, THINK_SHOW);
    assert_int_equal(o.thinking.budget, 7);
    assert_string_equal(options_think_name(&o), "show");
    options_fini(&o);
    assert_int_equal(PARSE_FILE(&o, "think = off\n", "--raw", "x"), 0);
    options_fini(&o);
    assert_int_equal(PARSE(&o, "--think", "on", "--think-budget", "9", "x"), 0);
    assert_int_equal(o.thinking.how, THINK_ON);
    assert_string_equal(options_think_name(&o), "on");
    options_fini(&o);
    REFUSED("--think: must be hide, show, stderr, on or off", "--think", "yes", "x");
    REFUSED("--think-budget: ", "--think-budget", "-1", "x");
    REFUSED("--think-budget cannot be used with --think off", "--think", "off", "--think-budget", "9", "x");
    REFUSED("--think cannot be used with --raw", "--think", "show", "--raw", "x");
    REFUSED("--think cannot be used with 'infill'", "infill", "--at", "1", "--think", "hide");
}

static void test_tools(void **state)
{
    struct options o;

    assert_int_equal(PARSE(&o, "--tool", "./a", "--tool=b", "--yes", "--tool-rounds", "3", "--tool-timeout", "1500ms",
                           "--tool-choice", "a", "x"),
                     0);
    assert_int_equal(o.tools.n_paths, 2);
    assert_string_equal(o.tools.paths[1], "b");
    assert_true(o.tools.yes);
    assert_int_equal(o.tools.rounds, 3);
    assert_int_equal(o.tools.timeout_ms, 1500);
    assert_true(option_call_required(&o));
    options_fini(&o);
    assert_int_equal(PARSE(&o, "--tools", "t.json", "--tool-choice", "none", "--schema", "{}", "--n", "2", "x"), 0);
    assert_string_equal(o.tools.file, "t.json");
    assert_false(option_call_required(&o));
    assert_int_equal(o.tools.rounds, 20);
    assert_int_equal(o.tools.timeout_ms, 60000);
    options_fini(&o);
    /* Keys for the end of the answer have no effect on a call. */
    assert_int_equal(PARSE_FILE(&o, "stop = e\nignore-eos = yes\n", "--tools", "t", "--tool-choice", "required", "x"),
                     0);
    assert_int_equal(o.stop.n, 0);
    options_fini(&o);
    assert_int_equal(PARSE(&o, "chat", "--yes", "--tool-choice", "auto"), 0);
    options_fini(&o);
    REFUSED("--tools cannot be used with --tool", "--tools", "t", "--tool", "a", "x");
    REFUSED("--tools cannot be used with 'chat'", "chat", "--tools", "t");
    REFUSED("--tool-choice needs --tools or --tool", "--tool-choice", "auto", "x");
    REFUSED("--yes needs --tool", "--tools", "t", "--yes", "x");
    REFUSED("--tool-rounds: ", "--tool", "a", "--tool-rounds", "0", "x");
    REFUSED("--n cannot be used with --tool", "--tool", "a", "--n", "2", "x");
    REFUSED("--tool cannot be used with --raw", "--tool", "a", "--raw", "x");
    REFUSED("--tools cannot be used with a constraint", "--tools", "a", "--regex", "b", "x");
    REFUSED("--extract cannot be used with --tools", "--tools", "a", "-x", "x");
    REFUSED("--stop cannot be used with --tool-choice", "--tools", "a", "--tool-choice", "b", "--stop", "c", "x");
    REFUSED("--tool: must not be empty", "--tool", "", "x");
    REFUSED("--compact needs --schema", "--regex", "a", "--compact", "x");
}

static void test_limits(void **state)
{
    char name[PROTO_NAME_MAX + 2];
    const char *stops[2 * PROTO_STOPS_MAX + 3];
    struct options o;
    int i;

    memset(name, 'n', sizeof name);
    name[PROTO_NAME_MAX] = 0;
    assert_int_equal(PARSE(&o, "-S", name), 0);
    options_fini(&o);
    name[PROTO_NAME_MAX] = 'n';
    name[PROTO_NAME_MAX + 1] = 0;
    REFUSED("128 bytes", "-S", name);
    for (i = 0; i <= PROTO_STOPS_MAX; i++) {
        stops[2 * i] = "--stop";
        stops[2 * i + 1] = "x";
    }
    stops[2 * i] = NULL;
    {
        const char *argv[2 * PROTO_STOPS_MAX + 4] = {"hob"};

        memcpy(argv + 1, stops, (2 * (size_t)i + 1) * sizeof *stops);
        assert_int_equal(options_parse(&o, 2 * i + 1, (char **)argv), -EINVAL);
        options_fini(&o);
    }
}

/* As many as the daemon takes, and one more. */
static void test_many_biases(void **state)
{
    enum { N = 2 * PROTO_BIASES_MAX + 3 };
    const char **argv = calloc(N + 1, sizeof *argv);
    struct options o;

    assert_non_null(argv);
    argv[0] = "hob";
    for (size_t i = 1; i < N; i++) argv[i] = i % 2 ? "--logit-bias" : "a=1";
    assert_int_equal(options_parse(&o, N - 2, (char **)argv), 0);
    assert_int_equal(o.biases.n, PROTO_BIASES_MAX);
    options_fini(&o);
    assert_int_equal(options_parse(&o, N, (char **)argv), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "--logit-bias: more than 10000 values"));
    options_fini(&o);
    free(argv);
}

static void test_file_gives_defaults(void **state)
{
    static const char file[] = "# mine\nmodel = small\ntemp = 0.5\nsystem = \"Be brief. \"\nquiet = yes\nstop = END\n"
                               "max-tokens = 9\nlogit-bias = \" a=-1\"\nlogit-bias = 7=2\nmirostat = 4\nno-stream = "
                               "off\ncontext = shift\nwait = yes\npriority = batch\nspeculate = off\n";
    struct options o;

    assert_int_equal(PARSE_FILE(&o, file, "x"), 0);
    assert_string_equal(o.model, "small");
    assert_string_equal(o.system, "Be brief. ");
    assert_true(o.sampling.temperature == 0.5f && o.quiet && o.stop.n == 1 && o.max_tokens == 9 && !o.no_stream);
    assert_true(o.biases.n == 2 && o.biases.all[1].id == 7 && o.sampling.mirostat == 4);
    assert_string_equal(o.biases.all[0].text.data, " a");
    assert_true(o.context == PROTO_CONTEXT_SHIFT && o.wait && o.priority == PROTO_PRIORITY_BATCH);
    assert_int_equal(o.speculate, PROTO_SPECULATE_OFF);
    options_fini(&o);
    /* The command line wins. */
    assert_int_equal(PARSE_FILE(&o, file, "-m", "big", "-v", "--stop", "X", "--stop", "Y", "--raw", "x"), 0);
    assert_string_equal(o.model, "big");
    assert_true(o.verbose && !o.quiet && o.stop.n == 2);
    assert_null(o.system);
    options_fini(&o);
    assert_int_equal(PARSE_FILE(&o, "session = s\n", "-c", "x"), 0);
    assert_null(o.session);
    options_fini(&o);
}

static void refused_file(const char *file, const char *says)
{
    struct options o;
    int r = PARSE_FILE(&o, file, "x");

    assert_int_equal(r, -EINVAL);
    if (!strstr(error_text(r), says)) fail_msg("'%s' is not in: %s", says, error_text(r));
    options_fini(&o);
}

static void test_bad_file_names_the_line(void **state)
{
    refused_file("temp = 1\ntmep = 2\n", ":2: unknown key 'tmep', nearest is 'temp'");
    refused_file("wxyzwxyz = 2\n", ":1: unknown key 'wxyzwxyz'");
    refused_file("\n\nseed = x\n", ":3: seed: ");
    refused_file("quiet = perhaps\n", "'perhaps' is not yes or no");
    refused_file("context = stretch\n", ":1: context: must be refuse, shift or rotate");
    refused_file("warm = yes\n", "'warm' can be set only on the command line");
    refused_file("file = /etc/passwd\n", "'file' can be set only on the command line");
    refused_file("help = yes\n", "'help' can be set only on the command line");
    refused_file("image = x\n", "'image' can be set only on the command line");
}

static void test_no_file_is_no_error(void **state)
{
    const char *argv[] = {"hob", "x", NULL};
    struct options o;

    assert_int_equal(options_parse(&o, 2, (char **)argv), 0);
    assert_int_equal(options_complete(&o, "/nonexistent/hob.conf"), 0);
    options_fini(&o);
}

static void test_help_names_every_option(void **state)
{
    static const char *const names[] = {"model",
                                        "system",
                                        "file",
                                        "session",
                                        "continue",
                                        "max-tokens",
                                        "ignore-eos",
                                        "temp",
                                        "top-p",
                                        "top-k",
                                        "min-p",
                                        "repeat-penalty",
                                        "seed",
                                        "stop",
                                        "raw",
                                        "special",
                                        "timeout",
                                        "quiet",
                                        "verbose",
                                        "no-stream",
                                        "no-stdin",
                                        "jsonl",
                                        "logprobs",
                                        "json",
                                        "help",
                                        "version",
                                        "fork",
                                        "context",
                                        "wait",
                                        "warm",
                                        "n",
                                        "detach",
                                        "priority",
                                        "speculate",
                                        "typical-p",
                                        "frequency-penalty",
                                        "presence-penalty",
                                        "repeat-last-n",
                                        "logit-bias",
                                        "mirostat",
                                        "mirostat-eta"};
    struct buf out = BUF_INIT;
    char name[40];
    size_t i;

    assert_int_equal(options_help(&out), 0);
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "--%s ", names[i]);
        if (!strstr(out.data, name)) fail_msg("--help lacks %s", name);
    }
    assert_non_null(strstr(out.data, "hob sessions "));
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_given),
        cmocka_unit_test(test_every_option),
        cmocka_unit_test(test_words_and_options_mix),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_later_things_are_refused_by_name),
        cmocka_unit_test(test_infill),
        cmocka_unit_test(test_wrong_usage),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_sessions_wrongly),
        cmocka_unit_test(test_constraints),
        cmocka_unit_test(test_thinking),
        cmocka_unit_test(test_tools),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_many_biases),
        cmocka_unit_test(test_file_gives_defaults),
        cmocka_unit_test(test_bad_file_names_the_line),
        cmocka_unit_test(test_no_file_is_no_error),
        cmocka_unit_test(test_help_names_every_option),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
