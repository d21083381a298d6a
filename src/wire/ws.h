/* ws: RFC 6455 frames, both directions, both sides.
 *
 * Decoder: ws_next takes the bytes that have arrived and gives the next frame; the payload is unmasked in place and is a slice
 * of these bytes. ws_next checks every frame on its own and against the message under way (fragments, control frames between them),
 * but joins nothing: the caller appends data payloads until `message_end`. Any split of the input is accepted. A big frame is
 * given in pieces as its bytes arrive, so that the caller decides where they are stored.
 *
 *     +-+-+-+-+-------+-+-------------+-------------------------------+
 *     |F|R|R|R| opcode|M| length (7)  |  16 or 64 bits more length    |
 *     |I|S|S|S|  (4)  |A|             |  then 4 bytes of key if M     |
 *     +-+-+-+-+-------+-+-------------+-------------------------------+
 */
#pragma once

#include "base/buf.h"
#include "base/slice.h"

#include <sys/types.h>

enum ws_opcode { WS_CONTINUATION = 0, WS_TEXT = 1, WS_BINARY = 2, WS_CLOSE = 8, WS_PING = 9, WS_PONG = 10 };

enum ws_close {
        WS_CLOSE_NORMAL = 1000,
        WS_CLOSE_GOING_AWAY = 1001,
        WS_CLOSE_PROTOCOL = 1002,
        WS_CLOSE_NO_STATUS = 1005,
        WS_CLOSE_BAD_DATA = 1007,
        WS_CLOSE_POLICY = 1008,
        WS_CLOSE_TOO_BIG = 1009,
        WS_CLOSE_TRY_LATER = 1013,
        WS_CLOSE_TAKEN_OVER = 4001,
};

struct ws_decoder {
        bool expects_mask;    /* true on the server: clients must mask, servers must not */
        uint64_t max_message; /* bytes of one message, all fragments together */
        /* The members below are the state of decoding. */
        bool in_frame; /* the head of a data frame was read, and `left` bytes of its payload are still to come */
        bool in_message; /* a fragmented message is under way */
        bool is_text;    /* the message under way is text */
        bool is_final;   /* the frame under way is the last of its message */
        uint8_t key[4];
        unsigned key_at; /* which byte of the key masks the next byte */
        uint64_t left;
        uint64_t message_bytes; /* of the message under way, as far as heads of frames have announced them */
        uint32_t utf8;          /* the state of the UTF-8 check in the text message under way (base/utf8.h) */
};

enum ws_event {
        WS_MORE,    /* the next event needs further bytes */
        WS_DATA,    /* a piece of a data message */
        WS_CONTROL, /* a whole control frame */
        WS_FAIL,    /* the connection must be closed with close_code */
};

struct ws_piece {
        /* WS_DATA: WS_TEXT or WS_BINARY, of the message; WS_CONTROL: the control opcode. */
        enum ws_opcode opcode;
        struct slice payload; /* unmasked, in the caller's bytes */
        bool message_start;   /* WS_DATA: first piece of a message */
        bool message_end;     /* WS_DATA: last piece of a message */
        uint64_t frame_left;  /* WS_DATA: bytes of this frame still to come after this piece */
        bool is_fragmented;   /* WS_DATA: more frames belong to this message */
        int close_code; /* WS_FAIL: what to close with. A received WS_CLOSE: its code, 1005 when it has none */
};

void ws_decoder_init(struct ws_decoder *d, bool expects_mask, uint64_t max_message);

/* Looks at in[0 … n), and consumes *ret_used bytes. Text is checked for UTF-8 on the way (bad: WS_FAIL 1007, also a
 * character cut by the end of the message); a message beyond max_message is WS_FAIL 1009 as soon as a head announces
 * it; everything that RFC 6455 forbids is WS_FAIL 1002 (reserved bits, opcodes, unmasked, fragmented or long control
 * frames, continuation without start, new message inside one, non-minimal or 63-bit lengths, close with a bad code or
 * one-byte payload; a close reason that is not UTF-8 is 1007). */
NODISCARD enum ws_event ws_next(struct ws_decoder *d, char *in, size_t n, size_t *ret_used,
                                struct ws_piece *ret);

/* Writes a frame head (unmasked: a server's) for `len` bytes; returns its size, 2, 4 or 10. */
#define WS_HEAD_MAX 10
size_t ws_head_write(char out[WS_HEAD_MAX], enum ws_opcode opcode, bool fin, uint64_t len);
size_t ws_head_size(uint64_t len);

/* For clients and tests: writes a head with a mask. ws_mask applies the key to the payload; *key_at is which byte of the key comes
 * next, 0 at first. */
size_t ws_head_write_masked(char out[WS_HEAD_MAX + 4], enum ws_opcode opcode, bool fin, uint64_t len,
                            const uint8_t key[4]);
void ws_mask(char *p, size_t n, const uint8_t key[4], unsigned *key_at);

/* Writes the Sec-WebSocket-Accept for a key: 28 characters and a NUL. */
void ws_accept(struct slice key, char ret[29]);
