/* SPDX-License-Identifier: MIT */
#include "daemon/media/decode/decode.h"
#include "daemon/media/decode/resample.h"
#include "daemon/media/decode/wav-length.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <inttypes.h>
#include <math.h>
#include <sndfile.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    FRAMES = 4096,   /* that are read at once; a frame has one sample of each channel */
    RATE_MIN = 1000, /* samples in a second of a file */
    RATE_MAX = 768000,
};
#define FRAMES_UNKNOWN (INT64_MAX / 2) /* from this number on, libsndfile does not know it */

/* The file in memory, for libsndfile. */
struct memory {
    const uint8_t *data;
    sf_count_t n, at;
};

static sf_count_t memory_length(void *user)
{
    return ((struct memory *)user)->n;
}

static sf_count_t memory_seek(sf_count_t offset, int whence, void *user)
{
    struct memory *f = user;
    sf_count_t base = whence == SEEK_CUR ? f->at : whence == SEEK_END ? f->n : 0, at;
    if (__builtin_add_overflow(base, offset, &at) || at < 0) return -1;
    f->at = at;
    return at;
}

static sf_count_t memory_read(void *to, sf_count_t n, void *user)
{
    struct memory *f = user;
    sf_count_t left = f->at < f->n ? f->n - f->at : 0;
    if (n > left) n = left;
    if (n <= 0) return 0;
    memcpy(to, f->data + f->at, (size_t)n);
    f->at += n;
    return n;
}

static sf_count_t memory_write(const void *from, sf_count_t n, void *user)
{
    return 0;
}

static sf_count_t memory_tell(void *user)
{
    return ((struct memory *)user)->at;
}

static void sf_closep(SNDFILE **f)
{
    if (*f) sf_close(*f);
}

/* libsndfile reads many more formats, some of them by their last bytes. */
static bool is_format(int format, enum media_format wanted)
{
    switch (format & SF_FORMAT_TYPEMASK) {
    case SF_FORMAT_WAV:
    case SF_FORMAT_WAVEX:
    case SF_FORMAT_RF64:
        return wanted == MEDIA_WAV;
    case SF_FORMAT_FLAC:
        return wanted == MEDIA_FLAC;
    case SF_FORMAT_OGG:
        return wanted == MEDIA_OGG;
    case SF_FORMAT_MPEG:
        return wanted == MEDIA_MP3;
    default:
        return false;
    }
}

static int check_header(const SF_INFO *info, enum media_format format)
{
    if (!is_format(info->format, format)) return error_say(-EBADMSG, "the header is damaged");
    if (info->samplerate < RATE_MIN || info->samplerate > RATE_MAX)
        return error_say(-EBADMSG, "%d samples a second; %d to %d can be read", info->samplerate, RATE_MIN, RATE_MAX);
    if (info->channels < 1) return error_say(-EBADMSG, "it has no channel");
    uint64_t seconds = info->frames > 0 ? (uint64_t)info->frames / (uint64_t)info->samplerate : 0;
    if (info->frames < FRAMES_UNKNOWN && seconds > MEDIA_SECONDS_MAX) return wav_too_long(seconds);
    return 0;
}

/* The mean of the channels, in place. @before: frames before these. */
static int mix(float *block, size_t n, unsigned channels, uint64_t before)
{
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (unsigned k = 0; k < channels; k++) sum += (double)block[i * channels + k];
        block[i] = (float)(sum / channels);
        if (!isfinite(block[i]))
            return error_say(-EBADMSG, "sample %" PRIu64 " is not a finite number", before + i + 1);
    }
    return 0;
}

/* Read all frames into @out. Sets *total. */
static int frames(SNDFILE *f, const SF_INFO *info, struct resample *out, uint64_t *total)
{
    unsigned channels = (unsigned)info->channels;
    _cleanup_(freep) float *block = malloc((size_t)FRAMES * channels * sizeof(*block));
    if (!block) return error_say(-ENOMEM, "no memory for %u channels", channels);
    int r = 0;
    for (*total = 0; r == 0;) {
        sf_count_t n = sf_readf_float(f, block, FRAMES); /* forgets the error of the call before */
        if (sf_error(f)) r = error_say(-EBADMSG, "the sound is damaged");
        if (r < 0 || n <= 0) break;
        r = mix(block, (size_t)n, channels, *total);
        *total += (uint64_t)n;
        if (r == 0 && *total / (uint64_t)info->samplerate > MEDIA_SECONDS_MAX)
            r = error_say(-EFBIG, "the sound is over the limit of %u min", MEDIA_SECONDS_MAX / 60);
        if (r == 0) r = resample_push(out, block, (size_t)n);
    }
    return r == 0 ? resample_push(out, NULL, 0) : r;
}

/* Ogg and MP3 are streams, which may end anywhere. */
static int check_total(const SF_INFO *info, enum media_format format, uint64_t total)
{
    bool counted = format == MEDIA_WAV || format == MEDIA_FLAC;
    if (total == 0) return error_say(-EBADMSG, "it has no samples");
    if (counted && info->frames < FRAMES_UNKNOWN && total < (uint64_t)info->frames)
        return error_say(-EBADMSG, "truncated: %" PRIu64 " of %" PRId64 " samples", total, (int64_t)info->frames);
    return 0;
}

static int samples(SNDFILE *f, const SF_INFO *info, struct media *m)
{
    struct resample out;
    uint64_t total = 0;
    int r = resample_init(&out, (unsigned)info->samplerate);
    if (r == 0) r = frames(f, info, &out, &total);
    if (r == 0) r = check_total(info, m->format, total);
    if (r == 0 && out.n == 0) r = error_say(-EBADMSG, "it has no samples");
    if (r == 0) {
        m->kind = MEDIA_SOUND;
        m->samples = out.n;
        m->data = steal(out.samples);
    }
    resample_fini(&out);
    return r;
}

int decode_sound(const uint8_t *data, size_t n, struct media *m)
{
    SF_VIRTUAL_IO io = {memory_length, memory_seek, memory_read, memory_write, memory_tell};
    struct memory file = {data, (sf_count_t)n, 0};
    SF_INFO info = {0};
    int r = m->format == MEDIA_WAV ? wav_length(data, n) : 0;
    if (r < 0) return r;
    _cleanup_(sf_closep) SNDFILE *f = sf_open_virtual(&io, SFM_READ, &info, &file);
    if (!f) return error_say(-EBADMSG, "%s", sf_strerror(NULL));
    r = check_header(&info, m->format);
    return r < 0 ? r : samples(f, &info, m);
}
