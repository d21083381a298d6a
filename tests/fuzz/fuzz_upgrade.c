/* fuzz_upgrade: compares the check of a server's answer to the upgrade with a slow, obvious one. For an answer that begins with "@"
 * the right Sec-WebSocket-Accept is put where the input says "$". */
#include "base/mem.h"
#include "transport/upgrade.h"
#include "wire/ws.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char key[] = "dGhlIHNhbXBsZSBub25jZQ==";

/* Returns the length of the head, with the empty line that ends it; 0 when there is no such line. */
static size_t end_of_head(struct slice in)
{
        struct slice rest = in;
        bool is_first = true;
        while (rest.p && rest.n > 0) {
                struct slice line = slice_split(&rest, '\n');
                if (!rest.p)
                        return 0; /* no line end */
                if (!is_first && (line.n == 0 || slice_eq(line, S("\r"))))
                        return (size_t)(rest.p - in.p);
                is_first = false;
        }
        return 0;
}

static void check(struct slice in, bool at_end, const char *accept)
{
        struct err err = ERR_INIT;
        /* The copy has the exact size, so that the sanitizer reports a read beyond it. */
        _free_ char *copy = mem_alloc(MAX(in.n, (size_t)1));
        if (in.n > 0)
                memcpy(copy, in.p, in.n);
        in.p = copy;
        ssize_t r = upgrade_answer(in, at_end, key, &err);
        size_t end = end_of_head(in);
        if (end == 0) {
                must(r <= 0 && (!at_end || r < 0) && (r == 0 || at_end || in.n >= 16384));
                return;
        }
        must(r == 0 || (r < 0 && err.text[0]) || (size_t)r == end);
        must(!at_end || r != 0);
        if (r > 0) {
                must(in.n >= 12 && memcmp(in.p, "HTTP/1.", 7) == 0 && memcmp(in.p + 8, " 101", 4) == 0);
                must(memmem(in.p, end, accept, strlen(accept)));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char accept[29];
        _buf_ struct buf text = BUF_INIT(1 << 20);
        if (size > 20000)
                return 0;
        ws_accept(slice_from_str(key), accept);
        bool is_filled = size > 0 && data[0] == '@';
        for (size_t i = is_filled; i < size; i++)
                must((is_filled && data[i] == '$' ? buf_append(&text, slice_from_str(accept))
                                                  : buf_append_char(&text, (char)data[i])) == 0);
        check(buf_slice(&text), false, accept);
        check(buf_slice(&text), true, accept);
        for (size_t n = 0; n < text.n && text.n < 400; n++)
                check(slice_from(text.p, n), false, accept);
        return 0;
}
