/* SPDX-License-Identifier: MIT */
#include "client/sessions-search.h"
#include "client/columns.h"
#include "client/exit-status.h"
#include "client/json.h"
#include "client/log/earlier.h"
#include "client/output.h"
#include "client/rpc.h"
#include "client/width.h"
#include "client/word-match.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/plain.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_MS 60000 /* the daemon may have to read the disk */
#define BEFORE  30    /* bytes of text before the word */
#define BEHIND  200   /* and from it on, at most */

struct names {
    char **list; /* [n], owned */
    size_t n;
};

static int name_item(void *ctx, const struct json_item *item)
{
    struct names *names = ctx;
    if (item->depth != 2 || item->kind != JSON_STRING || !item->key || strcmp(item->key, "name") != 0) return 0;
    char **more = reallocarray(names->list, names->n + 1, sizeof(*more));
    if (!more) return -ENOMEM;
    names->list = more;
    more[names->n] = strdup(item->text);
    return more[names->n] ? (names->n++, 0) : -ENOMEM;
}

static void names_fini(struct names *names)
{
    for (size_t i = 0; i < names->n; i++) free(names->list[i]);
    free(names->list);
}

/* --- the texts of a session --- */

/* Text @i of the session; false: it has fewer. */
static bool text_at(const struct earlier *e, size_t i, struct proto_text *out)
{
    if (i == 0) {
        *out = e->text;
        return true;
    }
    i--;
    for (size_t m = 0; m < e->n; m++) {
        const struct proto_message *x = &e->messages[m];
        size_t texts = 2 + 2 * x->n_calls;
        if (i >= texts) {
            i -= texts;
            continue;
        }
        *out = i == 0   ? x->content
               : i == 1 ? x->thinking
               : i % 2  ? x->calls[i / 2 - 1].arguments
                        : x->calls[i / 2 - 1].name;
        return true;
    }
    return false;
}

/* Find the word @word. False: the session does not have it; else *where and *at are its text and place. */
static bool find_word(const struct earlier *e, const char *word, struct proto_text *where, size_t *at)
{
    for (size_t i = 0; text_at(e, i, where); i++) {
        *at = where->len ? word_match(where->data, where->len, word, NULL) : 0;
        if (*at < where->len) return true;
    }
    return false;
}

/* --- output --- */

/* Append the text around @at, on one line of at most @width columns (0: no limit). */
static int put_place(struct buf *out, const struct proto_text *t, size_t at, unsigned width)
{
    struct buf safe = BUF_INIT;
    size_t from = at > BEFORE ? at - BEFORE : 0, to = t->len - at > BEHIND ? at + BEHIND : t->len;
    while (from < at && ((unsigned char)t->data[from] & 0xc0) == 0x80) from++;
    while (to < t->len && ((unsigned char)t->data[to] & 0xc0) == 0x80) to++;
    int r = from ? buf_puts(&safe, "…") : 0;
    if (r == 0) r = plain_line(&safe, t->data + from, to - from);
    if (r == 0) r = buf_append(out, safe.data, width ? width_fit(safe.data, width, NULL) : safe.len);
    buf_fini(&safe);
    return r == 0 ? buf_puts(out, "\n") : r;
}

/* Put the line "NAME: TEXT" before the lines of @lines. */
static int put_line(struct buf *lines, const char *name, const struct proto_text *where, size_t at)
{
    const unsigned width = table_terminal(STDOUT_FILENO);
    struct buf line = BUF_INIT;
    int r = table_plain(&line, name);
    if (r == 0) r = buf_puts(&line, ": ");
    unsigned used = r == 0 ? width_columns(line.data) : 0;
    if (r == 0) r = put_place(&line, where, at, !width ? 0 : width > used ? width - used : 1);
    if (r == 0) r = buf_append(&line, lines->data, lines->len);
    buf_fini(lines);
    *lines = line;
    return r;
}

/* Whether all words are in the session or its name; then a line of it is put before @lines. -ENOMEM. */
static int match(struct buf *lines, const struct options *o, const char *name, const struct earlier *e)
{
    struct proto_text first = {0}, where;
    size_t first_at = 0, at;
    for (size_t i = 0; i < o->n_words; i++) {
        const bool named = word_match(name, strlen(name), o->words[i], NULL) < strlen(name);
        const bool found = find_word(e, o->words[i], &where, &at);
        if (!named && !found) return 0;
        if (!found || first.len) continue;
        first = where;
        first_at = at;
    }
    if (!first.len && e->n) first = e->messages[0].content;
    if (!first.len) first = e->text;
    return put_line(lines, name, &first, first_at);
}

/* Read the session @name and match it. 0, or the exit status; errors are printed. */
static int search_one(const struct options *o, struct connection *c, uint64_t id, char *name, struct buf *lines)
{
    static const struct rpc how = {.want = PROTO_EV_SESSIONS, .retry = RPC_ALWAYS, .wait_ms = WAIT_MS};
    const struct proto_request q = {.type = PROTO_SESSION_SHOW, .id = id, .name = {name, strlen(name)}};
    struct proto_event answer = {0};
    struct earlier e = {0};
    int status = rpc_call(o, c, &q, &how, &answer);
    if (status != 0) return status;
    int r = earlier_read(&e, answer.sessions.data, answer.sessions.len);
    if (r == 0) r = match(lines, o, name, &e);
    earlier_fini(&e);
    proto_event_fini(&answer);
    return r < 0 ? exit_status_report(r) : 0;
}

int sessions_search(const struct options *o, struct connection *c, const char *list, size_t len)
{
    struct names names = {0};
    struct buf lines = BUF_INIT;
    int status = 0, r = json_walk(list, len, name_item, &names);
    for (size_t i = names.n; r == 0 && i-- > 0;) {
        int one = search_one(o, c, names.n - i + 1000, names.list[i], &lines);
        if (one == 0) continue;
        status = one; /* a session in use does not stop the search of the others */
        if (one == EXIT_NO_DAEMON || one == EXIT_INTERRUPTED) break;
    }
    if (r == 0 && lines.len) r = output_print(lines.data, lines.len);
    if (r == 0 && !lines.len && status == 0) log_info("no session has these words");
    if (r < 0) status = exit_status_report(r);
    if (status == 0 && !lines.len) status = EXIT_FAILED;
    buf_fini(&lines);
    names_fini(&names);
    return status;
}
