/* SPDX-License-Identifier: MIT */
#pragma once
/* The input of the commands that work with a chat template: the template, and a request from standard input. */
#include "daemon/text/template/template.h"
#include "daemon/text/tokenizer/tokenizer.h"

/* {0} owns nothing. */
struct template_source {
    struct buf text; /* of the template */
    struct template *template;
    struct tokenizer *tokenizer; /* NULL: the template is a file of its own */
};

/* The command line of such a command. */
struct template_options {
    void (*usage)(void);                      /* print the help */
    const char *option;                       /* long name of the command's own option, which has a value */
    int (*take)(void *to, const char *value); /* 0, or -errno with the error message */
    void *to;
    const char *model, *file; /* set by template_options_parse(); one is NULL */
};

/* 0; 1: --help was printed; 2: wrong usage, which was said. */
int template_options_parse(struct template_options *o, int argc, char **argv);

/* The chat template of @model, a name or a path, or else the one in @file. Sets bos_token and eos_token of the model in
 * @vars unless they have values. 0, or -errno with the error message. Call template_source_fini() in both cases. */
int template_source_load(struct template_source *s, const char *model, const char *file, json_t *vars);
void template_source_fini(struct template_source *s);

/* Reads a JSON object from standard input. 0, and the caller owns *out; or -errno with the error message. */
int template_source_request(json_t **out);
