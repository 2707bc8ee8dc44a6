/* SPDX-License-Identifier: MIT */
#include "client/http/chat-media.h"
#include "client/http/base64.h"
#include "client/http/chat-messages.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

/* A part on its way into a message. */
struct part {
    struct completion *c;
    struct proto_message *m;
    size_t at;
    const json_t *json;
    const char *place;
};

static int wrong(const struct part *p, const char *what)
{
    return fault_set(&p->c->exchange->fault, 400, p->place, "%s: %s", p->place, what);
}

static int add(const struct part *p, enum proto_media_kind kind, struct blob *file)
{
    struct proto_message *m = p->m;
    struct proto_media *more = reallocarray(m->media, m->n_media + 1, sizeof(*more));
    if (!more) return -ENOMEM;
    m->media = more;
    more[m->n_media++] = (struct proto_media){.kind = kind, .at = p->at, .file = blob_ref(file)};
    return 0;
}

/* Add the file that @text [@n] encodes. */
static int add_base64(const struct part *p, enum proto_media_kind kind, const char *text, size_t n)
{
    struct blob *file = NULL;
    size_t len = 0;
    uint8_t *data = malloc(n / 4 * 3 + 1);
    int r = data ? base64_decode(text, n, data, &len) : -ENOMEM;
    if (r == -EINVAL || (r == 0 && !len)) {
        free(data);
        return wrong(p, r < 0 ? "the data are not valid base64 (RFC 4648, with padding)" : "the data are empty");
    }
    if (r == 0) r = blob_take(&file, data, len);
    if (r < 0) free(data);
    if (r == 0) r = add(p, kind, file);
    blob_unref(file);
    return r < 0 ? fault_of_error(&p->c->exchange->fault, error_origin(r)) : 0;
}

/* @url: "data:image/png;base64,…" */
static int add_url(const struct part *p, const json_t *url)
{
    const char *s = json_string_value(url), *comma;
    static const char base64[] = ";base64";
    const size_t n = sizeof(base64) - 1;
    if (!s || json_string_length(url) != strlen(s)) return wrong(p, "the image has no URL");
    if (strncmp(s, "data:", 5) != 0)
        return wrong(p, "hob-http fetches no URLs; send the image itself as a URL data:image/TYPE;base64,DATA");
    comma = strchr(s, ',');
    if (strncmp(s + 5, "image/", 6) != 0 || !comma || (size_t)(comma - s) < n || strncmp(comma - n, base64, n) != 0)
        return wrong(p, "the URL of an image must have the form data:image/TYPE;base64,DATA");
    return add_base64(p, PROTO_MEDIA_IMAGE, comma + 1, strlen(comma + 1));
}

/* Images are always read as the model reads them best. */
static int check_detail(const struct part *p, const json_t *detail)
{
    const char *s = json_string_value(detail);
    if (!detail || json_is_null(detail) || (s && (strcmp(s, "auto") == 0 || strcmp(s, "high") == 0))) return 0;
    return wrong(p, "'detail' must be auto or high");
}

/* {"type": "image_url", "image_url": {"url": URL, "detail": …}} */
static int image_url(const struct part *p)
{
    static const char *const known[] = {"type", "image_url", NULL}, *const inner[] = {"url", "detail", NULL};
    const json_t *image = json_object_get(p->json, "image_url");
    int r = chat_check_members(p->c, p->json, known, p->place);
    if (r == 0 && !json_is_object(image)) r = wrong(p, "'image_url' must be an object with 'url'");
    if (r == 0) r = chat_check_members(p->c, image, inner, p->place);
    if (r == 0) r = check_detail(p, json_object_get(image, "detail"));
    return r == 0 ? add_url(p, json_object_get(image, "url")) : r;
}

/* {"type": "input_image", "image_url": URL, "detail": …} */
static int input_image(const struct part *p)
{
    static const char *const known[] = {"type", "image_url", "detail", NULL};
    int r = chat_check_members(p->c, p->json, known, p->place);
    if (r == 0) r = check_detail(p, json_object_get(p->json, "detail"));
    return r == 0 ? add_url(p, json_object_get(p->json, "image_url")) : r;
}

/* {"type": "input_audio", "input_audio": {"data": BASE64, "format": …}} */
static int input_audio(const struct part *p)
{
    static const char *const known[] = {"type", "input_audio", NULL}, *const inner[] = {"data", "format", NULL};
    static const char *const formats[] = {"wav", "mp3", "flac", "ogg", NULL};
    const json_t *audio = json_object_get(p->json, "input_audio"), *data = json_object_get(audio, "data");
    const char *format = json_string_value(json_object_get(audio, "format"));
    size_t i = 0;
    int r = chat_check_members(p->c, p->json, known, p->place);
    if (r == 0 && !json_is_string(data)) r = wrong(p, "'input_audio' must be an object with 'data' and 'format'");
    if (r == 0) r = chat_check_members(p->c, audio, inner, p->place);
    while (format && formats[i] && strcmp(formats[i], format) != 0) i++;
    if (r == 0 && (!format || !formats[i])) r = wrong(p, "'format' must be wav, mp3, flac or ogg");
    return r == 0 ? add_base64(p, PROTO_MEDIA_SOUND, json_string_value(data), json_string_length(data)) : r;
}

/* {"type": "image", "source": {"type": "base64", "media_type": …, "data": BASE64}} */
static int image(const struct part *p)
{
    static const char *const known[] = {"type", "source", "cache_control", NULL};
    static const char *const inner[] = {"type", "media_type", "data", NULL};
    const json_t *source = json_object_get(p->json, "source"), *data = json_object_get(source, "data");
    const char *type = json_string_value(json_object_get(source, "type"));
    const char *media_type = json_string_value(json_object_get(source, "media_type"));
    int r = chat_check_members(p->c, p->json, known, p->place);
    if (r < 0) return r;
    if (!type || strcmp(type, "base64") != 0)
        return wrong(p, "hob-http fetches no images; the 'source' must have the type base64");
    r = chat_check_members(p->c, source, inner, p->place);
    if (r == 0 && (!media_type || strncmp(media_type, "image/", 6) != 0))
        r = wrong(p, "'media_type' must begin with image/");
    if (r == 0 && !json_is_string(data)) r = wrong(p, "'data' is missing or not a string");
    return r == 0 ? add_base64(p, PROTO_MEDIA_IMAGE, json_string_value(data), json_string_length(data)) : r;
}

int chat_media(struct completion *c, struct proto_message *m, size_t at, const json_t *part, const char *place)
{
    static const struct {
        const char *type;
        int (*add)(const struct part *p);
    } types[] = {
        {"image_url", image_url}, {"input_image", input_image}, {"input_audio", input_audio}, {"image", image}};
    const struct part p = {c, m, at, part, place};
    const char *type = json_string_value(json_object_get(part, "type"));
    for (size_t i = 0; type && i < sizeof(types) / sizeof(*types); i++)
        if (strcmp(types[i].type, type) == 0) return types[i].add(&p);
    return 1;
}
