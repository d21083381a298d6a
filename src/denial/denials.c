/* denials: puts lines of output together and collects the denials that they report. */
#include "denial/denials.h"

#include "base/uri.h"

void denials_init(struct denials *d, bool is_offline, struct slice cwd)
{
        *d = (struct denials){ .arena = ARENA_INIT, .cwd = cwd };
        denied_scan_init_lines(&d->scan, is_offline);
        for (size_t i = 0; i < ARRAY_LEN(d->line); i++)
                buf_init(&d->line[i].bytes, DENIALS_LINE_BYTES);
}

void denials_release(struct denials *d)
{
        for (size_t i = 0; i < ARRAY_LEN(d->line); i++)
                buf_release(&d->line[i].bytes);
        arena_release(&d->arena);
}

/* Returns the path of a denial, which is in `room` or a part of the line; p == NULL when the line names no path. */
static struct slice path_of(const struct denials *d, struct arena *room, const struct denied_line *line)
{
        struct slice path = line->path, clean;
        if (slice_has_nul(path) || slice_has_nul(line->name))
                return slice_from(NULL, 0);
        if (d->cwd.p && !path.p && line->name.p)
                path = slice_from_str(arena_printf(room, "%.*s/%.*s", SLICE(d->cwd), SLICE(line->name)));
        if (d->cwd.p && path.p && uri_to_path(room, path, &clean, NULL) == URI_OK)
                path = clean;
        return path.n > DENIALS_PATH_BYTES ? slice_from(NULL, 0) : path;
}

static struct slice address_of(struct arena *room, const struct denied_line *line)
{
        bool is_v6 = line->port.p && memchr(line->host.p, ':', line->host.n);
        if (!line->port.p)
                return line->host;
        return slice_from_str(arena_printf(room, is_v6 ? "[%.*s]:%.*s" : "%.*s:%.*s", SLICE(line->host),
                                           SLICE(line->port)));
}

static struct slice keep(struct denials *d, struct slice text)
{
        return slice_from(text.p ? arena_dup(&d->arena, text) : NULL, text.n);
}

static void add(struct denials *d, const struct denied_line *line)
{
        _arena_ struct arena room = ARENA_INIT;
        struct denial new = { .operation = line->operation,
                              .says_write = line->says_write,
                              .path = path_of(d, &room, line),
                              .address = address_of(&room, line) };
        for (size_t i = 0; i < d->count; i++) {
                struct denial *old = &d->list[i];
                if (strcmp(old->operation, new.operation) == 0 && slice_eq(old->path, new.path) &&
                    slice_eq(old->address, new.address)) {
                        old->says_write = old->says_write || new.says_write;
                        return;
                }
        }
        if (d->count == DENIALS_MAX) {
                d->has_more = true;
                return;
        }
        new.path = keep(d, new.path);
        new.address = keep(d, new.address);
        d->list[d->count++] = new;
}

static void end_line(struct denials *d, bool is_stderr, struct slice end)
{
        struct buf *begun = &d->line[is_stderr].bytes;
        struct slice line = end;
        bool is_too_long = d->line[is_stderr].is_too_long || end.n > DENIALS_LINE_BYTES;
        if (begun->n > 0) {
                is_too_long = is_too_long || buf_append(begun, end) < 0;
                line = buf_slice(begun);
        }
        struct denied_line found;
        if (!is_too_long && d->read_bytes < DENIALS_READ_BYTES &&
            denied_line_read(&d->scan, slice_trim(line), &found)) {
                d->read_bytes += line.n;
                add(d, &found);
        }
        buf_truncate(begun, 0);
        d->line[is_stderr].is_too_long = false;
}

void denials_feed(struct denials *d, bool is_stderr, struct slice bytes)
{
        const char *newline;
        while (bytes.n > 0 && (newline = memchr(bytes.p, '\n', bytes.n)) != NULL) {
                size_t n = (size_t)(newline - bytes.p);
                end_line(d, is_stderr, slice_from(bytes.p, n));
                bytes = slice_from(newline + 1, bytes.n - n - 1);
        }
        if (bytes.n > 0 && buf_append(&d->line[is_stderr].bytes, bytes) < 0)
                d->line[is_stderr].is_too_long = true;
}

void denials_end(struct denials *d)
{
        for (size_t i = 0; i < ARRAY_LEN(d->line); i++)
                end_line(d, i == 1, S(""));
}
