/* SPDX-License-Identifier: MIT */
#include "client/http/key-file.h"
#include "libcommon/cleanup.h"
#include "libcommon/conf.h"
#include "libcommon/error.h"
#include "libcommon/hex.h"
#include "libcommon/random.h"
#include <fcntl.h>
#include <sha2.h>
#include <string.h>
#include <sys/stat.h>

static bool valid_name(const char *name)
{
    size_t n = strlen(name);
    return n > 0 && n <= KEY_NAME_MAX && strncmp(name, KEY_UID, strlen(KEY_UID)) != 0 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == n;
}

static void hash(uint8_t out[static KEY_HASH], const char *text)
{
    SHA2_CTX c;
    SHA256Init(&c);
    SHA256Update(&c, (const uint8_t *)text, strlen(text));
    SHA256Final(out, &c);
}

static struct key *named(const struct keys *k, const char *name)
{
    for (size_t i = 0; i < k->n; i++)
        if (strcmp(k->list[i]->name, name) == 0) return k->list[i];
    return NULL;
}

struct key *key_hold(struct key *key)
{
    if (key) key->holds++;
    return key;
}

void key_drop(struct key *key)
{
    if (key && --key->holds == 0) free(key);
}

/* --- reading --- */

static int read_word(struct key *key, const char *word)
{
    int r = key_limits_read(&key->limits, word);
    if (r <= 0) return r;
    if (strcmp(word, "metrics") == 0) {
        key->metrics = true;
        return 0;
    }
    key->priority = proto_priority_value(word);
    if (key->priority == PROTO_PRIORITY_UNSET)
        return error_say(
            -EINVAL, "'%s' is neither a priority (interactive, batch) nor a limit (running, requests, tokens)", word);
    return 0;
}

static int read_words(struct key *key, const char *text)
{
    _cleanup_(freep) char *words = strdup(text);
    char *at = words, *word;
    int r = words ? 0 : error_origin(-ENOMEM);
    while (r == 0 && (word = strsep(&at, " \t")))
        if (*word) r = read_word(key, word);
    return r < 0 ? error_in(r, "%s", key->name) : 0;
}

static int add_line(void *ctx, const char *name, const char *value)
{
    struct keys *k = ctx;
    struct key key = {.holds = 1};
    if (!valid_name(name)) return error_say(-EINVAL, "'%s' is not a name of a key", name);
    if (named(k, name)) return error_say(-EINVAL, "the key '%s' occurs twice", name);
    strcpy(key.name, name);
    if (!hex_read(key.hash, value, KEY_HASH)) return error_say(-EINVAL, "%s: not a hash of 64 digits", name);
    value += (size_t)2 * KEY_HASH;
    if (*value && *value != ' ') return error_say(-EINVAL, "%s: not a hash of 64 digits", name);
    int r = read_words(&key, value);
    if (r < 0) return r;
    struct key **more = reallocarray(k->list, k->n + 1, sizeof(struct key *));
    if (!more) return error_origin(-ENOMEM);
    k->list = more;
    more[k->n] = malloc(sizeof(key));
    if (!more[k->n]) return error_origin(-ENOMEM);
    *more[k->n++] = key;
    return 0;
}

/* As keys_read, but a file without keys is no error. */
static int read_file(struct keys *k, const char *path)
{
    struct stat st;
    *k = (struct keys){0};
    if (stat(path, &st) < 0) return error_say(-errno, "%s: %s", path, strerror(errno));
    if (st.st_mode & 027)
        return error_say(-EPERM, "%s has mode %03o: only its owner may write it and not all users may read it", path,
                         (unsigned)st.st_mode & 0777);
    int r = conf_read(path, add_line, k);
    return r > 0 ? error_say(-ENOENT, "%s: %s", path, strerror(ENOENT)) : r;
}

int keys_read(struct keys *k, const char *path)
{
    int r = read_file(k, path);
    return r == 0 && k->n == 0 ? error_say(-EINVAL, "%s has no keys", path) : r;
}

void keys_fini(struct keys *k)
{
    for (size_t i = 0; i < k->n; i++) key_drop(k->list[i]);
    free(k->list);
    *k = (struct keys){0};
}

int keys_reload(struct keys *k, const char *path)
{
    struct keys fresh;
    int r = keys_read(&fresh, path);
    for (size_t i = 0; r == 0 && i < fresh.n; i++) {
        struct key *old = named(k, fresh.list[i]->name), *now = fresh.list[i];
        if (!old) continue;
        memcpy(old->hash, now->hash, KEY_HASH);
        old->priority = now->priority;
        old->limits = now->limits;
        old->metrics = now->metrics;
        fresh.list[i] = key_hold(old);
        key_drop(now);
    }
    if (r < 0) {
        keys_fini(&fresh);
        return r;
    }
    keys_fini(k);
    *k = fresh;
    return 0;
}

/* --- use --- */

static bool equal(const uint8_t *a, const uint8_t *b)
{
    uint8_t differ = 0;
    for (size_t i = 0; i < KEY_HASH; i++) differ |= a[i] ^ b[i];
    return differ == 0;
}

struct key *keys_find(const struct keys *k, const char *text)
{
    struct key *found = NULL;
    uint8_t h[KEY_HASH];
    hash(h, text);
    for (size_t i = 0; i < k->n; i++)
        if (equal(h, k->list[i]->hash)) found = k->list[i];
    return found;
}

/* Append @line to the file. */
static int append(const char *path, const char *line)
{
    _cleanup_(closep) int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    size_t n = strlen(line);
    if (fd < 0) return error_say(-errno, "%s: %s", path, strerror(errno));
    ssize_t done = write(fd, line, n);
    if (done < 0 || fsync(fd) < 0) return error_say(-errno, "%s: %s", path, strerror(errno));
    return (size_t)done == n ? 0 : error_say(-ENOSPC, "%s: %s", path, strerror(ENOSPC));
}

int keys_add(const char *path, const char *name, char text[static KEY_TEXT])
{
    uint8_t random[KEY_HASH], h[KEY_HASH];
    char digits[2 * KEY_HASH + 1], line[KEY_NAME_MAX + 2 * KEY_HASH + 8];
    struct keys k = {0};
    if (!valid_name(name))
        return error_say(
            -EINVAL, "'%s' is not a name of a key: 1 to %d letters, digits, '-', '_' and '.', and not " KEY_UID "...",
            name, KEY_NAME_MAX);
    int r = access(path, F_OK) == 0 ? read_file(&k, path) : 0;
    if (r == 0 && named(&k, name)) r = error_say(-EEXIST, "%s has a key '%s' already", path, name);
    keys_fini(&k);
    if (r < 0) return r;
    if (random_fill(random, sizeof(random)) < 0) return error_say(-EIO, "no random numbers");
    strcpy(text, "hob-");
    hex_write(text + 4, random, KEY_HASH);
    hash(h, text);
    hex_write(digits, h, KEY_HASH);
    snprintf(line, sizeof(line), "%s = %s\n", name, digits);
    return append(path, line);
}
