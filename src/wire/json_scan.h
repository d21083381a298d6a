/* json_scan: finds the end of the plain part of a JSON string: the first quote, backslash, control character or byte beyond
 * ASCII.
 *
 * The reader and the writer of JSON spend most of their time in this search. SSE2 (every x86-64 has it) checks 16 bytes at a
 * time and AVX2, where the CPU has it, 64; other machines check 8 in a 64-bit word. All functions but json_scan_padded read
 * only inside [0, n). The parsing of \uXXXX, which checking and unescaping share, is here too.
 */
#pragma once

#include "base/slice.h"

#if defined(__x86_64__) && !defined(JSON_SCAN_PORTABLE)
#include <immintrin.h>
#define JSON_SCAN_VECTOR 1
#endif

static inline bool json_is_plain(char c)
{
        unsigned char u = (unsigned char)c;

        return u >= 0x20 && u < 0x80 && u != '"' && u != '\\';
}

/* Returns whether all eight bytes are plain. A byte that is not plain sets its top bit in one of the terms; the borrows that it
 * may cause set the top bits of other bytes, which does not change the answer. */
static inline bool json_is_plain_word(uint64_t w)
{
        const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
        uint64_t quote = w ^ (ones * '"'), slash = w ^ (ones * '\\');

        return ((w | (w - ones * 0x20) | (quote - ones) | (slash - ones)) & tops) == 0;
}

static inline size_t json_scan_words(const char *s, size_t i, size_t n)
{
        for (; n - i >= 8; i += 8) {
                uint64_t w;

                memcpy(&w, s + i, 8);
                if (!json_is_plain_word(w))
                        break;
        }
        while (i < n && json_is_plain(s[i]))
                i++;
        return i;
}

#ifdef JSON_SCAN_VECTOR

/* The signed comparison catches what is below 0x20 and what is above 0x7f at once. */
static inline unsigned json_scan_mask16(const char *p)
{
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i quote = _mm_cmpeq_epi8(v, _mm_set1_epi8('"'));
        __m128i slash = _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'));
        __m128i other = _mm_cmpgt_epi8(_mm_set1_epi8(0x20), v);

        return (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), other));
}

__attribute__((target("avx2"))) static inline uint32_t json_scan_mask32(const char *p)
{
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)p);
        __m256i quote = _mm256_cmpeq_epi8(v, _mm256_set1_epi8('"'));
        __m256i slash = _mm256_cmpeq_epi8(v, _mm256_set1_epi8('\\'));
        __m256i other = _mm256_cmpgt_epi8(_mm256_set1_epi8(0x20), v);

        return (uint32_t)_mm256_movemask_epi8(_mm256_or_si256(_mm256_or_si256(quote, slash), other));
}

/* Scans whole blocks of 64 bytes. Returns the index of the first byte that is not plain, or where less than a block is left. */
__attribute__((target("avx2"), noinline, unused)) static size_t json_scan_avx2(const char *s, size_t i,
                                                                               size_t n)
{
        for (; n - i >= 64; i += 64) {
                uint64_t mask = json_scan_mask32(s + i) | (uint64_t)json_scan_mask32(s + i + 32) << 32;

                if (mask != 0)
                        return i + (size_t)__builtin_ctzll(mask);
        }
        return i;
}

/* Returns the index of the first byte at or after `i` that is not plain, or n. Reads nothing outside of [i, n). */
static inline size_t json_scan(const char *s, size_t i, size_t n)
{
        if (n - i >= 128 && __builtin_cpu_supports("avx2"))
                i = json_scan_avx2(s, i, n);
        for (; n - i >= 16; i += 16) {
                unsigned mask = json_scan_mask16(s + i);

                if (mask != 0)
                        return i + (size_t)__builtin_ctz(mask);
        }
        return json_scan_words(s, i, n);
}

/* As json_scan, but may read up to 15 bytes behind n; what they hold does not matter. */
static inline size_t json_scan_padded(const char *s, size_t i, size_t n)
{
        for (size_t stop = MIN(n, i + 64); i < stop; i += 16) {
                unsigned mask = json_scan_mask16(s + i);

                if (mask != 0)
                        return MIN(n, i + (size_t)__builtin_ctz(mask));
        }
        return i < n ? json_scan(s, i, n) : n;
}

#else

static inline size_t json_scan(const char *s, size_t i, size_t n)
{
        return json_scan_words(s, i, n);
}

static inline size_t json_scan_padded(const char *s, size_t i, size_t n)
{
        return json_scan_words(s, i, n);
}

#endif

/* Returns the number that four hexadecimal digits spell; -1 when one of the characters is no digit. */
static inline int json_hex4(const char *s)
{
        int v = 0;

        for (int i = 0; i < 4; i++) {
                char c = ascii_lower(s[i]);

                if (c >= '0' && c <= '9')
                        v = v << 4 | (c - '0');
                else if (c >= 'a' && c <= 'f')
                        v = v << 4 | (c - 'a' + 10);
                else
                        return -1;
        }
        return v;
}

static inline bool json_is_surrogate(int unit)
{
        return unit >= 0xd800 && unit <= 0xdfff;
}
