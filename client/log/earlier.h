/* SPDX-License-Identifier: MIT */
#pragma once
/* A conversation as JSON: that of hob-log conversation, or a session of the daemon (session.show). */
#include "client/log/log-record.h"
#include "libcommon/proto.h"
#include <stdbool.h>
#include <stddef.h>

struct earlier {
    struct proto_text model, session, kind; /* len 0: not given */
    char uuid[RECORD_UUID], conversation[RECORD_UUID];
    char outcome[RECORD_UUID];      /* of a session: the UUID of its last turn */
    bool raw, media;                /* media: a message has images or sounds, which are not kept */
    struct proto_text text;         /* of a raw one */
    struct proto_message *messages; /* [n], owned */
    size_t n;
    size_t own; /* of the log: so many of the last messages are those of the exchange itself */
};

/* Read @json into @e, which is new; call earlier_fini in any case. 0; -EBADMSG: sets the error message; -ENOMEM. */
int earlier_read(struct earlier *e, const char *json, size_t len);
void earlier_fini(struct earlier *e);
