/* environments_add: appends a table [[environments]] to the text of a file, and sets `default`. The parser does not tell where a
 * value ends, so this file searches the text for the value of `default`, a string, to replace it. The new text is parsed before it
 * is given to the caller. */
#include "env/environments_add.h"

#include "base/buf.h"
#include "base/limits.h"
#include "base/toml_write.h"
#include "env/environments_toml.h"

#include <errno.h>

/* ---- finding the value of `default` ---- */

/* Returns the offset of a line and a column; columns count characters, not bytes. The caller knows that the text has both. */
static size_t offset_of(struct slice text, unsigned line, unsigned column)
{
        size_t i = 0;

        for (unsigned l = 1; l < line && i < text.n; i++)
                l += text.p[i] == '\n';
        for (unsigned c = 1; c < column && i < text.n; c++)
                do
                        i++;
                while (i < text.n && (text.p[i] & 0xc0) == 0x80);
        return i;
}

/* Returns the offset behind the string that begins at offset `i`. The caller knows that the text is TOML. */
static size_t string_end(struct slice text, size_t i)
{
        char quote = text.p[i];
        size_t width = i + 2 < text.n && text.p[i + 1] == quote && text.p[i + 2] == quote ? 3 : 1;

        for (i += width; i < text.n; i++) {
                if (quote == '"' && text.p[i] == '\\') {
                        i++;
                        continue;
                }
                size_t run = 0;
                while (run < 5 && i + run < text.n && text.p[i + run] == quote)
                        run++;
                if (run >= width) /* two more quotes may stand in front of the three that end the string */
                        return i + (width == 1 ? 1 : run);
        }
        return text.n;
}

/* Finds the string that is the value `t` of a key outside all tables. Returns false when the value is no string. */
static bool value_find(struct slice text, const struct toml *t, size_t *ret_start, size_t *ret_end)
{
        size_t i = offset_of(text, t->line, t->column);

        if (i < text.n && (text.p[i] == '"' || text.p[i] == '\''))
                i = string_end(text, i);
        while (i < text.n && text.p[i] != '=')
                i++;
        for (i++; i < text.n && (text.p[i] == ' ' || text.p[i] == '\t');)
                i++;
        if (i >= text.n || (text.p[i] != '"' && text.p[i] != '\''))
                return false;
        *ret_start = i;
        *ret_end = string_end(text, i);
        return true;
}

/* ---- writing ---- */

static void append_string(struct arena *a, struct toml *table, const char *key, const char *value)
{
        if (!value)
                return;
        struct toml *m = arena_new(a, struct toml), **end = &table->first;
        *m = (struct toml){ .type = TOML_STRING,
                            .key = slice_from_str(key),
                            .string = slice_from_str(value) };
        while (*end)
                end = &(*end)->next;
        *end = m;
}

static void append_args(struct arena *a, struct toml *table, const struct environment_addition *add)
{
        struct toml *array = arena_new(a, struct toml), **end = &array->first;

        if (add->arg_count == 0)
                return;
        *array = (struct toml){ .type = TOML_ARRAY, .key = S("args") };
        for (size_t i = 0; i < add->arg_count; i++, end = &(*end)->next) {
                *end = arena_new(a, struct toml);
                **end = (struct toml){ .type = TOML_STRING, .string = slice_from_str(add->args[i]) };
        }
        end = &table->first;
        while (*end)
                end = &(*end)->next;
        *end = array;
}

static int write_entry(struct arena *a, struct buf *out, const struct environment_addition *add)
{
        struct toml table = { .type = TOML_TABLE };

        append_string(a, &table, "id", add->id);
        append_string(a, &table, "url", add->url);
        append_string(a, &table, "program", add->program);
        append_args(a, &table, add);
        append_string(a, &table, "token_file", add->token_file);
        append_string(a, &table, "token_env", add->token_env);

        int r = out->n > 0 && out->p[out->n - 1] != '\n' ? buf_append_char(out, '\n') : 0;
        if (r == 0 && out->n > 0)
                r = buf_append_char(out, '\n');
        if (r == 0)
                r = buf_append(out, S("[[environments]]\n"));
        return r < 0 ? r : toml_write(out, &table);
}

/* Writes the text with another default: in place of the old default, or as the first line, because no table has begun there. */
static int write_text(struct arena *a, struct buf *out, struct slice text, const struct toml *root,
                      const char *default_id)
{
        if (!default_id)
                return buf_append(out, text);

        struct toml table = { .type = TOML_TABLE };
        _buf_ struct buf line = BUF_INIT(LIMIT_ENVIRONMENTS_BYTES);
        append_string(a, &table, "default", default_id);
        int r = toml_write(&line, &table);
        const struct toml *old = toml_find(root, S("default"));
        if (!old) {
                if (r == 0)
                        r = buf_append(out, buf_slice(&line));
                return r < 0 ? r : buf_append(out, text);
        }

        const size_t before = sizeof("default = ") - 1;
        size_t start, end;
        if (!value_find(text, old, &start, &end))
                return -EINVAL;
        if (r == 0)
                r = buf_append(out, slice_from(text.p, start));
        if (r == 0) /* writes only the string: the key before it and the rest of its line stay */
                r = buf_append(out, slice_from(line.p + before, line.n - before - 1));
        return r < 0 ? r : buf_append(out, slice_from(text.p + end, text.n - end));
}

/* ---- checking ---- */

/* Returns whether `new` has the environments of `old` and one more, and has the default that was asked for. */
static bool is_as_meant(const struct environments *old, const struct environments *new,
                        const struct environment_addition *add)
{
        if (new->count != old->count + 1)
                return false;
        for (size_t i = 0; i < old->count; i++)
                if (strcmp(old->list[i].id, new->list[i].id) != 0)
                        return false;
        return strcmp(new->list[old->count].id, add->id) == 0 &&
               new->default_index == (add->is_default ? old->count : old->default_index);
}

int environments_add(struct arena *a, struct slice text, const char *path,
                     const struct environment_addition *add, struct slice *ret_text, struct err *err)
{
        struct environments old, new;

        int r = environments_parse(a, text, path, &old, err);
        if (r < 0)
                return r;
        const struct toml *root = toml_parse(a, text, err);
        if (!root)
                return err->code;
        _buf_ struct buf out = BUF_INIT(LIMIT_ENVIRONMENTS_BYTES);
        r = write_text(a, &out, text, root, add->is_default ? add->id : NULL);
        if (r == 0)
                r = write_entry(a, &out, add);
        if (r == -ENOBUFS)
                return err_set(err, 0, -EFBIG, "the file would have more than %d bytes",
                               LIMIT_ENVIRONMENTS_BYTES);
        if (r == 0)
                r = environments_parse(a, buf_slice(&out), path, &new, err);
        else
                (void)err_set(err, 0, r, "the value of `default` was not found in it");
        if (r < 0)
                return err_wrap(err, "cannot be added");
        if (!is_as_meant(&old, &new, add))
                return err_set(err, 0, -EINVAL, "cannot be added: the file would not say what was meant");
        *ret_text = slice_from(arena_dup(a, buf_slice(&out)), out.n);
        return 0;
}
