/* content: reads contents as streams, and stores them in files of the server. */
#include "patch/content.h"

#include "base/mem.h"
#include "patch/flow.h"

#include <errno.h>

/* ---- contents ---- */

const struct content *content_from_text(struct arena *a, struct slice text)
{
        struct content *c = arena_new(a, struct content);
        *c = (struct content){ .kind = CONTENT_TEXT, .size = text.n, .text = text };
        return c;
}

const struct content *content_from_file(struct arena *a, const char *path, uint64_t size)
{
        struct content *c = arena_new(a, struct content);
        *c = (struct content){ .kind = CONTENT_FILE, .size = size, .path = path };
        return c;
}

const struct content *content_edited(struct arena *a, const struct content *below, const struct edits *edits)
{
        struct content *c = arena_new(a, struct content);
        *c = (struct content){
                .kind = CONTENT_EDITS,
                .size = edits->new_bytes,
                .edits = edits,
                .below = below,
                .layers = below->layers + 1,
        };
        return c;
}

/* ---- reading ---- */

/* One layer of a content that is read. */
struct content_reader {
        struct content_reader *below;
        struct reader below_reader;
        struct text_reader text;
        struct edits_reader edits;
        struct asks *asks;
        const char *path;
        struct flow *file; /* NULL until the first read opens the file */
};

static int file_rewind(void *arg, UNUSED struct err *err)
{
        struct content_reader *r = arg;
        r->file = flow_close(r->file);
        return 0;
}

static ssize_t file_read(void *arg, char *buf, size_t n, struct err *err)
{
        struct content_reader *r = arg;
        if (!r->file)
                r->file = flow_open(r->asks, r->path, false, err);
        return r->file ? flow_read(r->file, buf, n, err) : err->code;
}

struct content_reader *content_open(struct asks *s, const struct content *c, struct reader *ret)
{
        struct content_reader *r = mem_new(struct content_reader);
        switch (c->kind) {
        case CONTENT_TEXT:
                *ret = reader_from_text(&r->text, c->text);
                break;
        case CONTENT_FILE:
                r->asks = s;
                r->path = c->path;
                *ret = (struct reader){ .rewind = file_rewind, .read = file_read, .arg = r };
                break;
        case CONTENT_EDITS:
                r->below = content_open(s, c->below, &r->below_reader);
                *ret = edits_read(&r->edits, c->edits, &r->below_reader);
                break;
        }
        return r;
}

struct content_reader *content_close(struct content_reader *r)
{
        while (r) {
                struct content_reader *below = r->below;
                r->file = flow_close(r->file);
                free(r);
                r = below;
        }
        return NULL;
}

int content_load(struct arena *a, struct asks *s, const struct content *c, uint64_t max, struct slice *ret,
                 struct err *err)
{
        struct reader reader;
        if (c->kind == CONTENT_TEXT) {
                *ret = c->text;
                return 0;
        }
        if (c->size > max)
                return err_set(err, 0, -EFBIG, "the file is too large");
        struct content_reader *r = content_open(s, c, &reader);
        char *bytes = arena_alloc(a, (size_t)c->size + 1);
        size_t n = 0;
        ssize_t got = reader_rewind(&reader, err);
        while (got >= 0 && (got = reader_read(&reader, bytes + n, (size_t)c->size + 1 - n, err)) > 0) {
                n += (size_t)got;
                if (n > c->size)
                        got = err_set(err, 0, -ESTALE, "the file was changed meanwhile");
        }
        if (got == 0 && n < c->size)
                got = err_set(err, 0, -ESTALE, "the file was changed meanwhile");
        r = content_close(r);
        if (got < 0)
                return (int)got;
        *ret = slice_from(bytes, n);
        return 0;
}

/* ---- storing ---- */

int content_store(struct asks *s, const struct content *c, const char *path, struct err *err)
{
        struct reader reader;
        uint64_t total = 0;
        struct flow *to = flow_open(s, path, true, err);
        if (!to)
                return err->code;
        struct content_reader *r = content_open(s, c, &reader);
        _free_ char *piece = mem_alloc(FLOW_PIECE_BYTES);
        ssize_t got = reader_rewind(&reader, err);
        while (got >= 0 && (got = reader_read(&reader, piece, FLOW_PIECE_BYTES, err)) > 0) {
                total += (uint64_t)got;
                int put = flow_write(to, slice_from(piece, (size_t)got), err);
                got = put < 0 ? put : got;
        }
        if (got == 0 && total != c->size)
                got = err_set(err, 0, -ESTALE, "the file was changed meanwhile");
        if (got == 0)
                got = flow_finish(to, err);
        r = content_close(r);
        to = flow_close(to);
        return (int)got;
}
