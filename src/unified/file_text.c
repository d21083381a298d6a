/* file_text: takes lines out of the content of a file, and tells what an image is. */
#include "unified/file_text.h"

#include "base/utf8.h"
#include "unified/cut.h"

/* Takes the first line, with its end, from the rest. */
static struct slice take_line(struct slice *rest)
{
        const char *end = memchr(rest->p, '\n', rest->n);
        size_t n = end ? (size_t)(end - rest->p) + 1 : rest->n;
        struct slice line = slice_from(rest->p, n);
        *rest = slice_from(rest->p + n, rest->n - n);
        return line;
}

/* Returns so many bytes of the beginning of a text that no character is cut. */
static size_t whole_characters(struct slice s, size_t most)
{
        size_t n = MIN(s.n, most);
        for (size_t back = 0; n < s.n && back < 3 && n > 0 && ((unsigned char)s.p[n] & 0xc0) == 0x80; back++)
                n--;
        return n;
}

int file_lines_take(struct buf *out, struct slice bytes, uint64_t first, uint64_t most,
                    struct file_lines *ret)
{
        struct slice rest = bytes, taken = slice_from(bytes.p, 0);
        struct file_lines lines = { .first = first, .is_utf8 = utf8_is_valid(bytes) };
        bool is_full = false;
        while (rest.n > 0) {
                struct slice line = take_line(&rest);
                lines.total++;
                if (lines.total < first || lines.count == most || is_full)
                        continue;
                if (lines.count == 0)
                        taken = slice_from(line.p, 0);
                is_full = taken.n + line.n > FILE_TEXT_BYTES;
                if (is_full && lines.count > 0)
                        continue;
                lines.is_cut = is_full;
                taken.n += is_full ? whole_characters(line, FILE_TEXT_BYTES) : line.n;
                lines.count++;
        }
        struct cut_output all = { .bytes = taken, .head_bytes = taken.n };
        int r = cut_render(out, &all);
        if (r == 0)
                *ret = lines;
        return r;
}

const char *file_image_type(struct slice bytes)
{
        if (slice_starts(bytes, S("\x89PNG\r\n\x1a\n")))
                return "image/png";
        if (slice_starts(bytes, S("\xff\xd8\xff")))
                return "image/jpeg";
        if (slice_starts(bytes, S("GIF87a")) || slice_starts(bytes, S("GIF89a")))
                return "image/gif";
        if (bytes.n >= 12 && slice_starts(bytes, S("RIFF")) && memcmp(bytes.p + 8, "WEBP", 4) == 0)
                return "image/webp";
        return NULL;
}
