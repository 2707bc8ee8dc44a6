/* SPDX-License-Identifier: MIT */
/*
 * hobd-decode: "hobd-decode keeper" serves one hobd on the socket that is its standard input, and starts helpers.
 * "hobd-decode helper" serves it on such a socket, too, and starts a decoder ("hobd-decode") for each file. A decoder
 * reads one file from standard input, writes its pixels, and exits. "keeper PROGRAM" starts "PROGRAM helper", for
 * tests.
 */
#include "daemon/media/decode/confine.h"
#include "daemon/media/decode/decode.h"
#include "daemon/media/decoder-run.h"
#include "daemon/media/media-keeper.h"
#include "daemon/media/media-wire.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The file on standard input. The sandbox is closed before its first byte is read. */
static int read_and_decode(struct media *m)
{
    struct media_ask ask;
    int r = media_read(STDIN_FILENO, &ask, sizeof(ask));
    if (r < 0) return r;
    if (ask.size > MEDIA_FILE_MAX)
        return error_say(-EFBIG, "the file is over the limit of %u MiB", MEDIA_FILE_MAX >> 20);
    r = confine_limits(ask.size);
    if (r == 0) r = confine_calls();
    if (r < 0) return error_in(r, "the decoder cannot give up its rights");
    _cleanup_(freep) uint8_t *data = malloc(ask.size + 1);
    if (!data) return error_say(-ENOMEM, "no memory for the file");
    r = media_read(STDIN_FILENO, data, ask.size);
    return r < 0 ? r : decode(data, ask.size, m);
}

static int decode_one(void)
{
    struct media m = {0};
    struct media_reply reply = {0};
    int r = read_and_decode(&m);
    if (r == 0) {
        media_reply_of(&reply, &m);
    } else {
        media_fini(&m);
        media_reply_error(&reply, r);
    }
    r = media_write(STDOUT_FILENO, &reply.head, sizeof(reply.head));
    if (r == 0) r = media_write(STDOUT_FILENO, reply.data, reply.head.size);
    media_reply_fini(&reply);
    return r < 0;
}

/* One file after the other. A file that cannot be read from the socket ends the helper. */
static int help(void)
{
    for (;;) {
        struct media_ask ask;
        struct media_reply reply = {0};
        if (media_read(STDIN_FILENO, &ask, sizeof(ask)) < 0 || ask.size > MEDIA_FILE_MAX) return 0;
        _cleanup_(freep) uint8_t *data = malloc(ask.size + 1);
        if (!data || media_read(STDIN_FILENO, data, ask.size) < 0) return 1;
        char *const argv[] = {"/proc/self/exe", NULL};
        int r = decoder_run(argv, data, ask.size, DECODER_MS, STDIN_FILENO, &reply);
        if (r < 0) media_reply_error(&reply, r);
        r = media_send(STDIN_FILENO, &reply.head, sizeof(reply.head));
        if (r == 0) r = media_send(STDIN_FILENO, reply.data, reply.head.size);
        media_reply_fini(&reply);
        if (r < 0) return 0;
    }
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc == 1 && !isatty(STDIN_FILENO)) return decode_one();
    if (argc == 2 && strcmp(argv[1], "helper") == 0) return help();
    if ((argc == 2 || argc == 3) && strcmp(argv[1], "keeper") == 0)
        return media_keeper_serve(STDIN_FILENO, argc == 3 ? argv[2] : "/proc/self/exe");
    fputs("hobd-decode is a part of hobd, which starts it. See hob media in hob(1).\n", stderr);
    return 2;
}
