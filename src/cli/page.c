/* page: writes texts of others on a terminal, escaped and broken into marked lines (page.h). */
#include "cli/page.h"

#include "base/printable.h"

#include <string.h>
#include <sys/ioctl.h>

#define COLUMNS_USUAL 80 /* of a terminal that does not tell */
#define COLUMNS_LEAST 10
#define LINE_GOES_ON "\n      | "

static size_t terminal_columns(int fd)
{
        struct winsize size;

        if (ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
                return COLUMNS_USUAL;
        return MAX((size_t)size.ws_col, (size_t)COLUMNS_LEAST);
}

void page_begin(struct page *p, FILE *to, int fd, struct arena *a)
{
        *p = (struct page){ .to = to, .arena = a, .columns = terminal_columns(fd) };
}

/* A character beyond ASCII may be two columns wide. */
void page_put(struct page *p, const char *text)
{
        for (const char *c = text; *c;) {
                size_t n = 1, width = (unsigned char)*c < 0x80 ? 1 : 2;
                while (((unsigned char)c[n] & 0xc0) == 0x80)
                        n++;
                if (p->at + width > p->columns) {
                        fputs(LINE_GOES_ON, p->to);
                        p->at = strlen(LINE_GOES_ON) - 1;
                }
                fwrite(c, 1, n, p->to);
                p->at += width;
                c += n;
        }
}

void page_end_line(struct page *p)
{
        fputc('\n', p->to);
        p->at = 0;
}

void page_text(struct page *p, const char *text)
{
        struct slice rest = slice_from_str(text);
        while (rest.n > 0) {
                size_t n = MIN(rest.n, (size_t)PRINTABLE_BYTES_MAX);
                /* A piece ends between characters. */
                while (n > 0 && n < rest.n && ((unsigned char)rest.p[n] & 0xc0) == 0x80)
                        n--;
                n = n > 0 ? n : MIN(rest.n, (size_t)PRINTABLE_BYTES_MAX);
                page_put(p, printable_text(p->arena, slice_from(rest.p, n)));
                rest = slice_from(rest.p + n, rest.n - n);
        }
}

void page_line(struct page *p, const char *name, const char *text)
{
        page_put(p, "  ");
        page_put(p, name);
        page_put(p, ": ");
        page_text(p, text);
        page_end_line(p);
}

void page_word(struct page *p, const char *word)
{
        bool is_plain = word[0] != '\0';

        for (const char *c = word; *c; c++)
                is_plain &= (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                            (*c >= '0' && *c <= '9') || strchr("@%+=:,./_-", *c) != NULL;
        page_put(p, " ");
        if (is_plain) {
                page_put(p, word);
                return;
        }
        page_put(p, "'");
        for (const char *quote; (quote = strchr(word, '\'')); word = quote + 1) {
                page_text(p, arena_dup(p->arena, slice_from(word, (size_t)(quote - word))));
                page_put(p, "'\\''"); /* a quote inside of quotes, as shells read it */
        }
        page_text(p, word);
        page_put(p, "'");
}
