/* SPDX-License-Identifier: MIT */
#include "daemon/media/decode/canvas.h"
#include "libcommon/error.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* a * b / 255, rounded to the nearest. */
static uint32_t times(uint32_t a, uint32_t b)
{
    uint32_t t = a * b + 128;
    return (t + (t >> 8)) >> 8;
}

/* EXIF's orientations: 1 none, 2 mirrored, 3 turned by 180 degrees, 4 upside down, 5 transposed, 6 to be turned
 * clockwise, 7 transposed and turned by 180 degrees, 8 to be turned counterclockwise. */
static void turn(struct canvas *c, unsigned orientation)
{
    bool swapped = orientation >= 5;
    ptrdiff_t w = swapped ? c->height : c->width, h = swapped ? c->width : c->height;
    bool from_right = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
    bool from_below = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
    ptrdiff_t across = from_right ? -1 : 1, along = from_below ? -w : w;
    c->first = (from_right ? w - 1 : 0) + (from_below ? (h - 1) * w : 0);
    c->right = swapped ? along : across;
    c->down = swapped ? across : along;
}

int canvas_new(struct canvas *c, uint32_t width, uint32_t height, unsigned orientation, struct media *m)
{
    if (!width || !height) return error_say(-EBADMSG, "the image has no pixels");
    if ((uint64_t)width * height > MEDIA_PIXELS_MAX)
        return error_say(-EFBIG, "%" PRIu32 "x%" PRIu32 " pixels are over the limit of %u MP", width, height,
                         MEDIA_PIXELS_MAX / 1000000);
    *c = (struct canvas){.width = width, .height = height};
    turn(c, orientation);
    m->kind = MEDIA_IMAGE;
    m->width = orientation >= 5 ? height : width;
    m->height = orientation >= 5 ? width : height;
    m->data = c->rgb = malloc((size_t)width * height * 3);
    return c->rgb ? 0 : error_say(-ENOMEM, "no memory for %" PRIu32 "x%" PRIu32 " pixels", width, height);
}

static uint8_t *at(const struct canvas *c, uint32_t x, uint32_t y)
{
    return c->rgb + 3 * (c->first + x * c->right + y * c->down);
}

void canvas_white(struct canvas *c)
{
    memset(c->rgb, 255, (size_t)c->width * c->height * 3);
}

void canvas_rgb(struct canvas *c, uint32_t y, const uint8_t *row)
{
    if (c->right == 1) {
        memcpy(at(c, 0, y), row, (size_t)c->width * 3);
        return;
    }
    for (uint32_t x = 0; x < c->width; x++) memcpy(at(c, x, y), row + (size_t)x * 3, 3);
}

void canvas_rgba(struct canvas *c, uint32_t x, uint32_t y, const uint8_t *row, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, row += 4) {
        uint8_t *to = at(c, x + i, y);
        uint32_t a = row[3], white = 255 * (255 - a) + 128;
        for (int k = 0; k < 3; k++) {
            uint32_t t = row[k] * a + white;
            to[k] = (uint8_t)((t + (t >> 8)) >> 8);
        }
    }
}

void canvas_cmyk(struct canvas *c, uint32_t y, const uint8_t *row)
{
    for (uint32_t x = 0; x < c->width; x++, row += 4) {
        uint8_t *to = at(c, x, y);
        for (int k = 0; k < 3; k++) to[k] = (uint8_t)(row[3] - times(255 - row[k], row[3]));
    }
}
