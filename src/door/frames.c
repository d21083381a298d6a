/* frames: turns the frames of a client into lines, and lines into frames. */
#include "door/frames.h"

#include "base/limits.h"

#include <errno.h>

void frames_init(struct frames *f, struct duct *back)
{
        *f = (struct frames){ .back = back, .rest = BUF_INIT(2 * DUCT_READ_BYTES) };
        ws_decoder_init(&f->decoder, true, LIMIT_MESSAGE_BYTES);
}

void frames_release(struct frames *f)
{
        buf_release(&f->rest);
}

static int frame_write(struct buf *out, enum ws_opcode opcode, bool fin, struct slice payload)
{
        char head[WS_HEAD_MAX];
        size_t n = ws_head_write(head, opcode, fin, payload.n);
        int r = buf_append(out, slice_from(head, n));
        return r == 0 ? buf_append(out, payload) : r;
}

/* Sends a control frame to the client. It cannot land inside of another frame, because frames_from_lines appends whole frames. */
static int answer(struct frames *f, enum ws_opcode opcode, struct slice payload)
{
        char frame[WS_HEAD_MAX + 125];
        size_t n = ws_head_write(frame, opcode, true, payload.n);
        if (f->is_closed || duct_waiting(f->back) >= DUCT_BYTES) /* the client does not read */
                return 0;
        if (payload.n > 0)
                memcpy(frame + n, payload.p, payload.n);
        return duct_put(f->back, slice_from(frame, n + payload.n));
}

static int close_with(struct frames *f, int code)
{
        const char payload[2] = { (char)(code >> 8), (char)code };
        int r = answer(f, WS_CLOSE,
                       code == WS_CLOSE_NO_STATUS ? S("") : slice_from(payload, sizeof(payload)));
        f->is_closed = true;
        return r < 0 ? r : -ECONNRESET;
}

static int data_write(struct buf *out, const struct ws_piece *piece)
{
        char *p;
        int r = buf_reserve(out, piece->payload.n + 1, &p);
        if (r < 0)
                return r;
        for (size_t i = 0; i < piece->payload.n; i++)
                p[i] = piece->payload.p[i] == '\n' || piece->payload.p[i] == '\r' ? ' ' : piece->payload.p[i];
        if (piece->message_end)
                p[piece->payload.n] = '\n';
        buf_commit(out, piece->payload.n + piece->message_end);
        return 0;
}

int frames_to_lines(void *arg, char *bytes, size_t n, struct buf *out)
{
        struct frames *f = arg;
        size_t at = 0;
        int r = buf_append(&f->rest, slice_from(bytes, n));
        while (r == 0) {
                struct ws_piece piece;
                size_t used = 0;
                enum ws_event event = ws_next(&f->decoder, f->rest.p + at, f->rest.n - at, &used, &piece);
                at += used;
                if (event == WS_MORE)
                        break;
                if (event == WS_FAIL)
                        return close_with(f, piece.close_code);
                if (event == WS_DATA)
                        r = data_write(out, &piece);
                else if (piece.opcode == WS_PING)
                        r = answer(f, WS_PONG, piece.payload);
                else if (piece.opcode == WS_CLOSE)
                        return close_with(f, piece.close_code);
        }
        buf_consume(&f->rest, at);
        return r;
}

static bool is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

int frames_from_lines(void *arg, char *bytes, size_t n, struct buf *out)
{
        struct frames *f = arg;
        int r = f->is_closed ? -ECONNRESET : 0;
        for (size_t at = 0; r == 0 && at < n;) {
                if (!f->in_message && is_blank(bytes[at])) { /* a line has ended here, or is blank */
                        at++;
                        continue;
                }
                const char *end = memchr(bytes + at, '\n', n - at);
                size_t length = end ? (size_t)(end - (bytes + at)) : n - at;
                r = frame_write(out, f->in_message ? WS_CONTINUATION : WS_TEXT, end != NULL,
                                slice_from(bytes + at, length));
                f->in_message = !end;
                at += length + (end != NULL);
        }
        return r;
}
