#include "unified/file_text.h"

#include "base/fatal.h"
#include "unit.h"

/* Takes lines. *ret_lines is "FIRST+COUNT/TOTAL" with marks. */
static const char *take(char *shown, size_t room, struct buf *out, struct slice bytes, uint64_t first,
                        uint64_t most)
{
        struct file_lines lines;
        buf_truncate(out, 0);
        must(file_lines_take(out, bytes, first, most, &lines) == 0);
        (void)snprintf(shown, room, "%llu+%llu/%llu%s%s", (unsigned long long)lines.first,
                       (unsigned long long)lines.count, (unsigned long long)lines.total,
                       lines.is_utf8 ? "" : " bytes", lines.is_cut ? " cut" : "");
        return shown;
}

TEST(some_lines_are_taken)
{
        static const struct {
                struct slice bytes;
                uint64_t first, most;
                const char *text, *lines;
        } rows[] = {
                { S("a\nb\nc\n"), 1, 10, "a\nb\nc\n", "1+3/3" },
                { S("a\nb\nc\n"), 2, 1, "b\n", "2+1/3" },
                { S("a\nb\nc"), 3, 9, "c", "3+1/3" },
                { S("a\nb"), 3, 9, "", "3+0/2" },
                { S(""), 1, 9, "", "1+0/0" },
                { S("\n\n"), 2, 9, "\n", "2+1/2" },
                { S("a\xff\nb"), 1, 1, "a\xef\xbf\xbd\n", "1+1/2 bytes" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _buf_ struct buf out = BUF_INIT(1 << 20);
                char shown[80];
                eq_str(take(shown, sizeof(shown), &out, rows[i].bytes, rows[i].first, rows[i].most),
                       rows[i].lines);
                eq_slice(buf_slice(&out), slice_from_str(rows[i].text));
        }
}

TEST(a_text_has_a_ceiling_and_a_line_that_is_longer_is_cut_between_characters)
{
        _buf_ struct buf bytes = BUF_INIT(1 << 21), out = BUF_INIT(1 << 21);
        char shown[80];
        for (size_t i = 0; i < 5000; i++)
                must(buf_printf(&bytes, "%0127d\n", 7) == 0);
        eq_str(take(shown, sizeof(shown), &out, buf_slice(&bytes), 1, 5000), "1+2048/5000");
        eq_u64(out.n, FILE_TEXT_BYTES);
        buf_truncate(&bytes, 0);
        must(buf_append_char(&bytes, 'x') == 0);
        while (bytes.n < 2 * FILE_TEXT_BYTES)
                must(buf_append(&bytes, S("\xc3\xa9")) == 0);
        must(buf_append(&bytes, S("\nend")) == 0);
        eq_str(take(shown, sizeof(shown), &out, buf_slice(&bytes), 1, 9), "1+1/2 cut");
        eq_u64(out.n, FILE_TEXT_BYTES - 1);
        ok(!memmem(out.p, out.n, "\xef\xbf\xbd", 3));
}

TEST(an_image_is_known_by_its_first_bytes)
{
        eq_str(file_image_type(S("\x89PNG\r\n\x1a\n....")), "image/png");
        eq_str(file_image_type(S("\xff\xd8\xff\xe0")), "image/jpeg");
        eq_str(file_image_type(S("GIF89a")), "image/gif");
        eq_str(file_image_type(S("RIFF\0\0\0\0WEBPVP8 ")), "image/webp");
        ok(!file_image_type(S("")) && !file_image_type(S("RIFF\0\0\0\0WAVE")) &&
           !file_image_type(S("<svg>")));
        ok(!file_image_type(S("\x89PNG")));
}
