/* SPDX-License-Identifier: MIT */
#include "client/option-table.h"
#include "client/options.h"
#include <stdio.h>

/* The heading printed above option @id. */
static const char *help_head(unsigned id)
{
    switch (id) {
    case OPTION_MODEL:
        return "Prompt\n";
    case OPTION_SESSION:
        return "\nSessions\n";
    case OPTION_MAX_TOKENS:
        return "\nGeneration\n";
    case OPTION_TEMP:
        return "\nSampling\n";
    case OPTION_SCHEMA:
        return "\nConstraints\n";
    case OPTION_THINK:
        return "\nThinking and tools\n";
    case OPTION_QUIET:
        return "\nOutput\n";
    case OPTION_JSON:
        return "\nCommands\n";
    case OPTION_OUT:
        return "\nMany prompts\n";
    case OPTION_HELP:
        return "\n";
    default:
        return "";
    }
}

int options_help(struct buf *out)
{
    int r = buf_puts(out, "hob [OPTIONS] [PROMPT…]     send a prompt; piped input comes first\n"
                          "hob status [--json] [--watch [TIME]]\n"
                          "                            show the daemon's status; --watch refreshes it\n"
                          "hob sessions [list|show NAME|search WORD…|fork NAME NEW|rename NAME NEW|\n"
                          "              rm NAME…]\n"
                          "                            manage stored sessions (list, show: --json)\n"
                          "hob chat                    chat interactively; /help lists the commands\n"
                          "hob models [list|add|pull|rm] …\n"
                          "                            manage model files; see hob models --help\n"
                          "hob media FILE… [--json] [-o OUT]\n"
                          "                            show what images and sounds are\n"
                          "hob log [list|search WORDS|show ID|rm ID…|export|on|off]\n"
                          "                            the log of exchanges; see hob log --help\n"
                          "hob infill --prefix-file PATH --suffix-file PATH, or --at BYTE <TEXT\n"
                          "                            generate the text between two texts\n"
                          "hob templates [list|show NAME|edit NAME]\n"
                          "                            manage the templates of --template\n"
                          "hob do TEXT…                write a command line, and run it after a key\n"
                          "hob batch [FILE]            answer the prompts of a file of JSON lines\n"
                          "hob map PROMPT [FILE…]      answer PROMPT for each file; {} is its text\n"
                          "hob embed [FILE…|-] [--dims N] [--jsonl|--npy]\n"
                          "                            print the vectors of files, or of lines of input\n"
                          "hob rank \"question\" FILE… [--jsonl]\n"
                          "                            order files, or lines, by how well they answer\n"
                          "hob index [DIR]             make or update an index of the texts of a folder\n"
                          "hob find [-a] WORDS…        search it by meaning; -a: answer from what is found\n"
                          "hob stop                    stop the daemon; accepted requests finish first\n\n");
    unsigned i;

    for (i = 0; r == 0 && i < OPTION_COUNT; i++) {
        const struct option_def *d = &option_table[i];
        char left[40];
        if (!d->help) continue;
        r = buf_puts(out, help_head(i));
        if (r < 0) break;
        snprintf(left, sizeof(left), "%s--%s%s%s", d->letter ? "" : "    ", d->name, d->arg ? " " : "",
                 d->arg ? d->arg : "");
        if (d->letter)
            r = buf_printf(out, "  -%c, %-22s %s\n", d->letter, left, d->help);
        else
            r = buf_printf(out, "  %-26s %s\n", left, d->help);
    }
    if (r == 0)
        r = buf_puts(out, "\nIf the prompt begins with a command name, put -- first: hob -- status of my life\n"
                          "Exit status: 0 answered, 1 failed, 2 usage, 69 no daemon, 75 busy,\n"
                          "130 interrupted.\n"
                          "See hob(1).\n");
    return r;
}
