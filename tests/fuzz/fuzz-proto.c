/* SPDX-License-Identifier: MIT */
/* Messages of the protocol: a request that is read can be written, and its files and texts are the same then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "libcommon/error.h"
#include "libcommon/proto.h"
#include "tests/fuzz/fuzz.h"
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* The first byte: "r" of a request, "e" of an event. */
const char *const fuzz_seeds[] = {
    "hex:7284a474797065a867656e6572617465a2696401a366647302a86d657373616765739182a4726f6c65a475736572a7636f6e7465"
    "6e749582a474797065a5696d616765a266640182a474797065a474657874a474657874a16182a474797065a5617564696fa464617461"
    "c4045249464682a474797065a5696d616765a266640082a474797065a474657874a474657874a162",
    "hex:7287a474797065a47761726da2696402a86d657373616765739382a4726f6c65a475736572a7636f6e74656e74a17884a4726f6c"
    "65a9617373697374616e74a7636f6e74656e74a0a87468696e6b696e67a174aa746f6f6c5f63616c6c739183a26964a163a46e616d65"
    "a166a9617267756d656e7473a27b7d83a4726f6c65a4746f6f6ca7636f6e74656e749182a474797065a5696d616765a464617461c402"
    "ffd8ac746f6f6c5f63616c6c5f6964a163a5746f6f6c73a25b5dab74656d7065726174757265cb3fe0000000000000a473746f7091a1"
    "78a47365656403",
    "hex:7288a474797065a867656e6572617465a2696403a3726177c3a670726f6d7074c40170a773657373696f6ea173a46e6f7465a16e"
    "aa6c6f6769745f62696173929205cb3ff800000000000092a178ffaa636f6e73747261696e7482a474797065a663686f696365a76368"
    "6f6963657392a161a162",
    "hex:6586a56576656e74a4646f6e65a2696401a6726561736f6ea473746f70a5757361676585a670726f6d707409a663616368656401"
    "aa636f6d706c6574696f6e02ad6d656469615f656e636f64656401ac6d656469615f63616368656401a56d656469619283a46b696e64"
    "a5696d616765a6746f6b656e7305a6636163686564c383a46b696e64a5617564696fa6746f6b656e7306a9656e636f64655f6d73cb3f"
    "f8000000000000a47365656403",
    "hex:6588a56576656e74a474657874a2696401a5696e64657800a76368616e6e656ca6616e73776572a474657874a174a36964739201"
    "02a86c6f6770726f627392cbbfe0000000000000cbbff0000000000000a3746f70919301cbbfe0000000000000c40174",
    NULL,
};

/* Files in place of the descriptors that come with a message. */
static void attach(struct proto_request *r)
{
    struct blob *files[PROTO_MEDIA_MAX];
    FUZZ_CHECK(r->n_fds <= PROTO_MEDIA_MAX);
    for (uint32_t i = 0; i < r->n_fds; i++) FUZZ_CHECK(blob_new(&files[i], &i, sizeof(i)) == 0);
    proto_set_files(r, files);
    for (uint32_t i = 0; i < r->n_fds; i++) blob_unref(files[i]);
}

static void check_media(const struct proto_request *a, const struct proto_request *b)
{
    FUZZ_CHECK(a->gen.n_messages == b->gen.n_messages);
    for (size_t i = 0; i < a->gen.n_messages; i++) {
        const struct proto_message *x = &a->gen.messages[i], *y = &b->gen.messages[i];
        FUZZ_CHECK(x->n_media == y->n_media && x->content.len == y->content.len);
        for (size_t k = 0; k < x->n_media; k++) {
            const struct proto_media *p = &x->media[k], *q = &y->media[k];
            FUZZ_CHECK(p->kind == q->kind && p->at == q->at && blob_size(p->file) == blob_size(q->file));
            FUZZ_CHECK(memcmp(blob_data(p->file), blob_data(q->file), blob_size(p->file)) == 0);
        }
    }
}

static void request(const char *body, size_t n)
{
    struct proto_request a, b;
    struct buf out = BUF_INIT;
    int r = proto_read_request(&a, body, n);
    if (r == -EPROTO) return; /* a hello of another version */
    if (r < 0) {
        fuzz_refused(r);
        return;
    }
    attach(&a);
    if (a.type != PROTO_HELLO && proto_write_request(&out, &a) == 0) {
        FUZZ_CHECK(proto_read_request(&b, out.data + 4, out.len - 4) == 0);
        FUZZ_CHECK(b.type == a.type && b.id == a.id && b.n_fds == 0);
        check_media(&a, &b);
        proto_request_fini(&b);
    }
    buf_fini(&out);
    proto_request_fini(&a);
}

static void event(const char *body, size_t n)
{
    struct proto_event a;
    int r = proto_read_event(&a, body, n);
    if (r == -EPROTO) return;
    if (r < 0) {
        fuzz_refused(r);
        return;
    }
    FUZZ_CHECK(proto_media_encoded(&a) <= a.n_media && a.n_media <= PROTO_MEDIA_MAX);
    proto_event_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    if (data[0] == 'e')
        event((const char *)data + 1, size - 1);
    else
        request((const char *)data + 1, size - 1);
    return 0;
}
