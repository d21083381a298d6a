/* toml_edit: adds our entry to the text of config.toml of Codex, and takes it away again. The parser of TOML does not tell where a table
 * ends, so this file finds the lines of statements in a text that the parser has taken. */
#include "install/toml_edit.h"

#include "base/buf.h"
#include "base/fatal.h"
#include "base/limits.h"
#include "base/toml_write.h"

#include <errno.h>

#define BOM S("\xef\xbb\xbf")

static const struct toml *parse(struct arena *a, struct slice text, struct err *err)
{
        size_t skipped = slice_starts(text, BOM) ? 3 : 0;
        return toml_parse(a, slice_from(text.p + skipped, text.n - skipped), err);
}

static const struct toml *entry_find(const struct toml *root, const char *servers)
{
        const struct toml *table = toml_find(root, slice_from_str(servers));
        return table && table->type == TOML_TABLE ? toml_find(table, S(ENTRY_NAME)) : NULL;
}

/* ---- adding ---- */

static void append(struct toml *table, struct toml *member)
{
        struct toml **end = &table->first;
        while (*end)
                end = &(*end)->next;
        *end = member;
}

static struct toml *string_new(struct arena *a, const char *key, const char *value)
{
        struct toml *t = arena_new(a, struct toml);
        *t = (struct toml){ .type = TOML_STRING,
                            .key = slice_from_str(key),
                            .string = slice_from_str(value) };
        return t;
}

/* Appends the table. The lines of toml_write end with a newline; `nl` stands in its place. */
static void put_table(struct arena *a, struct buf *out, const char *servers, const struct entry *entry,
                      const char *nl)
{
        _buf_ struct buf lines = BUF_INIT(LIMIT_CLIENT_CONFIG_BYTES);
        struct toml table = { .type = TOML_TABLE }, *args = arena_new(a, struct toml);

        append(&table, string_new(a, "command", entry->command));
        *args = (struct toml){ .type = TOML_ARRAY, .key = S("args") };
        for (size_t i = 0; i < entry->arg_count; i++)
                append(args, string_new(a, NULL, entry->args[i]));
        append(&table, args);
        must(buf_printf(&lines, "[%s." ENTRY_NAME "]\n", servers) == 0 && toml_write(&lines, &table) == 0);

        struct slice rest = buf_slice(&lines);
        while (rest.n > 0) {
                struct slice line = slice_split(&rest, '\n');
                must(buf_append(out, line) == 0 && buf_append(out, slice_from_str(nl)) == 0);
        }
}

static bool is_same(const struct toml *old, const struct entry *entry)
{
        const struct toml *command = old->type == TOML_TABLE ? toml_find(old, S("command")) : NULL;
        const struct toml *args = old->type == TOML_TABLE ? toml_find(old, S("args")) : NULL;
        size_t i = 0;

        if (!command || command->type != TOML_STRING ||
            !slice_eq(command->string, slice_from_str(entry->command)))
                return false;
        if (!args || args->type != TOML_ARRAY)
                return false;
        for (const struct toml *arg = args->first; arg; arg = arg->next, i++)
                if (i >= entry->arg_count || arg->type != TOML_STRING ||
                    !slice_eq(arg->string, slice_from_str(entry->args[i])))
                        return false;
        return i == entry->arg_count;
}

static void add(struct arena *a, struct buf *out, const struct slice *text, const char *servers,
                const struct entry *entry)
{
        const char *newline = text && text->n > 0 ? memchr(text->p, '\n', text->n) : NULL;
        const char *nl = newline && newline > text->p && newline[-1] == '\r' ? "\r\n" : "\n";

        if (!text) {
                put_table(a, out, servers, entry, nl);
                return;
        }
        bool has_end = text->n == 0 || text->p[text->n - 1] == '\n' || slice_eq(*text, BOM);
        must(buf_append(out, *text) == 0);
        for (int i = has_end ? 1 : 2; i > 0; i--)
                must(buf_append(out, slice_from_str(nl)) == 0);
        put_table(a, out, servers, entry, nl);
        if (!has_end)
                buf_truncate(out, out->n - strlen(nl));
}

int toml_edit_add(struct arena *a, const struct slice *text, const struct config_shape *shape,
                  const struct entry *entry, struct slice *ret_text, struct err *err)
{
        _buf_ struct buf out = BUF_INIT(2 * (size_t)LIMIT_CLIENT_CONFIG_BYTES);
        const struct toml *root = text ? parse(a, *text, err) : NULL;

        if (text && !root)
                return -EINVAL;
        const struct toml *old = root ? entry_find(root, shape->servers) : NULL;
        if (old && is_same(old, entry))
                return EDIT_NOTHING;
        if (old)
                return err_set(err, 0, -EEXIST,
                               "it has another table [%s." ENTRY_NAME "] already, in line %u", shape->servers,
                               old->line);
        add(a, &out, text, shape->servers, entry);
        root = parse(a, buf_slice(&out), err);
        if (!root) /* `mcp_servers = { … }`, for instance, takes no more tables */
                return err_wrap(err, "a table [%s." ENTRY_NAME "] cannot be added", shape->servers);
        if (!entry_find(root, shape->servers)) /* `[[mcp_servers]]`: our table belongs to its last element */
                return err_set(err, 0, -EEXIST,
                               "a table [%s." ENTRY_NAME "] cannot be added: %s in line %u is no table",
                               shape->servers, shape->servers,
                               toml_find(root, slice_from_str(shape->servers))->line);
        *ret_text = slice_from(arena_dup(a, buf_slice(&out)), out.n);
        return EDIT_CHANGED;
}

/* ---- removing ---- */

/* The lines of a text that the parser has taken. */
struct lines {
        const char *s;
        size_t n, i;
};

/* Skips the string that begins here. */
static void skip_string(struct lines *l)
{
        char quote = l->s[l->i];
        size_t width = l->n - l->i >= 3 && l->s[l->i + 1] == quote && l->s[l->i + 2] == quote ? 3 : 1,
               run = 0;

        if (width == 3 || l->n - l->i < 2 || l->s[l->i + 1] != quote) {
                for (l->i += width; l->i < l->n && run < width; l->i++) {
                        bool is_escape = quote == '"' && l->s[l->i] == '\\';
                        run = l->s[l->i] == quote ? run + 1 : 0;
                        l->i += is_escape;
                }
                /* Two more quotes may stand in front of the three that end the string. */
                for (int more = 0; width == 3 && more < 2 && l->i < l->n && l->s[l->i] == quote; more++)
                        l->i++;
        } else {
                l->i += 2;
        }
        l->i = MIN(l->i, l->n);
}

static void skip_line(struct lines *l)
{
        while (l->i < l->n && l->s[l->i] != '\n')
                l->i++;
        l->i += l->i < l->n;
}

/* Finds the next statement, from the beginning of its first line to the end of its last line. Returns false at the end. */
static bool next_statement(struct lines *l, size_t *ret_start, bool *ret_is_header)
{
        for (;; skip_line(l)) {
                size_t start = l->i;
                while (l->i < l->n && (l->s[l->i] == ' ' || l->s[l->i] == '\t' || l->s[l->i] == '\r'))
                        l->i++;
                if (l->i == l->n)
                        return false;
                *ret_start = start;
                *ret_is_header = l->s[l->i] == '[';
                if (l->s[l->i] != '#' && l->s[l->i] != '\n')
                        break;
        }
        for (int depth = 0; l->i < l->n;) {
                char c = l->s[l->i];
                if (c == '"' || c == '\'') {
                        skip_string(l);
                } else if (c == '#' || c == '\n') {
                        skip_line(l);
                        if (depth == 0)
                                break;
                } else {
                        depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
                        l->i++;
                }
        }
        return true;
}

/* Returns whether a line is the header of the table of our entry, or of a table below that. */
static bool is_ours(struct arena *a, struct slice header, const char *servers)
{
        struct err err = ERR_INIT;
        const struct toml *root = toml_parse(a, header, &err);
        const struct toml *entry = root ? entry_find(root, servers) : NULL;
        return entry && entry->type == TOML_TABLE;
}

/* Takes one line end away from the end of what is kept. */
static void drop_newline(struct buf *out)
{
        if (out->n > 0 && out->p[out->n - 1] == '\n')
                buf_truncate(out, out->n - 1 - (out->n > 1 && out->p[out->n - 2] == '\r'));
}

static bool ends_with_blank_line(const struct buf *out)
{
        size_t n = out->n;

        if (n == 0 || out->p[n - 1] != '\n')
                return false;
        n -= n > 1 && out->p[n - 2] == '\r' ? 2 : 1;
        return n == 0 || out->p[n - 1] == '\n' || slice_eq(slice_from(out->p, n), BOM);
}

/* Appends what is kept of the text: all but our tables, each with the blank line in front of it. */
static void keep(struct arena *a, struct buf *out, struct slice text, const char *servers)
{
        struct lines l = { .s = text.p, .n = text.n, .i = slice_starts(text, BOM) ? 3 : 0 };
        size_t kept = 0, start;
        bool is_in_ours = false, is_header;

        while (next_statement(&l, &start, &is_header)) {
                bool is_mine =
                        is_header ? is_ours(a, slice_from(text.p + start, l.i - start), servers) : is_in_ours;
                if (is_header && is_mine) {
                        must(buf_append(out, slice_from(text.p + kept, start - kept)) == 0);
                        if (ends_with_blank_line(out))
                                drop_newline(out);
                }
                is_in_ours = is_mine;
                if (is_mine)
                        kept = l.i;
        }
        must(buf_append(out, slice_from(text.p + kept, text.n - kept)) == 0);
        if (kept == text.n && text.n > 0 && text.p[text.n - 1] != '\n')
                drop_newline(out);
}

int toml_edit_remove(struct arena *a, struct slice text, const struct config_shape *shape,
                     struct slice *ret_text, struct err *err)
{
        _buf_ struct buf out = BUF_INIT(LIMIT_CLIENT_CONFIG_BYTES);
        const struct toml *root = parse(a, text, err);

        if (!root)
                return -EINVAL;
        const struct toml *old = entry_find(root, shape->servers);
        if (!old)
                return EDIT_NOTHING;
        keep(a, &out, text, shape->servers);
        root = parse(a, buf_slice(&out), err);
        if (!root || entry_find(root, shape->servers))
                return err_set(err, 0, -EEXIST,
                               "what line %u says of it is no table [%s." ENTRY_NAME
                               "]: take it away by hand",
                               old->line, shape->servers);
        if (out.n == 0 && text.p[0] == '[')
                return EDIT_EMPTY;
        *ret_text = slice_from(arena_dup(a, buf_slice(&out)), out.n);
        return EDIT_CHANGED;
}
