/* SPDX-License-Identifier: MIT */
#pragma once
/* The files of the page in client/http/page, which page/embed.sh makes part of the program. */
#include <stddef.h>

#define PAGE_FILE(name)                                                                                                \
    extern const unsigned char name[];                                                                                 \
    extern const size_t name##_len;

PAGE_FILE(page_index_html)
PAGE_FILE(page_page_css)
PAGE_FILE(page_icon_svg)
PAGE_FILE(page_conversation_js)
PAGE_FILE(page_gateway_js)
PAGE_FILE(page_page_js)
PAGE_FILE(page_sessions_js)
PAGE_FILE(page_status_js)
PAGE_FILE(page_text_js)
#undef PAGE_FILE
