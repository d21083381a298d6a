/* ws: RFC 6455 frames.
 *
 * The head of a frame is judged in the order of its bytes and recorded only when all of it is there, so that
 * the outcome does not depend on how the input was split. Control frames may stand between the frames of a
 * message but never inside a frame, so one set of frame fields in the decoder is enough: a control frame is
 * taken whole and leaves no trace.
 */
#include "wire/ws.h"

#include "base/base64.h"
#include "base/utf8.h"

#include <nettle/sha1.h>

#define CONTROL_MAX 125 /* bytes of the payload of a control frame: RFC 6455, 5.5 */

#define BIT_FIN 0x80u
#define BITS_RSV 0x70u
#define BITS_OPCODE 0x0fu
#define BIT_CONTROL 0x08u
#define BIT_MASK 0x80u
#define BITS_LENGTH 0x7fu
#define LENGTH_16 126u
#define LENGTH_64 127u

struct head {
        bool is_final;
        enum ws_opcode opcode;
        uint64_t len;
        uint8_t key[4];
        size_t size; /* bytes of the head itself */
};

void ws_decoder_init(struct ws_decoder *d, bool expects_mask, uint64_t max_message)
{
        *d = (struct ws_decoder){ .expects_mask = expects_mask, .max_message = max_message };
}

static uint64_t be_read(const char *p, size_t n)
{
        uint64_t v = 0;

        for (size_t i = 0; i < n; i++)
                v = v << 8 | (uint8_t)p[i];
        return v;
}

static void be_write(char *p, size_t n, uint64_t v)
{
        for (size_t i = n; i > 0; i--, v >>= 8)
                p[i - 1] = (char)(v & 0xff);
}

static enum ws_event fail(struct ws_piece *ret, int close_code)
{
        ret->close_code = close_code;
        return WS_FAIL;
}

static bool opcode_is_known(unsigned opcode)
{
        switch (opcode) {
        case WS_CONTINUATION:
        case WS_TEXT:
        case WS_BINARY:
        case WS_CLOSE:
        case WS_PING:
        case WS_PONG:
                return true;
        default:
                return false;
        }
}

/* Checks the first two bytes: whether flags and opcode fit the message under way, and whether the mask bit fits our side. */
static bool flags_are_valid(const struct ws_decoder *d, unsigned b0, unsigned b1)
{
        unsigned opcode = b0 & BITS_OPCODE;

        if ((b0 & BITS_RSV) || !opcode_is_known(opcode) || !!(b1 & BIT_MASK) != d->expects_mask)
                return false;
        if (opcode & BIT_CONTROL)
                return (b0 & BIT_FIN) && (b1 & BITS_LENGTH) <= CONTROL_MAX;
        return (opcode == WS_CONTINUATION) ==
               d->in_message; /* RFC 6455, 5.4: fragments follow a first frame */
}

/* RFC 6455, 5.2: the shortest of the three forms must be used, and the top bit of the longest must be 0. */
static bool length_is_valid(size_t bytes, uint64_t len)
{
        switch (bytes) {
        case 2:
                return len > CONTROL_MAX;
        case 8:
                return len > UINT16_MAX && len <= INT64_MAX;
        default:
                return true;
        }
}

/* Reads the head of a frame, and records nothing in the decoder. Returns WS_DATA or WS_CONTROL when the head is complete and valid,
 * else WS_MORE or WS_FAIL. */
static enum ws_event head_read(const struct ws_decoder *d, const char *in, size_t n, struct head *ret_head,
                               struct ws_piece *ret)
{
        if (n < 2)
                return WS_MORE;

        unsigned b0 = (uint8_t)in[0], b1 = (uint8_t)in[1], len7 = b1 & BITS_LENGTH;
        size_t len_bytes = len7 == LENGTH_16 ? 2 : len7 == LENGTH_64 ? 8 : 0;
        size_t key_bytes = d->expects_mask ? 4 : 0;

        if (!flags_are_valid(d, b0, b1))
                return fail(ret, WS_CLOSE_PROTOCOL);

        if (n < 2 + len_bytes)
                return WS_MORE;
        uint64_t len = len_bytes ? be_read(in + 2, len_bytes) : len7;
        if (!length_is_valid(len_bytes, len))
                return fail(ret, WS_CLOSE_PROTOCOL);

        /* Does not wait for the key: a message that is too big is refused as soon as its length is known. */
        bool is_control = b0 & BIT_CONTROL;
        uint64_t total;
        if (!is_control &&
            (ckd_add(&total, d->in_message ? d->message_bytes : 0, len) || total > d->max_message))
                return fail(ret, WS_CLOSE_TOO_BIG);

        if (n < 2 + len_bytes + key_bytes)
                return WS_MORE;
        *ret_head = (struct head){
                .is_final = b0 & BIT_FIN,
                .opcode = (enum ws_opcode)(b0 & BITS_OPCODE),
                .len = len,
                .size = 2 + len_bytes + key_bytes,
        };
        if (key_bytes)
                memcpy(ret_head->key, in + 2 + len_bytes, key_bytes);
        return is_control ? WS_CONTROL : WS_DATA;
}

/* Returns whether a close frame may hold the code: those of RFC 6455, 7.4, and those that IANA has registered since (1012-1014). */
static bool close_code_is_valid(unsigned code)
{
        return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
               (code >= 3000 && code <= 4999);
}

static enum ws_event close_check(struct ws_piece *ret)
{
        if (ret->payload.n == 0) {
                ret->close_code = WS_CLOSE_NO_STATUS;
                return WS_CONTROL;
        }
        if (ret->payload.n < 2)
                return fail(ret, WS_CLOSE_PROTOCOL);

        unsigned code = (unsigned)be_read(ret->payload.p, 2);
        if (!close_code_is_valid(code))
                return fail(ret, WS_CLOSE_PROTOCOL);
        if (!utf8_is_valid(slice_from(ret->payload.p + 2, ret->payload.n - 2)))
                return fail(ret, WS_CLOSE_BAD_DATA);
        ret->close_code = (int)code;
        return WS_CONTROL;
}

static enum ws_event control_take(const struct ws_decoder *d, const struct head *h, char *in, size_t n,
                                  size_t *ret_used, struct ws_piece *ret)
{
        size_t len = (size_t)h->len; /* at most CONTROL_MAX */
        unsigned key_at = 0;

        if (n - h->size < len)
                return WS_MORE;
        if (d->expects_mask)
                ws_mask(in + h->size, len, h->key, &key_at);
        *ret_used = h->size + len;
        ret->opcode = h->opcode;
        ret->payload = slice_from(in + h->size, len);
        return h->opcode == WS_CLOSE ? close_check(ret) : WS_CONTROL;
}

static void data_begin(struct ws_decoder *d, const struct head *h, struct ws_piece *ret)
{
        if (h->opcode != WS_CONTINUATION) {
                d->in_message = true;
                d->is_text = h->opcode == WS_TEXT;
                d->message_bytes = 0;
                d->utf8 = 0;
                ret->message_start = true;
        }
        d->in_frame = true;
        d->is_final = h->is_final;
        d->left = h->len;
        d->message_bytes += h->len;
        memcpy(d->key, h->key, sizeof(d->key));
        d->key_at = 0;
}

/* Returns the available bytes of the current frame. Right after a head there may be none: the caller still
 * learns frame_left, early enough to choose where to store the payload. */
static enum ws_event data_take(struct ws_decoder *d, char *in, size_t n, struct ws_piece *ret)
{
        if (n > d->left)
                n = (size_t)d->left;
        if (d->expects_mask)
                ws_mask(in, n, d->key, &d->key_at);
        d->left -= n;
        if (d->left == 0)
                d->in_frame = false;

        ret->opcode = d->is_text ? WS_TEXT : WS_BINARY;
        ret->payload = slice_from(in, n);
        ret->message_end = d->left == 0 && d->is_final;
        ret->frame_left = d->left;
        ret->is_fragmented = !d->is_final;

        if (d->is_text && !utf8_feed(&d->utf8, ret->payload))
                return fail(ret, WS_CLOSE_BAD_DATA);
        if (ret->message_end) {
                if (d->is_text && !utf8_is_complete(d->utf8))
                        return fail(ret, WS_CLOSE_BAD_DATA);
                d->in_message = false;
        }
        return WS_DATA;
}

enum ws_event ws_next(struct ws_decoder *d, char *in, size_t n, size_t *ret_used, struct ws_piece *ret)
{
        struct head h = { .size = 0 };

        *ret_used = 0;
        *ret = (struct ws_piece){ .payload = { in, 0 } };

        if (d->in_frame) {
                if (n == 0)
                        return WS_MORE;
        } else {
                enum ws_event event = head_read(d, in, n, &h, ret);
                if (event == WS_CONTROL)
                        return control_take(d, &h, in, n, ret_used, ret);
                if (event != WS_DATA)
                        return event;
                data_begin(d, &h, ret);
        }

        enum ws_event event = data_take(d, in + h.size, n - h.size, ret);
        *ret_used = h.size + ret->payload.n;
        return event;
}

size_t ws_head_size(uint64_t len)
{
        return len <= CONTROL_MAX ? 2 : len <= UINT16_MAX ? 4 : 10;
}

size_t ws_head_write(char out[WS_HEAD_MAX], enum ws_opcode opcode, bool fin, uint64_t len)
{
        size_t size = ws_head_size(len);

        out[0] = (char)((fin ? BIT_FIN : 0) | (unsigned)opcode);
        out[1] = (char)(size == 2 ? len : size == 4 ? LENGTH_16 : LENGTH_64);
        be_write(out + 2, size - 2, len);
        return size;
}

size_t ws_head_write_masked(char out[WS_HEAD_MAX + 4], enum ws_opcode opcode, bool fin, uint64_t len,
                            const uint8_t key[4])
{
        size_t size = ws_head_write(out, opcode, fin, len);

        out[1] = (char)((uint8_t)out[1] | BIT_MASK);
        memcpy(out + size, key, 4);
        return size + 4;
}

void ws_mask(char *p, size_t n, const uint8_t key[4], unsigned *key_at)
{
        uint8_t rotated[8];
        uint64_t word_key;
        size_t i = 0;

        for (unsigned k = 0; k < sizeof(rotated); k++)
                rotated[k] = key[(*key_at + k) & 3];
        memcpy(&word_key, rotated, sizeof(word_key));

        /* memcpy makes loads and stores at any address possible, which compilers turn into single instructions. */
        for (; n - i >= sizeof(word_key); i += sizeof(word_key)) {
                uint64_t word;
                memcpy(&word, p + i, sizeof(word));
                word ^= word_key;
                memcpy(p + i, &word, sizeof(word));
        }
        for (; i < n; i++)
                p[i] = (char)((uint8_t)p[i] ^ rotated[i & 7]);
        *key_at = (*key_at + (unsigned)(n & 3)) & 3;
}

void ws_accept(struct slice key, char ret[29])
{
        static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; /* RFC 6455, 1.3 */
        struct sha1_ctx sha;
        uint8_t digest[SHA1_DIGEST_SIZE];

        sha1_init(&sha);
        sha1_update(&sha, key.n, (const uint8_t *)key.p);
        sha1_update(&sha, sizeof(guid) - 1, (const uint8_t *)guid);
        sha1_digest(&sha, sizeof(digest), digest);
        ret[base64_encode(ret, digest, sizeof(digest))] = '\0';
}
