/* SPDX-License-Identifier: MIT */
#include "daemon/text/tokenizer/pretokenize.h"
#include "libcommon/buf.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define PASSES_MAX 6
#define NAMES_MAX  20

/* Unicode's White_Space as a list, because PCRE2's \s also has U+180E. */
#define WS "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

/*
 * Letters, marks, numbers, punctuation and symbols, for use in brackets. Ids must not depend on the Unicode version of
 * the installed PCRE2. So the characters that versions 15.0 and 15.1 added to 14.0 are listed here (UnicodeData.txt).
 */
#define L                                                                                                              \
    "\\p{L}\\x{1123f}\\x{11240}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}\\x{1342f}\\x{13441}-\\x{13446}"    \
    "\\x{1b132}\\x{1b155}\\x{1df25}-\\x{1df2a}\\x{1e030}-\\x{1e06d}\\x{1e4d0}-\\x{1e4eb}\\x{2b739}\\x{2ebf0}-\\x{"     \
    "2ee5d}"                                                                                                           \
    "\\x{31350}-\\x{323af}"
#define M                                                                                                              \
    "\\p{M}\\x{cf3}\\x{ece}\\x{10efd}-\\x{10eff}\\x{11241}\\x{11f00}\\x{11f01}\\x{11f03}\\x{11f34}-\\x{11f3a}\\x{"     \
    "11f3e}-\\x{11f42}"                                                                                                \
    "\\x{13440}\\x{13447}-\\x{13455}\\x{1e08f}\\x{1e4ec}-\\x{1e4ef}"
#define N "\\p{N}\\x{11f50}-\\x{11f59}\\x{1d2c0}-\\x{1d2d3}\\x{1e4f0}-\\x{1e4f9}"
#define P "\\p{P}\\x{11b00}-\\x{11b09}\\x{11f43}-\\x{11f4f}"
#define S                                                                                                              \
    "\\p{S}\\x{2ffc}-\\x{2fff}\\x{31ef}\\x{1f6dc}\\x{1f774}-\\x{1f776}\\x{1f77b}-\\x{1f77f}\\x{1f7d9}\\x{1fa75}-\\x{"  \
    "1fa77}"                                                                                                           \
    "\\x{1fa87}\\x{1fa88}\\x{1faad}-\\x{1faaf}\\x{1fabb}-\\x{1fabd}\\x{1fabf}\\x{1face}\\x{1facf}\\x{1fada}\\x{1fadb}" \
    "\\x{1fae8}\\x{1faf7}\\x{1faf8}"

/*
 * Quantifiers are possessive where backtracking cannot help, so that a run of a megabyte costs none. The last
 * alternatives leave the last white space of a run to the next word.
 */
#define SPACES          "[" WS "]+(?![^" WS "])|[" WS "]++"
#define DIGIT           "[" N "]"
#define DIGITS3         "[" N "]{1,3}+"
#define GPT2            "'(?:[stmd]|re|ve|ll)| ?[" L "]++| ?[" N "]++| ?[^" WS L N "]++|" SPACES
#define ANY_CASE_SUFFIX "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
#define LINE_ENDS       "[" WS "]*[\\r\\n]+"
#define WORDS(LETTERS, DIGITS, OTHER, BLANKS)                                                                          \
    "[^\\r\\n" L N "]?" LETTERS "|" DIGITS "| ?" OTHER "|" LINE_ENDS "|" BLANKS
#define CONTRACTED(LETTERS, DIGITS, OTHER) ANY_CASE_SUFFIX "|" WORDS("[" LETTERS "]++", DIGITS, OTHER, SPACES)
#define OTHER                              "[^" WS L N "]++"
#define LLAMA3(DIGITS)                     CONTRACTED(L, DIGITS, OTHER "[\\r\\n]*+")
#define QWEN35                             CONTRACTED(L M, DIGIT, "[^" WS L M N "]++[\\r\\n]*+")
#define SEED                               CONTRACTED(L, DIGIT, "[^\\r\\n" WS L N "]++")
/* Words joined by single spaces are one piece. */
#define EXAONE_MOE                                                                                                     \
    ANY_CASE_SUFFIX "|" WORDS("[" L "][" M "]*+(?: ?[" L "][" M "]*+)*+", DIGIT, OTHER "[\\r\\n\\/]?", SPACES)
/* Letters and marks of any case, with a contraction behind them. */
#define MARKED(DIGITS) WORDS("[" L M "]++(?:" ANY_CASE_SUFFIX ")?+", DIGITS, OTHER "[\\r\\n\\/]*+", SPACES)
/* Runs of spaces are cut into these powers of two. */
#define POWER(COUNT) "[" WS "]{" COUNT "}(?![^" WS "])|"
#define JAIS2                                                                                                          \
    ANY_CASE_SUFFIX "|" WORDS("[" L "]++", DIGITS3, OTHER "[\\r\\n]*+",                                                \
                              POWER("512") POWER("256") POWER("128") POWER("64") POWER("32") POWER("16") POWER("8")    \
                                  POWER("4") POWER("1,2") "[" WS "]")
#define PUNCTUATED        "[!-\\/:-@\\[-`{-~][A-Za-z]++|[^\\r\\n" L P S "]?[" L M "]++| ?[" P S "]++"
#define DEEPSEEK3         PUNCTUATED "[\\r\\n]*+|" LINE_ENDS "|" SPACES
#define SPARK             PUNCTUATED "|[\\r\\n]|" SPACES
#define CJK               "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}]++"
#define LINES             "[^\\n]++|\\n++"
#define PUNCTUATION(MORE) "[" P "$+<=>^~|" MORE "]++"
#define WESTERN           " ?[^()|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c}" WS "]++"
/* White space is left out, because llama.cpp replaces it before it matches this expression. */
#define EAST_ASIAN                                                                                                     \
    "[\\x{800}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}"                  \
    "\\x{2060}-\\x{2fff}\\x{3001}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]++"

/* Han characters as llama.cpp lists them for Kimi-K2, then all other letters. */
#define HAN                                                                                                            \
    "\\x{3400}-\\x{4dbf}\\x{4e00}-\\x{9fff}\\x{f900}-\\x{faff}\\x{20000}-\\x{2a6df}\\x{2a700}-\\x{2ebef}\\x{2f800}-"   \
    "\\x{2fa1f}"
#define KIMI_K2                                                                                                        \
    "[" HAN "]++|" WORDS("(?:(?![" HAN "])[" L "])++(?:" ANY_CASE_SUFFIX ")?+", DIGITS3, OTHER "[\\r\\n]*+", SPACES)

/*
 * Numbers in groups of three digits, counted from the end. The first match is the remainder (one look-ahead at the
 * start of the number finds its length) together with the text before it; then follow three digits at a time. \G: a
 * text without digits is not searched.
 */
#define LEAD(D)   "[" D "]{1,2}(?=(?:[" D "]{3})++(?![" D "]))"
#define THREES(D) "\\G[^" D "]*+(?:(?<![" D "])" LEAD(D) "|[" D "]{3}|[" D "]{1,2})"
/* Likewise, but with cuts only inside a number. The text before one of three, six, … digits ends at the number. The
 * text behind the last digits belongs to them. */
#define THREES_INSIDE                                                                                                  \
    "\\G(?:(?<![0-9])" LEAD("0-9") "|[0-9]{3}(?=[0-9])|[0-9]{0,3}+(?:[^0-9]++(?:[0-9]{1,2}+(?![0-9]))?+)*+(?:" LEAD(   \
        "0-9") ")?+)"

/* Asian scripts written without spaces, as AFMoE lists them. */
#define UNSPACED                                                                                                       \
    "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{8c48}-\\x{faff}\\x{3040}-\\x{30ff}\\x{ff65}-\\x{ff9f}\\x{2f00}-"       \
    "\\x{2fdf}\\x{e40}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}\\x{a9e0}-\\x{a9ff}"           \
    "\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]++"
/* Youtu's first expressions: Hangul, full-width and CJK punctuation, Bopomofo, Han with kana. */
#define YOUTU                                                                                                          \
    "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]++|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{2019}\\x{2014}"      \
    "\\x{ff1a}\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]++|[\\x{3105}-\\x{312f}]++|" CJK

/*
 * Words by case, as llama.cpp reads the models' expressions. A letter other than a-z can be a capital, a letter other
 * than A-Z can be small, and a word is capitals, then small letters. So letters beyond ASCII are both, which would need
 * backtracking. It is written out instead: a word ends behind its last a-z, or has no a-z.
 */
#define CAPITALS(C)                   "(?:(?![a-z])[" C "])*+"
#define SMALLS(C)                     "(?:(?![A-Z])[" C "])++"
#define BOTH(C)                       "(?:(?![A-Za-z])[" C "])++"
#define WORD(C)                       "(?:" CAPITALS(C) "(?=[a-z])" SMALLS(C) "|(?:[A-Z]*+" BOTH(C) ")++|[A-Z]++)"
#define BY_CASE(LETTERS, END, DIGITS) WORDS(WORD(LETTERS) END, DIGITS, OTHER "[\\r\\n\\/]*+", SPACES)

/* The letters that DeepSeek's first expression lists: the letters with case of Unicode 11. */
#define CASED                                                                                                          \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}-"           \
    "\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}"              \
    "\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"         \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}"         \
    "-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-"                 \
    "\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-"          \
    "\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-"         \
    "\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-"          \
    "\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}"           \
    "\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}"          \
    "\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-"         \
    "\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}"         \
    "\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-"                  \
    "\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"

/* One row for each pre-tokenizer: its names in tokenizer.ggml.pre (those that llama.cpp's src/llama-vocab.cpp reads and
 * its conversion writes), then its expressions. Each expression applies to the pieces and gaps that the previous one
 * made. */
static const struct rule {
    const char *names[NAMES_MAX];
    const char *passes[PASSES_MAX];
    bool ignore_merges, add_bos, plain;
} rules[] = {
    {{"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4", "gigachat", "a.x-4.0",
      "mellum", "modern-bert", "roberta-bpe", "jina-v1-en", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de",
      "jina-v2-code"},
     {GPT2},
     false,
     false},
    {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"},
     {DIGIT, GPT2},
     false,
     false},
    {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
     {LLAMA3(DIGITS3)},
     true,
     true},
    {{"dbrx", "smaug-bpe", "chatglm-bpe", "glm4", "glm5"}, {LLAMA3(DIGITS3)}, false, false},
    {{"jais-2"}, {JAIS2}, false, false},
    {{"minicpm5"}, {DIGITS3, LLAMA3(DIGIT "++")}, true, false},
    {{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2",
      "bailingmoe", "bailingmoe2", "llada-moe"},
     {LLAMA3(DIGIT)},
     false,
     false},
    {{"laguna"}, {LINES, LLAMA3(DIGIT)}, false, false},
    {{"ufakzeka"}, {WORDS("[" L "]++", DIGIT, OTHER "[\\r\\n]*+", SPACES)}, false, false},
    {{"qwen35"}, {QWEN35}, false, false},
    {{"seed-coder"}, {SEED}, false, false},
    {{"exaone-moe"}, {EXAONE_MOE}, false, false},
    {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}, {DIGITS3, CJK, DEEPSEEK3}, false, false},
    {{"spark2_5"}, {DIGITS3, CJK, SPARK, DIGIT}, false, false},
    {{"afmoe"}, {THREES(N), UNSPACED, DEEPSEEK3}, false, false},
    {{"deepseek-llm"},
     {"[\\r\\n]", "[" WS "]?[" CASED "]++",
      "[" WS "]?[!-\\/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3001}\\x{3002}]++",
      "(?<![" WS "])[" WS "]++\\z", EAST_ASIAN, DIGIT "++"},
     false,
     false},
    {{"deepseek-coder"}, {"[\\r\\n]", "[" WS "]?[" L "]++", "[" WS "]?[" P "]++", EAST_ASIAN, DIGIT}, false, false},
    {{"falcon"}, {PUNCTUATION("`"), GPT2, "[0-9][0-9][0-9]"}, false, false},
    {{"default"}, {PUNCTUATION(""), GPT2, DIGIT "++", "[0-9][0-9][0-9]"}, false, false},
    {{"chameleon"},
     {"<sentinel:[0-9]++>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", DIGIT, "[" P "!-\\/:-@\\[-`{-~]", GPT2},
     false,
     true},
    {{"superbpe"}, {DIGIT "++", THREES_INSIDE}, false, false},
    {{"poro-chat", "bloom", "gpt3-finnish"}, {WESTERN}, false, false},
    {{"viking"}, {WESTERN, DIGIT}, false, false},
    {{"kimi-k2"}, {KIMI_K2}, false, false},
    {{"youtu"}, {YOUTU, MARKED(DIGIT)}, true, false},
    {{"tiny_aya", "cohere2moe"}, {THREES(N), MARKED(DIGITS3)}, false, false},
    {{"tekken"}, {BY_CASE(L, "", DIGIT)}, true, true},
    {{"gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie"},
     {BY_CASE(L, "(?:" ANY_CASE_SUFFIX ")?+", DIGITS3)},
     false,
     false},
    {{"granite-embed-multi-97m"}, {BY_CASE(L M, "(?:" ANY_CASE_SUFFIX ")?+", DIGITS3)}, true, false},
    {{"gemma4", "granite-embed-multi-311m", "mmbert"}, {LINES}, false, true, true},
    {{"sarvam-moe"}, {LINES}, false, false, true},
};

struct pretokenizer {
    const struct rule *rule;
    pcre2_code *passes[PASSES_MAX];
    size_t n;
};

static int unsupported(const char *name, size_t len)
{
    _cleanup_(buf_fini) struct buf b = BUF_INIT;
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
        if (buf_printf(&b, "%s%s", b.len ? ", " : "", rules[i].names[0]) < 0) return error_origin(-ENOMEM);
    return error_say(-EOPNOTSUPP, "pre-tokenizer \"%.*s\" is not supported (supported: %s and their equivalents)",
                     (int)(len < 64 ? len : 64), name, b.data);
}

static const struct rule *rule_find(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
        for (size_t k = 0; k < NAMES_MAX && rules[i].names[k]; k++)
            if (strlen(rules[i].names[k]) == len && memcmp(rules[i].names[k], name, len) == 0) return &rules[i];
    return NULL;
}

DEFINE_CLEANUP(struct pretokenizer *, pretokenizer_free)

int pretokenizer_new(struct pretokenizer **out, const char *name, size_t len)
{
    const struct rule *rule = rule_find(name, len);
    if (!rule) return unsupported(name, len);

    _cleanup_(pretokenizer_freep) struct pretokenizer *p = calloc(1, sizeof(*p));
    if (!p) return error_origin(-ENOMEM);
    p->rule = rule;
    while (p->n < PASSES_MAX && rule->passes[p->n]) {
        int code;
        PCRE2_SIZE at;
        pcre2_code *re = pcre2_compile((PCRE2_SPTR)rule->passes[p->n], PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                                       &code, &at, NULL);
        assert(re || code == PCRE2_ERROR_HEAP_FAILED); /* the expressions are constants of this file */
        if (!re) return error_origin(-ENOMEM);
        p->passes[p->n++] = re;
        /* Where the system forbids a JIT (W^X), pcre2_match interprets. */
        pcre2_jit_compile(re, PCRE2_JIT_COMPLETE);
    }
    *out = steal(p);
    return 0;
}

struct pretokenizer *pretokenizer_free(struct pretokenizer *p)
{
    if (!p) return NULL;
    for (size_t i = 0; i < p->n; i++) pcre2_code_free(p->passes[i]);
    free(p);
    return NULL;
}

bool pretokenizer_ignores_merges(const struct pretokenizer *p)
{
    return p->rule->ignore_merges;
}

bool pretokenizer_add_bos(const struct pretokenizer *p)
{
    return p->rule->add_bos;
}

bool pretokenizer_plain(const struct pretokenizer *p)
{
    return p->rule->plain;
}

struct split {
    const struct pretokenizer *p;
    const char *s;
    pcre2_match_data *match[PASSES_MAX];
    pcre2_match_context *context;
    piece_fn fn;
    void *ctx;
};

static int match(const struct split *s, size_t pass, uint32_t begin, uint32_t end)
{
    const pcre2_code *re = s->p->passes[pass];
    PCRE2_SPTR subject = (PCRE2_SPTR)s->s;
    int r = pcre2_match(re, subject, end, begin, PCRE2_NO_UTF_CHECK, s->match[pass], s->context);
    if (r == PCRE2_ERROR_JIT_STACKLIMIT)
        r = pcre2_match(re, subject, end, begin, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s->match[pass], s->context);
    if (r >= 0 || r == PCRE2_ERROR_NOMATCH) return r;

    PCRE2_UCHAR why[128] = "";
    pcre2_get_error_message(r, why, sizeof(why));
    return error_say(-EIO, "pre-tokenizer: at byte %u: %s", begin, (const char *)why);
}

/* Passes the matches of this pass, and the gaps between them, to the next passes. */
static int split(const struct split *s, size_t pass, uint32_t begin, uint32_t end)
{
    if (pass == s->p->n) return begin < end ? s->fn(s->ctx, begin, end) : 0;
    while (begin < end) {
        int r = match(s, pass, begin, end);
        if (r == PCRE2_ERROR_NOMATCH) return split(s, pass + 1, begin, end);
        if (r < 0) return r;
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(s->match[pass]);
        uint32_t from = (uint32_t)at[0], to = (uint32_t)at[1];
        assert(from >= begin && from < to && to <= end); /* no expression here matches the empty text */
        if (begin < from) {
            r = split(s, pass + 1, begin, from);
            if (r < 0) return r;
        }
        r = split(s, pass + 1, from, to);
        if (r < 0) return r;
        begin = to;
    }
    return 0;
}

int pretokenizer_split(const struct pretokenizer *p, const char *s, uint32_t begin, uint32_t end, piece_fn fn,
                       void *ctx)
{
    struct split state = {.p = p, .s = s, .fn = fn, .ctx = ctx};
    int r = -ENOMEM;
    state.context = pcre2_match_context_create(NULL);
    if (!state.context) goto out;
    /* The interpreter counts every character of a backtrack: a run of spaces as long as the text must be allowed. */
    pcre2_set_match_limit(state.context, 10000000 + 8 * (end - begin < 1u << 28 ? end - begin : 1u << 28));
    for (size_t i = 0; i < p->n; i++) {
        state.match[i] = pcre2_match_data_create(1, NULL);
        if (!state.match[i]) goto out;
    }
    r = split(&state, 0, begin, end);
out:
    for (size_t i = 0; i < p->n; i++) pcre2_match_data_free(state.match[i]);
    pcre2_match_context_free(state.context);
    return r;
}
