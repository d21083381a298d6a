/* base64: encodes and decodes base64, with AVX2 where the CPU has it.
 *
 * The vector code handles whole blocks in the middle of the data. The table-driven code handles the end, with its
 * padding and exact sizes, and finds the position of an error; the vector loops only notice that a block has an error.
 * The arithmetic follows Muła and Lemire, "Faster Base64 Encoding and Decoding Using AVX2 Instructions" (2018).
 */
#include "base/base64.h"

#if defined(__x86_64__) && !defined(BASE64_PLAIN)
#include <immintrin.h>
#include <stdatomic.h>
#define AVX2_TARGET __attribute__((target("avx2")))
#endif

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url_alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Marks a character of the alphabet in the table below, above its 6-bit value. All other characters are 0 there. */
#define LEGAL 0x40
#define V(value) (LEGAL | (value))

/* clang-format off */
static const uint8_t values[256] = {
        ['A'] = V(0),  ['B'] = V(1),  ['C'] = V(2),  ['D'] = V(3),  ['E'] = V(4),  ['F'] = V(5),  ['G'] = V(6),
        ['H'] = V(7),  ['I'] = V(8),  ['J'] = V(9),  ['K'] = V(10), ['L'] = V(11), ['M'] = V(12), ['N'] = V(13),
        ['O'] = V(14), ['P'] = V(15), ['Q'] = V(16), ['R'] = V(17), ['S'] = V(18), ['T'] = V(19), ['U'] = V(20),
        ['V'] = V(21), ['W'] = V(22), ['X'] = V(23), ['Y'] = V(24), ['Z'] = V(25),
        ['a'] = V(26), ['b'] = V(27), ['c'] = V(28), ['d'] = V(29), ['e'] = V(30), ['f'] = V(31), ['g'] = V(32),
        ['h'] = V(33), ['i'] = V(34), ['j'] = V(35), ['k'] = V(36), ['l'] = V(37), ['m'] = V(38), ['n'] = V(39),
        ['o'] = V(40), ['p'] = V(41), ['q'] = V(42), ['r'] = V(43), ['s'] = V(44), ['t'] = V(45), ['u'] = V(46),
        ['v'] = V(47), ['w'] = V(48), ['x'] = V(49), ['y'] = V(50), ['z'] = V(51),
        ['0'] = V(52), ['1'] = V(53), ['2'] = V(54), ['3'] = V(55), ['4'] = V(56), ['5'] = V(57), ['6'] = V(58),
        ['7'] = V(59), ['8'] = V(60), ['9'] = V(61), ['+'] = V(62), ['/'] = V(63),
};
/* clang-format on */

static inline uint32_t value_of(char c)
{
        return values[(uint8_t)c];
}

static void encode_triple(char *out, const uint8_t *in, const char *letters)
{
        uint32_t v = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];

        out[0] = letters[v >> 18];
        out[1] = letters[v >> 12 & 63];
        out[2] = letters[v >> 6 & 63];
        out[3] = letters[v & 63];
}

/* Encodes whole triples only. Returns how many bytes of the input were encoded. */
static size_t encode_triples(char *out, const uint8_t *in, size_t n, const char *letters)
{
        size_t i = 0;

        for (; n - i >= 3; i += 3, out += 4)
                encode_triple(out, in + i, letters);
        return i;
}

/* Encodes the one or two bytes that are left, as two or three letters without padding. */
static size_t encode_rest(char *out, const uint8_t *in, size_t n, const char *letters)
{
        if (n == 0)
                return 0;

        uint8_t last[3] = { in[0], n == 2 ? in[1] : 0, 0 };
        char four[4];
        encode_triple(four, last, letters);
        memcpy(out, four, n + 1);
        return n + 1;
}

/* Decodes the last four characters, where padding may be. Returns the number of bytes, or -1. */
static int decode_last(uint8_t *out, const char *in)
{
        int n = in[3] != '=' ? 3 : in[2] != '=' ? 2 : 1;
        uint32_t a = value_of(in[0]), b = value_of(in[1]);
        uint32_t c = n >= 2 ? value_of(in[2]) : LEGAL, d = n == 3 ? value_of(in[3]) : LEGAL;

        if (!(a & b & c & d & LEGAL))
                return -1;
        if ((n == 1 && (b & 15)) || (n == 2 && (c & 3)))
                return -1;

        out[0] = (uint8_t)(a << 2 | (b & 63) >> 4);
        if (n >= 2)
                out[1] = (uint8_t)(b << 4 | (c & 63) >> 2);
        if (n == 3)
                out[2] = (uint8_t)(c << 6 | (d & 63));
        return n;
}

/* Returns the position where a text stops being base64. `start` is a multiple of 4; everything before it is valid. */
static size_t find_bad(const char *in, size_t n, size_t start)
{
        size_t i = start;

        while (i < n && value_of(in[i]))
                i++;
        if (i == n)
                return n; /* every character is valid, but their number is not */
        if (in[i] != '=' || i % 4 < 2)
                return i;

        /* The padding is at a valid place. The error is before it, after it, or there is too little padding. */
        bool is_whole = i % 4 == 3 || (n - i >= 2 && in[i + 1] == '=');
        size_t end = i / 4 * 4 + 4;
        if (n < end)
                return is_whole ? i : n;
        if (n == end)
                return is_whole ? i - 1 : i; /* bits that must be zero are not; or "=x" instead of "==" */
        uint8_t ignored[3];
        if (n == end + 1 && in[end] != '=' && !value_of(in[end]) && decode_last(ignored, in + end - 4) > 0)
                return end; /* a valid text and one character behind it, most often a line end */
        return i;
}

/* Decodes in[*start..n), which is not empty. Returns the number of bytes; or -1, and everything before *start is valid. Never
 * writes ahead of what it has read, so that `out` may be the beginning of `in`. */
static ssize_t decode_scalar(uint8_t *out, const char *in, size_t n, size_t *start)
{
        uint8_t *o = out;
        size_t i = *start;

        if (n % 4 != 0)
                return -1;
        for (; n - i > 4; i += 4, o += 3) {
                uint32_t a = value_of(in[i]), b = value_of(in[i + 1]);
                uint32_t c = value_of(in[i + 2]), d = value_of(in[i + 3]);
                if (!(a & b & c & d & LEGAL)) {
                        *start = i;
                        return -1;
                }
                o[0] = (uint8_t)(a << 2 | (b & 63) >> 4);
                o[1] = (uint8_t)(b << 4 | (c & 63) >> 2);
                o[2] = (uint8_t)(c << 6 | (d & 63));
        }

        *start = i;
        int last = decode_last(o, in + i);
        return last < 0 ? -1 : (o - out) + last;
}

#if defined(__x86_64__) && !defined(BASE64_PLAIN)

static bool has_avx2(void)
{
        enum { UNKNOWN, NO, YES };
        static atomic_int known = UNKNOWN;
        int k = atomic_load_explicit(&known, memory_order_relaxed);

        if (k == UNKNOWN) {
                __builtin_cpu_init();
                k = __builtin_cpu_supports("avx2") ? YES : NO;
                atomic_store_explicit(&known, k, memory_order_relaxed);
        }
        return k == YES;
}

/* Encodes blocks of 24 bytes. Returns the number of bytes consumed. A load reaches from 4 bytes before a block to 4 behind it, so
 * that each half of the register gets 12 bytes of the block. So the first block is encoded by the table, and the others need 28
 * bytes of input. */
AVX2_TARGET static size_t encode_avx2(char *out, const uint8_t *in, size_t n)
{
        const __m256i spread = _mm256_setr_epi8(5, 4, 6, 5, 8, 7, 9, 8, 11, 10, 12, 11, 14, 13, 15, 14, 1, 0,
                                                2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10);
        const __m256i offsets =
                _mm256_setr_epi8('a' - 26, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52,
                                 '0' - 52, '0' - 52, '0' - 52, '0' - 52, '+' - 62, '/' - 63, 'A', 0, 0,
                                 'a' - 26, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52,
                                 '0' - 52, '0' - 52, '0' - 52, '0' - 52, '+' - 62, '/' - 63, 'A', 0, 0);

        if (n < 24 + 28)
                return 0;
        size_t i = encode_triples(out, in, 24, alphabet);
        for (out += 32; n - i >= 28; i += 24, out += 32) {
                __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(in + i - 4));
                v = _mm256_shuffle_epi8(v, spread);
                __m256i ac = _mm256_mulhi_epu16(_mm256_and_si256(v, _mm256_set1_epi32(0x0fc0fc00)),
                                                _mm256_set1_epi32(0x04000040));
                __m256i bd = _mm256_mullo_epi16(_mm256_and_si256(v, _mm256_set1_epi32(0x003f03f0)),
                                                _mm256_set1_epi32(0x01000010));
                v = _mm256_or_si256(ac, bd);

                /* The index of what to add: 13 for the values 0..25, 0 for 26..51, and 1..12 for 52..63. */
                __m256i index = _mm256_subs_epu8(v, _mm256_set1_epi8(51));
                __m256i upper = _mm256_cmpgt_epi8(_mm256_set1_epi8(26), v);
                index = _mm256_or_si256(index, _mm256_and_si256(upper, _mm256_set1_epi8(13)));
                v = _mm256_add_epi8(v, _mm256_shuffle_epi8(offsets, index));
                _mm256_storeu_si256((__m256i *)(void *)out, v);
        }
        return i;
}

/* Decodes blocks of 32 characters, up to the first block that is invalid. Returns the number of characters consumed. Each block
 * writes 32 bytes, of which 24 count: with 44 characters left there is room for 33 bytes, so nothing is written past
 * base64_decoded_max(). */
AVX2_TARGET static size_t decode_avx2(uint8_t *out, const char *in, size_t n)
{
        const __m256i low_classes =
                _mm256_setr_epi8(0x15, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x13, 0x1a, 0x1b,
                                 0x1b, 0x1b, 0x1a, 0x15, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11,
                                 0x13, 0x1a, 0x1b, 0x1b, 0x1b, 0x1a);
        const __m256i high_classes =
                _mm256_setr_epi8(0x10, 0x10, 0x01, 0x02, 0x04, 0x08, 0x04, 0x08, 0x10, 0x10, 0x10, 0x10, 0x10,
                                 0x10, 0x10, 0x10, 0x10, 0x10, 0x01, 0x02, 0x04, 0x08, 0x04, 0x08, 0x10, 0x10,
                                 0x10, 0x10, 0x10, 0x10, 0x10, 0x10);
        const __m256i offsets = _mm256_setr_epi8(0, 16, 19, 4, -65, -65, -71, -71, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                                 16, 19, 4, -65, -65, -71, -71, 0, 0, 0, 0, 0, 0, 0, 0);
        const __m256i pack = _mm256_setr_epi8(2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1, -1, 2, 1, 0,
                                              6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1, -1);
        const __m256i join = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, -1, -1);
        const __m256i slash =
                _mm256_set1_epi8('/'); /* 0x2f also masks a nibble, because pshufb ignores bit 5 */
        size_t i = 0;

        for (; n - i >= 44; i += 32, out += 24) {
                __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(in + i));
                __m256i high = _mm256_and_si256(_mm256_srli_epi32(v, 4), slash);
                __m256i low = _mm256_and_si256(v, slash);
                if (!_mm256_testz_si256(_mm256_shuffle_epi8(low_classes, low),
                                        _mm256_shuffle_epi8(high_classes, high)))
                        break;

                __m256i is_slash = _mm256_cmpeq_epi8(v, slash);
                v = _mm256_add_epi8(v, _mm256_shuffle_epi8(offsets, _mm256_add_epi8(is_slash, high)));
                v = _mm256_maddubs_epi16(v, _mm256_set1_epi32(0x01400140));
                v = _mm256_madd_epi16(v, _mm256_set1_epi32(0x00011000));
                v = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(v, pack), join);
                _mm256_storeu_si256((__m256i *)(void *)out, v);
        }
        return i;
}

#endif

size_t base64_encode(char *out, const void *in, size_t n)
{
        const uint8_t *p = in;
        size_t done = 0;

        if (n == 0)
                return 0;
#if defined(__x86_64__) && !defined(BASE64_PLAIN)
        if (has_avx2())
                done = encode_avx2(out, p, n);
#endif
        done += encode_triples(out + done / 3 * 4, p + done, n - done, alphabet);

        char *o = out + done / 3 * 4;
        size_t rest = encode_rest(o, p + done, n - done, alphabet);
        if (rest > 0)
                memset(o + rest, '=', 4 - rest);
        return base64_encoded_size(n);
}

ssize_t base64_decode(void *out, const char *in, size_t n, size_t *ret_bad)
{
        uint8_t *o = out;
        size_t done = 0;

        if (n == 0)
                return 0;
#if defined(__x86_64__) && !defined(BASE64_PLAIN)
        if (has_avx2())
                done = decode_avx2(o, in, n);
#endif
        o += done / 4 * 3;
        size_t good = done;
        ssize_t rest = decode_scalar(o, in, n, &good);
        if (rest < 0) {
                if (ret_bad)
                        *ret_bad = find_bad(in, n, good);
                return -1;
        }
        return (ssize_t)(done / 4 * 3) + rest;
}

size_t base64url_encode(char *out, const void *in, size_t n)
{
        const uint8_t *p = in;

        if (n == 0)
                return 0;
        size_t done = encode_triples(out, p, n, url_alphabet);
        size_t written = done / 3 * 4;
        return written + encode_rest(out + written, p + done, n - done, url_alphabet);
}

ssize_t base64url_decode(void *out, const char *in, size_t n)
{
        uint8_t *o = out;
        uint32_t bits = 0;
        unsigned count = 0; /* bits of `bits` that are not written yet */

        if (n % 4 == 1)
                return -1;
        for (size_t i = 0; i < n; i++) {
                char c = in[i];
                uint32_t v = c == '-' ? V(62) : c == '_' ? V(63) : c == '+' || c == '/' ? 0 : value_of(c);
                if (v == 0)
                        return -1;
                bits = bits << 6 | (v & 63);
                count += 6;
                if (count >= 8) {
                        count -= 8;
                        *o++ = (uint8_t)(bits >> count);
                }
        }
        if (bits & ((1U << count) - 1))
                return -1;
        return o - (uint8_t *)out;
}
