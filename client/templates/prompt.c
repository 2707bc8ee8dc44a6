/* SPDX-License-Identifier: MIT */
#include "client/templates/parts.h"
#include "client/templates/templates.h"
#include "client/templates/variables.h"
#include "libcommon/error.h"
#include <string.h>

/* Put the text of @own, which may be empty, and the variables into the prompt. Images and sounds stay where they are in
 * the text. */
static int fill(const struct options *o, struct input *own, struct input *in)
{
    const char *prompt = o->template.prompt;
    const size_t end = own->text.len;
    size_t begin = 0, at;
    int r = 0;
    if (!template_takes_input(prompt)) { /* the text comes first */
        if (end) r = buf_append(&in->text, own->text.data, end);
        if (r == 0 && end && *prompt && !o->raw) r = buf_puts(&in->text, "\n\n");
        begin = in->text.len;
    }
    if (r < 0) return error_say(r, "no memory for the prompt");
    r = variables_replace(o, prompt, &own->text, &in->text, &at);
    if (r < 0) return r;
    for (size_t i = 0; i < own->n_media; i++) {
        struct proto_media *m = &own->media[i];
        if (at != SIZE_MAX)
            m->at += at;
        else if (m->at == end) /* they stand before the text that follows them */
            m->at = begin;
    }
    in->media = own->media;
    in->n_media = own->n_media;
    own->media = NULL;
    own->n_media = 0;
    return in->text.len || in->n_media ? 0 : 1;
}

int template_input(const struct options *o, int stdin_fd, struct input *in)
{
    struct options rest = *o; /* without the words that have a number */
    struct input own = {0};
    const char *prompt = o->template.prompt;
    rest.words += o->template.n_used;
    rest.n_words -= o->template.n_used;
    if (!prompt) return input_read(&rest, stdin_fd, in);
    int r = input_read(&rest, stdin_fd, &own);
    if (r == 1 && template_takes_input(prompt))
        r = error_say(-EINVAL, "template '%s' needs a text: standard input, a file or words", o->template.name);
    if (r >= 0) r = fill(o, &own, in);
    input_fini(&own);
    return r;
}
