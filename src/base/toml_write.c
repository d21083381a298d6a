/* toml_write: selects parts of a TOML file and writes them. Arrays, and tables inside of arrays, are written on one line; other
 * tables get a header. */
#include "base/toml_write.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- selecting a part of a table */

static bool ends_at(const struct toml_path *paths, size_t count, size_t depth)
{
        for (size_t i = 0; i < count; i++)
                if (paths[i].count == depth + 1)
                        return true;
        return false;
}

/* The recursion is bounded: the parser lets a file nest 32 deep at most. */
static struct toml *select_below(struct arena *a, const struct toml *table, const struct toml_path *paths,
                                 size_t count, size_t depth)
{
        struct toml *ret = NULL, *last = NULL;
        struct toml_path *matching = arena_alloc(a, count * sizeof(*matching));

        for (const struct toml *m = table->first; m; m = m->next) {
                size_t n = 0;
                for (size_t i = 0; i < count; i++)
                        if (slice_eq(paths[i].keys[depth], m->key))
                                matching[n++] = paths[i];
                if (n == 0)
                        continue;
                bool is_whole = m->type != TOML_TABLE || ends_at(matching, n, depth);
                struct toml *part =
                        is_whole ? arena_new(a, struct toml) : select_below(a, m, matching, n, depth + 1);
                if (!part)
                        continue;
                if (is_whole)
                        *part = *m;
                part->key = m->key;
                part->next = NULL;
                if (!ret) {
                        ret = arena_new(a, struct toml);
                        *ret = (struct toml){ .type = TOML_TABLE, .first = part };
                } else {
                        last->next = part;
                }
                last = part;
        }
        return ret;
}

const struct toml *toml_select(struct arena *a, const struct toml *root, const struct toml_path *paths,
                               size_t count)
{
        return count > 0 ? select_below(a, root, paths, count, 0) : NULL;
}

/* ---- writing a table as text */

static int write_string(struct buf *out, struct slice s)
{
        static const char names[] = { ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
                                      ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\' };
        int r = buf_append_char(out, '"');

        for (size_t i = 0; r == 0 && i < s.n; i++) {
                unsigned char c = (unsigned char)s.p[i];
                if (c < sizeof(names) && names[c])
                        r = buf_printf(out, "\\%c", names[c]);
                else if (c < ' ' || c == 0x7f)
                        r = buf_printf(out, "\\u%04X", c);
                else
                        r = buf_append_char(out, (char)c);
        }
        return r < 0 ? r : buf_append_char(out, '"');
}

static bool is_bare(struct slice key)
{
        for (size_t i = 0; i < key.n; i++) {
                char c = key.p[i], l = ascii_lower(c);
                if (!(l >= 'a' && l <= 'z') && !(c >= '0' && c <= '9') && c != '_' && c != '-')
                        return false;
        }
        return key.n > 0;
}

static int write_key(struct buf *out, struct slice key)
{
        return is_bare(key) ? buf_append(out, key) : write_string(out, key);
}

/* Writes a float with a point or an exponent, so that it is not read as an integer, and with enough digits to be read as the same
 * value. */
static int write_real(struct buf *out, double v)
{
        char text[40];

        if (isnan(v))
                return buf_append(out, S("nan"));
        if (isinf(v))
                return buf_append(out, v < 0 ? S("-inf") : S("inf"));
        for (int digits = 15; digits <= 17; digits++) {
                (void)snprintf(text, sizeof(text), "%.*g", digits, v);
                if (strtod(text, NULL) == v)
                        break;
        }
        return buf_printf(out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

static int write_value(struct buf *out, const struct toml *v);

static int write_items(struct buf *out, const struct toml *v)
{
        int r = buf_append_char(out, v->type == TOML_ARRAY ? '[' : '{');

        for (const struct toml *m = v->first; r == 0 && m; m = m->next) {
                if (m != v->first)
                        r = buf_append(out, S(", "));
                if (r == 0 && v->type == TOML_TABLE)
                        r = write_key(out, m->key) < 0 ? -ENOBUFS : buf_append(out, S(" = "));
                if (r == 0)
                        r = write_value(out, m);
        }
        return r < 0 ? r : buf_append_char(out, v->type == TOML_ARRAY ? ']' : '}');
}

static int write_value(struct buf *out, const struct toml *v)
{
        switch (v->type) {
        case TOML_STRING:
                return write_string(out, v->string);
        case TOML_INTEGER:
                return buf_printf(out, "%lld", (long long)v->integer);
        case TOML_FLOAT:
                return write_real(out, v->real);
        case TOML_BOOL:
                return buf_append(out, v->boolean ? S("true") : S("false"));
        case TOML_ARRAY:
        case TOML_TABLE:
                break;
        }
        return write_items(out, v);
}

/* The keys that lead from the root to a table, as a list from the innermost key up. */
struct key_path {
        const struct key_path *above;
        struct slice key;
};

static int write_key_path(struct buf *out, const struct key_path *path)
{
        int r = path->above ? write_key_path(out, path->above) : 0;

        if (r == 0 && path->above)
                r = buf_append_char(out, '.');
        return r < 0 ? r : write_key(out, path->key);
}

static int write_header(struct buf *out, const struct key_path *path)
{
        int r = out->n > 0 ? buf_append_char(out, '\n') : 0;

        if (r == 0)
                r = buf_append_char(out, '[');
        if (r == 0)
                r = write_key_path(out, path);
        return r < 0 ? r : buf_append(out, S("]\n"));
}

static int write_table(struct buf *out, const struct toml *table, const struct key_path *path)
{
        bool has_values = !table->first;
        int r = 0;

        for (const struct toml *m = table->first; m; m = m->next)
                has_values = has_values || m->type != TOML_TABLE;
        if (path && has_values)
                r = write_header(out, path);
        for (const struct toml *m = table->first; r == 0 && m; m = m->next) {
                if (m->type == TOML_TABLE)
                        continue;
                r = write_key(out, m->key);
                if (r == 0)
                        r = buf_append(out, S(" = "));
                if (r == 0)
                        r = write_value(out, m);
                if (r == 0)
                        r = buf_append_char(out, '\n');
        }
        for (const struct toml *m = table->first; r == 0 && m; m = m->next) {
                const struct key_path below = { path, m->key };
                if (m->type == TOML_TABLE)
                        r = write_table(out, m, &below);
        }
        return r;
}

int toml_write(struct buf *out, const struct toml *table)
{
        return write_table(out, table, NULL);
}
