/* SPDX-License-Identifier: MIT */
#include "client/answer-parts.h"

void answer_parts_fini(struct answer_parts *p)
{
    buf_fini(&p->text);
    buf_fini(&p->thinking);
    tool_calls_fini(&p->calls);
    proto_text_fini(&p->session);
    *p = (struct answer_parts){0};
}
