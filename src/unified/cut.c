/* cut: turns collected output into text for a model, and cuts the middle out of what is too long. */
#include "unified/cut.h"

#include "base/utf8.h"

#include <inttypes.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

uint64_t cut_tokens(uint64_t bytes)
{
        return bytes / CUT_TOKEN_BYTES + (bytes % CUT_TOKEN_BYTES > 0);
}

uint64_t cut_token_bytes(uint64_t tokens)
{
        uint64_t bytes;
        return ckd_mul(&bytes, tokens, (uint64_t)CUT_TOKEN_BYTES) ? UINT64_MAX : bytes;
}

/* ---- bytes to text ---- */

/* Returns how many bytes at the beginning are valid UTF-8. */
static size_t valid_prefix(struct slice s)
{
        size_t at = 0;
        while (at < s.n) {
                size_t n = (unsigned char)s.p[at] < 0x80 ? 1 : utf8_sequence(s.p + at, s.n - at);
                if (n == 0)
                        break;
                at += n;
        }
        return at;
}

/* Returns how many bytes one U+FFFD stands for: the longest beginning of a character, or one byte. */
static size_t invalid_prefix(struct slice s)
{
        uint32_t state = 0;
        size_t n = 0;
        while (n < s.n && n < 3 && utf8_feed(&state, slice_from(s.p + n, 1)) && !utf8_is_complete(state))
                n++;
        return MAX(n, (size_t)1);
}

static int append_lossy(struct buf *out, struct slice s)
{
        while (s.n > 0) {
                size_t good = valid_prefix(s);
                int r = buf_append(out, slice_from(s.p, good));
                s = slice_from(s.p + good, s.n - good);
                if (r < 0 || s.n == 0)
                        return r;
                size_t bad = invalid_prefix(s);
                r = buf_append(out, S(REPLACEMENT));
                if (r < 0)
                        return r;
                s = slice_from(s.p + bad, s.n - bad);
        }
        return 0;
}

static int append_omission(struct buf *out, const struct cut_output *o)
{
        return buf_printf(out, "... %" PRIu64 " bytes omitted ...", o->omitted_bytes);
}

int cut_render(struct buf *out, const struct cut_output *o)
{
        if (o->omitted_bytes == 0)
                return append_lossy(out, o->bytes);
        int r = append_lossy(out, slice_from(o->bytes.p, o->head_bytes));
        if (r == 0)
                r = buf_append_char(out, '\n');
        if (r == 0)
                r = append_omission(out, o);
        if (r == 0)
                r = buf_append_char(out, '\n');
        return r < 0 ? r
                     : append_lossy(out, slice_from(o->bytes.p + o->head_bytes, o->bytes.n - o->head_bytes));
}

/* ---- cutting ---- */

static bool is_inside(char c)
{
        return ((unsigned char)c & 0xc0) == 0x80;
}

static uint64_t count_characters(struct slice s)
{
        uint64_t n = 0;
        for (size_t i = 0; i < s.n; i++)
                n += !is_inside(s.p[i]);
        return n;
}

int cut_middle(struct buf *out, struct slice text, struct cut_budget budget)
{
        if (text.n <= budget.bytes)
                return buf_append(out, text);
        size_t left = (size_t)budget.bytes / 2, right = text.n - ((size_t)budget.bytes - left);
        while (left > 0 && is_inside(text.p[left]))
                left--;
        while (right < text.n && is_inside(text.p[right]))
                right++;
        struct slice removed = slice_from(text.p + left, right - left);
        int r = buf_append(out, slice_from(text.p, left));
        if (r == 0 && budget.unit == CUT_TOKENS)
                r = buf_printf(out, "…%" PRIu64 " tokens truncated…", cut_tokens(removed.n));
        else if (r == 0)
                r = buf_printf(out, "…%" PRIu64 " chars truncated…", count_characters(removed));
        return r < 0 ? r : buf_append(out, slice_from(text.p + right, text.n - right));
}

/* Returns the number of lines; the last line need not have a line end. */
static uint64_t count_lines(struct slice s)
{
        uint64_t n = s.n > 0 && s.p[s.n - 1] != '\n';
        for (size_t i = 0; i < s.n; i++)
                n += s.p[i] == '\n';
        return n;
}

int cut_for_model(struct buf *out, struct slice text, const struct cut_output *output,
                  struct cut_budget budget)
{
        if (text.n <= budget.bytes)
                return buf_append(out, text);
        int r = buf_printf(out, "Warning: truncated output (original token count: %" PRIu64 ")\n",
                           cut_tokens(output->bytes.n + output->omitted_bytes));
        if (r == 0 && output->omitted_bytes > 0)
                r = append_omission(out, output);
        else if (r == 0)
                r = buf_printf(out, "Total output lines: %" PRIu64, count_lines(text));
        if (r == 0)
                r = buf_append(out, S("\n\n"));
        return r < 0 ? r : cut_middle(out, text, budget);
}
