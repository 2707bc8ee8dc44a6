/* SPDX-License-Identifier: MIT */
#include "daemon/media/decode/canvas.h"
#include "daemon/media/decode/decode.h"
#include "daemon/media/decode/exif.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after stdio.h */
#include <jerror.h>
#include <jpeglib.h>

enum {
    SCANS_MAX = 200,   /* of a progressive file, each of which visits all pixels; usual are about ten */
    MARKER_MAX = 65533 /* bytes of a marker */
};

struct jpeg {
    struct jpeg_decompress_struct j;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    char text[JMSG_LENGTH_MAX];
    int error;
    struct canvas canvas;
};

static _Noreturn void fail(j_common_ptr common)
{
    struct jpeg *p = common->client_data;
    p->error = p->errors.msg_code == JERR_OUT_OF_MEMORY ? -ENOMEM : -EBADMSG;
    p->errors.format_message(common, p->text);
    longjmp(p->failed, 1);
}

/* The library replaces data that is missing or damaged, with a warning. Such a file is refused; other warnings are
 * about pixels that are right. */
static void on_message(j_common_ptr common, int level)
{
    if (level >= 0) return;
    switch (common->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:
    case JWRN_TOO_MUCH_DATA:
        return;
    default:
        fail(common);
    }
}

static void on_progress(j_common_ptr common)
{
    struct jpeg *p = common->client_data;
    if (p->j.input_scan_number <= SCANS_MAX) return;
    p->error = -EFBIG;
    snprintf(p->text, sizeof(p->text), "more than %d scans", SCANS_MAX);
    longjmp(p->failed, 1);
}

static unsigned orientation(const struct jpeg *p)
{
    for (jpeg_saved_marker_ptr k = p->j.marker_list; k; k = k->next)
        if (k->data_length >= 6 && memcmp(k->data, "Exif\0\0", 6) == 0)
            return exif_orientation(k->data, k->data_length);
    return 1;
}

/* The parts that may jump to p->failed. */
static int rows(struct jpeg *p, const uint8_t *data, size_t n, struct media *m)
{
    jpeg_create_decompress(&p->j);
    p->j.progress = &p->progress;
    jpeg_mem_src(&p->j, data, n);
    jpeg_save_markers(&p->j, JPEG_APP0 + 1, MARKER_MAX);
    jpeg_read_header(&p->j, TRUE);
    int r = canvas_new(&p->canvas, p->j.image_width, p->j.image_height, orientation(p), m);
    if (r < 0) return r;
    bool cmyk = p->j.jpeg_color_space == JCS_CMYK || p->j.jpeg_color_space == JCS_YCCK;
    p->j.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    p->j.dct_method = JDCT_ISLOW;
    p->j.do_fancy_upsampling = TRUE;
    jpeg_start_decompress(&p->j);
    JSAMPARRAY row = p->j.mem->alloc_sarray((j_common_ptr)&p->j, JPOOL_IMAGE,
                                            p->j.output_width * (JDIMENSION)p->j.output_components, 1);
    while (p->j.output_scanline < p->j.output_height) {
        uint32_t y = p->j.output_scanline;
        jpeg_read_scanlines(&p->j, row, 1);
        if (cmyk)
            canvas_cmyk(&p->canvas, y, row[0]);
        else
            canvas_rgb(&p->canvas, y, row[0]);
    }
    jpeg_finish_decompress(&p->j);
    return 0;
}

int decode_jpeg(const uint8_t *data, size_t n, struct media *m)
{
    struct jpeg *p = calloc(1, sizeof(*p));
    int r;
    if (!p) return error_say(-ENOMEM, "no memory to decode it");
    p->j.err = jpeg_std_error(&p->errors);
    p->errors.error_exit = fail;
    p->errors.emit_message = on_message;
    p->progress.progress_monitor = on_progress;
    p->j.client_data = p;
    if (setjmp(p->failed) == 0)
        r = rows(p, data, n, m);
    else
        r = error_say(p->error, "%s", p->text);
    jpeg_destroy_decompress(&p->j);
    free(p);
    return r;
}
