/* SPDX-License-Identifier: MIT */
#include "daemon/encoder/encoder-layout.h"
#include "daemon/encoder/encoder-state.h"
#include <stdio.h>
#include <string.h>

#include "tests/libcommon/check.h"

/* The layout as one text, a run of embeddings as "{first+n}". */
static void check_layout_of(const struct encoder_hparams *hparams, struct encoder_plan plan, const char *want)
{
    const struct encoder e = {.p = *hparams};
    struct encoder_layout l;
    char text[1024] = "";
    uint32_t next = 0;
    bool text_before = false;
    assert_int_equal(encoder_layout(&e, &plan, &l), 0);
    for (uint32_t i = 0; i < l.n; i++) {
        const struct encoder_part *p = &l.parts[i];
        char *end = text + strlen(text);
        const size_t room = sizeof(text) - strlen(text);
        if (p->text) {
            assert_true(*p->text && !p->n && !text_before);
            snprintf(end, room, "%s", p->text);
        } else {
            assert_int_equal(p->first, next);
            snprintf(end, room, "{%u+%u}", p->first, p->n);
            next += p->n;
        }
        text_before = p->text != NULL;
    }
    assert_int_equal(next, plan.items);
    assert_string_equal(text, want);
    encoder_layout_fini(&l);
    assert_null(l.parts);
}

static void check_layout(enum encoder_kind kind, struct encoder_plan plan, const char *want)
{
    const struct encoder_hparams p = {.kind = kind};
    check_layout_of(&p, plan, want);
}

static void check_sound(enum encoder_sound_kind kind, const char *want)
{
    const struct encoder_hparams p = {.sound = {.kind = kind}};
    check_layout_of(&p, (struct encoder_plan){.items = 374, .tile_items = 187, .chunks = 2}, want);
}

static void test_sounds(void **state)
{
    check_sound(SOUND_ULTRAVOX, "{0+374}");
    check_sound(SOUND_QWEN2A, "<|audio_bos|>{0+374}<|audio_eos|>");
    check_sound(SOUND_VOXTRAL, "[BEGIN_AUDIO]{0+374}");
}

static void test_one_run(void **state)
{
    check_layout(ENCODER_GEMMA3, (struct encoder_plan){.items = 256}, "<start_of_image>{0+256}<end_of_image>");
    check_layout(ENCODER_INTERNVL, (struct encoder_plan){.items = 35, .columns = 3, .rows = 2, .tile_items = 5},
                 "<img>{0+35}</img>");
    check_layout(ENCODER_PIXTRAL, (struct encoder_plan){.items = 14}, "{0+14}[IMG_END]");
    check_layout(ENCODER_LFM2, (struct encoder_plan){.items = 66}, "<|image_start|>{0+66}<|image_end|>");
    check_layout(ENCODER_QWEN2VL, (struct encoder_plan){.items = 12}, "<|vision_start|>{0+12}<|vision_end|>");
    check_layout(ENCODER_QWEN25VL, (struct encoder_plan){.items = 12}, "<|vision_start|>{0+12}<|vision_end|>");
    check_layout(ENCODER_MLP, (struct encoder_plan){.items = 40, .columns = 3, .rows = 1, .tile_items = 10}, "{0+40}");
    check_layout(ENCODER_MLP, (struct encoder_plan){.items = 576}, "{0+576}");
}

static void test_tiles(void **state)
{
    check_layout(ENCODER_IDEFICS3, (struct encoder_plan){.items = 128, .columns = 1, .rows = 1, .tile_items = 64},
                 "<fake_token_around_image><row_1_col_1>{0+64}\n\n<fake_token_around_image><global-img>{64+64}"
                 "<fake_token_around_image>");
    check_layout(ENCODER_LFM2, (struct encoder_plan){.items = 1030, .columns = 2, .rows = 2, .tile_items = 256},
                 "<|image_start|><|img_row_1_col_1|>{0+256}<|img_row_1_col_2|>{256+256}<|img_row_2_col_1|>{512+256}"
                 "<|img_row_2_col_2|>{768+256}<|img_thumbnail|>{1024+6}<|image_end|>");
    check_layout(ENCODER_IDEFICS3, (struct encoder_plan){.items = 35, .columns = 3, .rows = 2, .tile_items = 5},
                 "<fake_token_around_image><row_1_col_1>{0+5}<fake_token_around_image><row_1_col_2>{5+5}"
                 "<fake_token_around_image><row_1_col_3>{10+5}\n<fake_token_around_image><row_2_col_1>{15+5}"
                 "<fake_token_around_image><row_2_col_2>{20+5}<fake_token_around_image><row_2_col_3>{25+5}"
                 "\n\n<fake_token_around_image><global-img>{30+5}<fake_token_around_image>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_run),
        cmocka_unit_test(test_sounds),
        cmocka_unit_test(test_tiles),
    };
    return cmocka_run_group_tests_name("encoder-layout", tests, NULL, NULL);
}
