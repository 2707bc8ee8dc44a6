/* SPDX-License-Identifier: MIT */
/* Also prompt-pieces and media-marks: prompts with images, from the messages to the items. The encoder is one without
 * weights: it plans, and encodes nothing. */
#include "daemon/encoder/encoder-state.h"
#include "daemon/request/prepare.h"
#include "libcommon/error.h"
#include "tests/engine/harness.h"
#include "tests/support/memory.h"
#include <stdio.h>

#define RUN   PROMPT_RUN_TEXT
#define IMAGE "<start_of_image>" RUN "<end_of_image>" /* of the encoder gemma */

/* 4 items. */
static const struct encoder gemma = {.p = {.kind = ENCODER_GEMMA3, .image = 8, .patch = 2, .pool = 2},
                                     .identity = "gemma"};
static const struct encoder llava = {.p = {.kind = ENCODER_MLP, .image = 8, .patch = 4, .pool = 1},
                                     .identity = "llava"};
/* 1 item a tile; 20x10: 2 x 1 tiles and the whole. */
static const struct encoder tiles = {.p = {.kind = ENCODER_IDEFICS3,
                                           .image = 10,
                                           .patch = 10,
                                           .pool = 1,
                                           .prepare = {.cut = CUT_EDGE, .tile = 10, .longest = 20}},
                                     .identity = "tiles"};

#define EACH "{% for m in messages %}[{{ m['content'] }}]{% endfor %}"

static void load(struct loaded *m, const char *tokenizer, const char *template, const struct encoder *e)
{
    struct tiny t;
    tiny_init(&t);
    t.tokenizer = tokenizer;
    t.chat_template = template;
    assert_int_equal(harness_load(m, &t, NULL), 0);
    m->encoder = (struct encoder *)(uintptr_t)e;
}

static void unload(struct loaded *m)
{
    m->encoder = NULL; /* not one that encoder_close may free */
    loaded_fini(m);
}

static struct proto_text text_of(const char *s)
{
    return (struct proto_text){.data = (char *)(uintptr_t)s, .len = strlen(s)};
}

/* Messages with images, the request of them, and the decoded images. */
struct ask {
    struct proto_message messages[4];
    struct proto_media media[8];
    struct media_source *sources[8];
    size_t n_media;
    struct proto_generate g;
    struct prompt_extras extras;
};

static struct media_source *source_of(struct blob *file, char pixels)
{
    struct media_source *s;
    assert_int_equal(media_source_new(&s, file), 0);
    s->kind = MEDIA_IMAGE;
    s->width = 20;
    s->height = 10;
    memset(s->digest, pixels, sizeof(s->digest));
    return s;
}

/* Add a message; each '@' and the character behind it is an image with these pixels. */
static void say(struct ask *a, const char *role, const char *content)
{
    struct proto_message *m = &a->messages[a->g.n_messages];
    char *text = calloc(1, strlen(content) + 1);
    size_t len = 0;
    assert_non_null(text);
    if (a->g.n_messages == 0) proto_generate_init(&a->g);
    *m = (struct proto_message){.role = text_of(role), .media = &a->media[a->n_media]};
    for (const char *c = content; *c; c++) {
        if (*c != '@') {
            text[len++] = *c;
            continue;
        }
        c++;
        struct proto_media *x = &a->media[a->n_media];
        *x = (struct proto_media){.kind = PROTO_MEDIA_IMAGE, .at = len};
        assert_int_equal(blob_new(&x->file, content, strlen(content)), 0);
        a->sources[a->n_media] = source_of(x->file, *c);
        x->width = 20;
        x->height = 10;
        memset(x->digest, *c, sizeof(x->digest));
        a->n_media++;
        m->n_media++;
    }
    m->content = (struct proto_text){text, len};
    a->g.messages = a->messages;
    a->g.n_messages++;
    a->extras = (struct prompt_extras){.sources = a->sources, .n_sources = a->n_media};
}

static void forget(struct ask *a)
{
    for (size_t i = 0; i < a->g.n_messages; i++) free(a->messages[i].content.data);
    for (size_t i = 0; i < a->n_media; i++) {
        blob_unref(a->media[i].file);
        media_source_unref(a->sources[i]);
    }
    *a = (struct ask){.n_media = 0};
}

static int prepare(struct prompt *p, const struct loaded *m, struct ask *a, const struct session *x)
{
    *p = (struct prompt){.keep = 0};
    int r = prepare_prompt(p, m, &a->g, x, &a->extras);
    if (r < 0) return r;
    const struct items items = prompt_items(p);
    assert_true(items_check(&items));
    uint32_t runs = 0;
    for (size_t i = 0; i < p->n_media; i++) {
        assert_int_equal(p->media[i].first, runs);
        runs += p->media[i].n;
    }
    assert_int_equal(runs, p->runs.n);
    return 0;
}

/* The pixels of the prompt's images in order, and its text. */
static void check_prompt(const struct prompt *p, const char *text, const char *pixels)
{
    assert_string_equal(p->text.data, text);
    assert_int_equal(p->n_media, strlen(pixels));
    for (size_t i = 0; i < p->n_media; i++) assert_int_equal(p->media[i].source->digest[0], pixels[i]);
}

/* What a template makes of one message of a user. Returns what prepare_prompt does. */
static int render(const char *template, const char *content, const char *text, const char *pixels)
{
    struct loaded m;
    struct ask a = {.n_media = 0};
    struct prompt p;
    load(&m, "gpt2", template, &gemma);
    say(&a, "user", content);
    int r = prepare(&p, &m, &a, NULL);
    if (r == 0) check_prompt(&p, text, pixels);
    prompt_fini(&p);
    forget(&a);
    unload(&m);
    return r;
}

/* --- items --- */

/* Append the tokens of @s, tokenized alone; "" in place of a run of @n. */
static void expect(struct tokens *out, const struct loaded *m, const char *s, bool markup, uint32_t n)
{
    struct text t = {0};
    for (uint32_t i = 0; i < n; i++) assert_int_equal(tokens_push(out, ITEM_EMBD, 0), 0);
    if (n) return;
    assert_int_equal(text_append(&t, s, strlen(s), markup), 0);
    assert_int_equal(tokenizer_encode(m->tokenizer, &t, 0, true, out), 0);
    text_fini(&t);
}

/* Each text between images is tokenized by itself, and so are the texts of the layout. */
static void test_pieces(void **state)
{
    static const char *const tokenizers[] = {"gpt2", "llama"};
    for (int i = 0; i < 2; i++) {
        struct loaded m;
        struct ask a = {.n_media = 0};
        struct prompt p;
        struct tokens want = {0};
        load(&m, tokenizers[i], "<|im_start|>{% for m in messages %}{{ m['content'] }}{% endfor %}<|im_end|>", &gemma);
        say(&a, "user", "see @A or@B");
        assert_int_equal(prepare(&p, &m, &a, NULL), 0);
        check_prompt(&p, "<|im_start|>see " IMAGE " or" IMAGE "<|im_end|>", "AB");
        if (tokenizer_add_bos(m.tokenizer)) tokens_push(&want, tokenizer_bos(m.tokenizer), 0);
        struct text first = {0};
        assert_int_equal(text_append(&first, "<|im_start|>", 12, true) | text_append(&first, "see ", 4, false), 0);
        assert_int_equal(tokenizer_encode(m.tokenizer, &first, 0, true, &want), 0);
        text_fini(&first);
        for (int image = 0; image < 2; image++) {
            expect(&want, &m, "<start_of_image>", true, 0);
            expect(&want, &m, "", false, 4);
            expect(&want, &m, "<end_of_image>", true, 0);
            expect(&want, &m, image ? "<|im_end|>" : " or", image, 0);
        }
        assert_int_equal(p.tokens.n, want.n);
        assert_memory_equal(p.tokens.ids, want.ids, want.n * sizeof(*want.ids));
        assert_int_equal(p.tokens.ends[p.tokens.n - 1], p.text.len);
        assert_int_equal(p.runs.n, 2);
        for (uint32_t r = 0; r < 2; r++) {
            const struct item_run *run = &p.runs.runs[r];
            const char *text = p.text.data + p.tokens.ends[run->at - 1];
            assert_true(run->n == 4 && run->kind == ITEM_IMAGE && run->offset == 0 && !p.runs.embd[r]);
            assert_memory_equal(text, RUN, strlen(RUN));
            assert_int_equal(p.tokens.ends[run->at] - p.tokens.ends[run->at - 1], strlen(RUN));
        }
        tokens_fini(&want);
        prompt_fini(&p);
        forget(&a);
        unload(&m);
    }
}

/* A prompt may begin and end with an image. */
static void test_image_first(void **state)
{
    struct loaded m;
    struct ask a = {.n_media = 0};
    struct prompt p;
    load(&m, "llama", "{% for m in messages %}{{ m['content'] }}{% endfor %}", &llava);
    say(&a, "user", "@A@B");
    assert_int_equal(prepare(&p, &m, &a, NULL), 0);
    check_prompt(&p, RUN RUN, "AB");
    assert_int_equal(p.tokens.n, 1 + 4 + 4);
    assert_int_equal(p.tokens.ids[0], tokenizer_bos(m.tokenizer));
    for (int i = 1; i < 9; i++) assert_int_equal(p.tokens.ids[i], ITEM_EMBD);
    prompt_fini(&p);
    forget(&a);
    unload(&m);
}

static void items_of(const char *content, const struct encoder *e, struct prompt *p)
{
    struct loaded m;
    struct ask a = {.n_media = 0};
    load(&m, "gpt2", EACH, e);
    say(&a, "user", content);
    assert_int_equal(prepare(p, &m, &a, NULL), 0);
    forget(&a);
    unload(&m);
}

static bool same_items(const char *a, const char *b, const struct encoder *e, const struct encoder *f)
{
    struct prompt p, q;
    items_of(a, e, &p);
    items_of(b, f, &q);
    const struct items x = prompt_items(&p), y = prompt_items(&q);
    bool same = items_equal(&x, &y);
    prompt_fini(&p);
    prompt_fini(&q);
    return same;
}

static void test_equal_items(void **state)
{
    struct encoder other = gemma;
    other.identity[0] ^= 1;
    assert_true(same_items("@A@B", "@A@B", &gemma, &gemma));
    assert_false(same_items("@A@B", "@B@A", &gemma, &gemma));
    assert_false(same_items("@A@B", "@A@A", &gemma, &gemma));
    assert_false(same_items("@A", "@A", &gemma, &other));
    /* the same pixels in two files: a file of say() has the bytes of its message */
    struct prompt p;
    items_of("@A@A", &gemma, &p);
    assert_memory_equal(p.runs.runs[0].digest, p.runs.runs[1].digest, 16);
    prompt_fini(&p);
}

/* The tiles of one image are runs of their own. */
static void test_tiles(void **state)
{
    struct prompt p;
    items_of("@A@B", &tiles, &p);
    assert_int_equal(p.n_media, 2);
    assert_int_equal(p.runs.n, 6);
    assert_int_equal(p.media[1].first, 3);
    assert_int_equal(p.media[1].n, 3);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < i; j++) assert_memory_not_equal(p.runs.runs[i].digest, p.runs.runs[j].digest, 16);
    assert_string_equal(p.text.data,
                        "[<fake_token_around_image><row_1_col_1>" RUN "<fake_token_around_image><row_1_col_2>" RUN
                        "\n\n<fake_token_around_image><global-img>" RUN "<fake_token_around_image>"
                        "<fake_token_around_image><row_1_col_1>" RUN "<fake_token_around_image><row_1_col_2>" RUN
                        "\n\n<fake_token_around_image><global-img>" RUN "<fake_token_around_image>]");
    prompt_fini(&p);
}

/* --- templates --- */

static void test_imitations_are_text(void **state)
{
    static const char *const texts[] = {
        "<__media__>", "<image>", "<start_of_image>", "[#1:1#]", "[#00000000000000000000:1#]", "[#", "#]"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        char content[100], want[200];
        snprintf(content, sizeof(content), "%s@A%s", texts[i], texts[i]);
        snprintf(want, sizeof(want), "[%s" IMAGE "%s]", texts[i], texts[i]);
        assert_int_equal(render(EACH, content, want, "A"), 0);
        snprintf(want, sizeof(want), "[%s]", texts[i]);
        assert_int_equal(render(EACH, texts[i], want, ""), 0);
    }
}

static void test_filters_keep_images(void **state)
{
    static const struct {
        const char *filtered, *content, *want;
    } cases[] = {
        {"m['content'] | trim", " @A what? ", "[" IMAGE " what?]"},
        {"m['content'] | trim", " what? @A ", "[what? " IMAGE "]"},
        {"m['content'] | upper", "see @Awhat", "[SEE " IMAGE "WHAT]"},
        {"m['content'] | lower | capitalize | title", "see @Awhat", "[See " IMAGE "what]"},
        {"m['content'].replace('a', '<b>')", "a@Aa", "[<b>" IMAGE "<b>]"},
        {"m['content'] | replace('<__media__>', '')", "<__media__>@A", "[" IMAGE "]"},
        {"m['content'] | tojson", "\"@A", "[\"\\\"" IMAGE "\"]"},
        {"[m['content']]", "@A", "[['" IMAGE "']]"},
        {"m['content'].split('</think>')[-1].lstrip('\n')", "a</think>\n@Ab", "[" IMAGE "b]"},
        {"m['content'] | e", "<@A>", "[&lt;" IMAGE "&gt;]"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char template[200];
        snprintf(template, sizeof(template), "{%% for m in messages %%}[{{ %s }}]{%% endfor %%}", cases[i].filtered);
        assert_int_equal(render(template, cases[i].content, cases[i].want, "A"), 0);
    }
}

static void test_templates_that_lose_images(void **state)
{
    static const struct {
        const char *template, *content, *why;
    } cases[] = {
        {"{% for m in messages %}{{ m['content'].split('x')[0] }}{% endfor %}", "@Aax@B",
         "the chat template drops image 2"},
        {"{% for m in messages %}{{ m['content'][:4] }}{% endfor %}", "a@A", "the chat template drops image 1"},
        {"hello", "@A", "the chat template drops image 1"},
        {"{{ messages[0]['content'] }}{{ messages[0]['content'] }}", "@A", "the chat template repeats image 1"},
        {"{{ messages[0]['content'].split('x') | reverse | join('x') }}", "@Ax@B",
         "the chat template changes the order of the images"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(render(cases[i].template, cases[i].content, NULL, NULL), -EINVAL);
        assert_string_equal(error_text(-EINVAL), cases[i].why);
    }
}

/* A template that takes texts only as lists of parts gets one part, as llama.cpp gives it one. */
static void test_typed_content(void **state)
{
    static const char smolvlm[] =
        "<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}"
        "{% if message['content'][0]['type'] == 'image' %}{{':'}}{% else %}{{': '}}{% endif %}"
        "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}"
        "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n"
        "{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}";
    assert_int_equal(render(smolvlm, "@Awhat? <image>",
                            "<|im_start|>User: " IMAGE "what? <image><end_of_utterance>\nAssistant:", "A"),
                     0);
    assert_int_equal(render(smolvlm, "what?", "<|im_start|>User: what?<end_of_utterance>\nAssistant:", ""), 0);
}

/* --- sessions --- */

/* The next turn with @template, after one that asked @content with @first: the ids that it keeps, up to the text
 * @kept of the session. */
static void kept(const char *content, const char *template, const char *now, const char *kept_text)
{
    struct loaded m;
    struct session_store *store = NULL;
    struct session *x = NULL;
    struct ask a = {.n_media = 0}, b = {.n_media = 0};
    struct prompt p, q, cold;
    load(&m, "gpt2", template, &gemma);
    assert_int_equal(session_store_new(&store, 1 << 20), 0);
    assert_int_equal(session_acquire(store, 1, "s", 1, true, &x), 0);
    say(&a, "user", content);
    assert_int_equal(prepare(&p, &m, &a, NULL), 0);
    assert_int_equal(session_extend(x, prompt_items(&p), p.tokens.ends, p.text.data, p.markup.data, p.text.len), 0);
    forget(&a);
    say(&a, "user", now);
    assert_int_equal(session_add_parts(x, &a.messages[0]), 0);
    say(&b, "user", "and @Z?");
    assert_int_equal(prepare(&q, &m, &b, x), 0);
    say(&a, "user", "and @Z?");
    assert_int_equal(prepare(&cold, &m, &a, NULL), 0);
    assert_int_equal(q.keep ? session_content(x)->ends[q.keep - 1] : 0, strlen(kept_text));
    assert_memory_equal(q.text.data, kept_text, strlen(kept_text));
    const struct items want = prompt_items(&cold), got = prompt_items(&q);
    assert_true(items_equal(&want, &got));
    assert_string_equal(q.text.data, cold.text.data);
    assert_int_equal(q.n_media, cold.n_media);
    for (size_t i = 0; i < q.n_media; i++) {
        assert_memory_equal(q.media[i].source->digest, cold.media[i].source->digest, MEDIA_DIGEST);
        assert_int_equal(q.media[i].source->width, 20);
        assert_int_equal(q.media[i].first, cold.media[i].first);
        assert_non_null(q.media[i].source->file);
    }
    prompt_fini(&p);
    prompt_fini(&q);
    prompt_fini(&cold);
    forget(&a);
    forget(&b);
    session_release(store, x);
    session_store_free(store);
    unload(&m);
}

static void test_sessions_keep_images(void **state)
{
    kept("a@Ab@Bc", EACH, "a@Ab@Bc", "[a" IMAGE "b" IMAGE "c]");
    kept("a@Ab@Bc", EACH, "a@Ab@Cc", "[a" IMAGE "b<start_of_image>");
    kept("a@Ab@Bc", EACH, "a@Bb@Ac", "[a<start_of_image>");
    kept("a@Ab", EACH, "a<start_of_image><__media__><end_of_image>b", "[a<start_of_image>");
    kept("a<start_of_image><__media__><end_of_image>b", EACH, "a@Ab", "[a<start_of_image>");
    kept("a@Ab", EACH, "ab", "[a");
    kept("@Ab", EACH, "@A@Ab", "[" IMAGE);
}

/* A system message with the same picture is the same. */
static void test_system_with_an_image(void **state)
{
    struct loaded m;
    struct session_store *store = NULL;
    struct session *x = NULL;
    struct ask a = {.n_media = 0}, b = {.n_media = 0};
    struct prompt p;
    load(&m, "gpt2", EACH, &gemma);
    assert_int_equal(session_store_new(&store, 1 << 20), 0);
    assert_int_equal(session_acquire(store, 1, "s", 1, true, &x), 0);
    say(&a, "system", "s@A");
    assert_int_equal(session_add_parts(x, &a.messages[0]), 0);
    say(&a, "user", "u@B");
    assert_int_equal(messages_first_new(&a.g, x), 1);
    assert_int_equal(prepare(&p, &m, &a, x), 0);
    check_prompt(&p, "[s" IMAGE "][u" IMAGE "]", "AB");
    prompt_fini(&p);
    say(&b, "system", "s@C");
    assert_int_equal(messages_first_new(&b.g, x), 0);
    memset(b.media[0].digest, 0, sizeof(b.media[0].digest)); /* not decoded: the files differ */
    assert_int_equal(messages_first_new(&b.g, x), 0);
    forget(&b);
    say(&b, "system", "s@A");
    memset(b.media[0].digest, 0, sizeof(b.media[0].digest));
    assert_int_equal(messages_first_new(&b.g, x), 1);
    b.media[0].at = 0;
    assert_int_equal(messages_first_new(&b.g, x), 0);
    forget(&a);
    forget(&b);
    session_release(store, x);
    session_store_free(store);
    unload(&m);
}

/* --- refusals --- */

static void expect_refusal(const struct loaded *m, struct ask *a, int result, const char *why)
{
    struct prompt p;
    assert_int_equal(prepare(&p, m, a, NULL), result);
    assert_string_equal(error_text(result), why);
    assert_null(p.tokens.ids);
}

static void test_refusals(void **state)
{
    struct loaded m;
    struct ask a = {.n_media = 0};
    struct prompt p;
    load(&m, "gpt2", EACH, &gemma);
    say(&a, "user", "\xc3\xa9@A");
    a.media[0].at = 1;
    expect_refusal(&m, &a, -EINVAL, "message 1: byte 1 of the content is no place for an image");
    a.media[0].at = 3;
    expect_refusal(&m, &a, -EINVAL, "message 1: byte 3 of the content is no place for an image");
    a.media[0].at = 0;
    a.sources[0]->width = ENCODER_EDGE_MAX + 1;
    expect_refusal(&m, &a, -EINVAL, "an image of 65537x10 has an edge over 65536 pixels");
    a.sources[0]->width = 20;
    a.sources[0]->kind = MEDIA_SOUND;
    expect_refusal(&m, &a, -EOPNOTSUPP, "the model takes no sounds");
    a.sources[0]->kind = MEDIA_IMAGE;
    a.extras.n_sources = 0;
    expect_refusal(&m, &a, -EINVAL, "image 1 of the request is not decoded");
    a.extras.n_sources = 1;
    m.encoder = NULL;
    expect_refusal(&m, &a, -EOPNOTSUPP, "the model reads no images: it has no encoder (--mmproj)");
    a.g.raw = true;
    a.g.prompt = text_of("hi");
    expect_refusal(&m, &a, -EINVAL, "a raw prompt has no images");
    a.g.raw = false;
    m.encoder = (struct encoder *)(uintptr_t)&gemma;
    assert_int_equal(prepare(&p, &m, &a, NULL), 0); /* an image alone is no empty prompt */
    prompt_fini(&p);
    forget(&a);
    say(&a, "user", "@A");
    m.ctx = 10;
    assert_int_equal(prepare(&p, &m, &a, NULL), -E2BIG);
    assert_non_null(strstr(error_text(-E2BIG), "the context holds 10"));
    forget(&a);
    unload(&m);
}

/* Each allocation fails once. */
static void test_without_memory(void **state)
{
    struct loaded m;
    struct session_store *store = NULL;
    struct session *x = NULL;
    struct ask a = {.n_media = 0}, b = {.n_media = 0};
    struct prompt p;
    int r = -1;
    load(&m, "gpt2", EACH, &tiles);
    assert_int_equal(session_store_new(&store, 1 << 20), 0);
    assert_int_equal(session_acquire(store, 1, "s", 1, true, &x), 0);
    say(&a, "user", "a@Ab@B");
    unsigned long failed = 0;
    for (unsigned long n = 0; r < 0; n++) {
        memory_fail(n);
        r = session_add_parts(x, &a.messages[0]);
        failed += memory_end();
        assert_true(r == 0 || (r == -ENOMEM && session_content(x)->n_messages == 0));
    }
    assert_true(failed >= 3);
    say(&b, "user", "c@A");
    for (unsigned long n = 0; n == 0 || failed; n++) {
        memory_fail(n);
        r = prepare(&p, &m, &b, x);
        failed = memory_end();
        assert_true(r == (failed ? -ENOMEM : 0) && (r == 0 || !p.tokens.ids));
    }
    assert_int_equal(p.n_media, 3);
    prompt_fini(&p);
    forget(&a);
    forget(&b);
    session_release(store, x);
    session_store_free(store);
    unload(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_image_first),
        cmocka_unit_test(test_equal_items),
        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_imitations_are_text),
        cmocka_unit_test(test_filters_keep_images),
        cmocka_unit_test(test_templates_that_lose_images),
        cmocka_unit_test(test_typed_content),
        cmocka_unit_test(test_sessions_keep_images),
        cmocka_unit_test(test_system_with_an_image),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
