/* SPDX-License-Identifier: MIT */
#include "daemon/command/command.h"
#include "libcommon/error.h"
#include "libcommon/plain.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"serve", command_serve, "serve a model on a Unix socket (the default command)"},
    {"bench", command_bench, "measure prefill and decode speed"},
    {"perplexity", command_perplexity, "measure how well a model predicts a text"},
    {"verify", command_verify, "compare the kernels with an independent reference"},
    {"tokenize", command_tokenize, "convert text to token ids and back"},
    {"constrain", command_constrain, "feed a text to a grammar, regular expression or schema"},
    {"template", command_template, "render a chat template"},
    {"parse", command_parse, "show the parts of an answer: text, thinking, tool calls"},
    {"inspect", command_inspect, "show the contents of a GGUF file and whether hobd supports it"},
    {"media", command_media, "decode images and sounds; show their sizes and digests"},
    {"encode", command_encode, "compute the embeddings of an image or a sound (mmproj)"},
    {"embed", command_embed, "compute the vectors or scores of texts"},
    {"simulate", command_simulate, "replay a trace through the scheduler and the cache"},
};

enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void help(void)
{
    puts("usage: hobd [COMMAND] [OPTION…]\n\nHolds a language model in memory and serves it to hob(1) on a Unix "
         "socket.\n");
    for (size_t i = 0; i < N_COMMANDS; i++) printf("  %-12s %s\n", commands[i].name, commands[i].help);
    puts("\nhobd COMMAND --help prints the options of a command.\nhobd --version prints the version. See hobd(8).");
}

/* A mapped file was truncated by another process, or its disk failed. The program cannot continue, but it can print the
 * reason. */
static void on_bus(int sig)
{
    static const char words[] =
        "hobd: a mapped file, probably the model, was truncated by another program, or its disk failed\n";

    if (write(STDERR_FILENO, words, sizeof words - 1) < 0) _exit(1);
    _exit(1);
}

static int run(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;

    if (word && !strcmp(word, "--help")) {
        help();
        return 0;
    }
    if (word && !strcmp(word, "--version")) {
        puts("hobd " HOB_VERSION);
        return 0;
    }
    if (!word || word[0] == '-') return command_serve(argc, argv);
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (!strcmp(word, commands[i].name)) return commands[i].run(argc - 1, argv + 1);
    error_say(-EINVAL, "unknown command '%s' (see hobd --help)", word);
    plain_print(stderr, "hobd: ", error_text(-EINVAL));
    return 2;
}

int main(int argc, char **argv)
{
    int status;

    signal(SIGBUS, on_bus);
    unsetenv("POSIXLY_CORRECT"); /* getopt(3): options may follow words, in every environment */
    status = run(argc, argv);
    /* Output that could not be written is a failure. */
    errno = 0;
    if (status != 0 || (fflush(stdout) == 0 && !ferror(stdout))) return status;
    fprintf(stderr, "hobd: standard output: %s\n", strerror(errno ? errno : EIO));
    return 1;
}
