/* SPDX-License-Identifier: MIT */
#include "daemon/media/media.h"
#include "libcommon/error.h"
#include "libcommon/hex.h"
#include "tests/libcommon/check.h"
#include <stdlib.h>
#include <string.h>

static void test_sniff(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        enum media_format format;
    } cases[] = {
        {"\x89PNG\r\n\x1a\n", 8, MEDIA_PNG},
        {"\x89PNG\r\n\x1a", 7, MEDIA_UNKNOWN},
        {"\xff\xd8\xff", 3, MEDIA_JPEG},
        {"\xff\xd8", 2, MEDIA_UNKNOWN},
        {"RIFF....WEBP", 12, MEDIA_WEBP},
        {"RIFF....WAVE", 12, MEDIA_WAV},
        {"RF64....WAVE", 12, MEDIA_WAV},
        {"RIFF....AVI ", 12, MEDIA_UNKNOWN},
        {"RIFF....WAV", 11, MEDIA_UNKNOWN},
        {"fLaC", 4, MEDIA_FLAC},
        {"OggS", 4, MEDIA_OGG},
        {"ID3", 3, MEDIA_MP3},
        {"\xff\xfb\x90\x00", 4, MEDIA_MP3},
        {"\xff\xf3\x40\xc0", 4, MEDIA_MP3},
        {"\xff\xfb\xf0\x00", 4, MEDIA_UNKNOWN},
        {"\xff\xfb\x9c\x00", 4, MEDIA_UNKNOWN},
        {"\xff\xf9\x90\x00", 4, MEDIA_UNKNOWN},
        {"\xff\xfb\x90", 3, MEDIA_UNKNOWN},
        {"", 0, MEDIA_UNKNOWN},
        {"GIF89a", 6, MEDIA_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_int_equal(media_sniff((const uint8_t *)cases[i].bytes, cases[i].n), cases[i].format);
}

static struct media image(uint32_t w, uint32_t h, uint8_t *pixels)
{
    struct media m = {.kind = MEDIA_IMAGE, .format = MEDIA_PNG, .width = w, .height = h, .data = pixels};
    media_digest(&m);
    return m;
}

static void test_digest(void **state)
{
    uint8_t pixels[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    struct media a = image(2, 2, pixels), b = image(4, 1, pixels), c = image(1, 4, pixels), d = a, e;
    char text[2 * MEDIA_DIGEST + 1];
    d.format = MEDIA_JPEG;
    media_digest(&d);
    assert_memory_equal(a.digest, d.digest, MEDIA_DIGEST);
    assert_memory_not_equal(a.digest, b.digest, MEDIA_DIGEST);
    assert_memory_not_equal(b.digest, c.digest, MEDIA_DIGEST);
    /* The same bytes as a sound. */
    e = (struct media){.kind = MEDIA_SOUND, .format = MEDIA_WAV, .samples = 3, .data = pixels};
    media_digest(&e);
    for (int i = 0; i < 12; i++) {
        pixels[i] ^= 1;
        struct media f = image(2, 2, pixels);
        assert_memory_not_equal(a.digest, f.digest, MEDIA_DIGEST);
        assert_memory_not_equal(e.digest, f.digest, MEDIA_DIGEST);
        pixels[i] ^= 1;
    }
    /* It is stored on disk: the same value on every machine, in every version. */
    hex_write(text, a.digest, MEDIA_DIGEST);
    assert_string_equal(text, "51fe307bc4ad203854ab6e3d3204c526");
}

static void test_errors(void **state)
{
    int r = error_say(-EBADMSG, "bad CRC in IDAT");
    assert_int_equal(media_error_in(r, MEDIA_PNG), -EBADMSG);
    assert_string_equal(error_text(r), "image: PNG: bad CRC in IDAT");
    r = error_say(-EBADMSG, "x");
    assert_string_equal(error_text(media_error_in(r, MEDIA_OGG)), "sound: Ogg: x");
    r = error_say(-EBADMSG, "x");
    assert_string_equal(error_text(media_error_in(r, MEDIA_UNKNOWN)), "x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sniff),
        cmocka_unit_test(test_digest),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
