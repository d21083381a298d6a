/* file_result: what read_file, write_file, list_directory and view_image return, as text and as an object. */
#include "unified/file_result.h"

#include "base/fatal.h"
#include "base/printable.h"
#include "unified/file_text.h"
#include "wire/jsonw.h"

#include <inttypes.h>

#define LISTED_NAME_BYTES 1024 /* longer names are left out: no file system has them */

static void begin(struct jsonw *w, struct unified_call *c)
{
        jsonw_begin(w, &c->structured);
        jsonw_object(w);
        jsonw_member_str(w, "path", c->file.path);
}

static void end(struct jsonw *w)
{
        jsonw_object_end(w);
        must(jsonw_end(w) == 0);
}

const char *file_result_text(struct unified_call *c, struct slice bytes)
{
        const struct file_args *args = &c->file.args;
        _buf_ struct buf text = BUF_INIT(TOOL_ANSWER_TEXT_MAX);
        struct file_lines lines;
        struct jsonw w;
        must(file_lines_take(&text, bytes, args->offset, args->limit, &lines) == 0);
        uint64_t next = args->offset + lines.count;
        bool has_more = lines.total >= next;
        begin(&w, c);
        jsonw_member_string(&w, "text", buf_slice(&text));
        jsonw_member_u64(&w, "offset", args->offset);
        jsonw_member_u64(&w, "lines", lines.count);
        jsonw_member_u64(&w, "total_lines", lines.total);
        jsonw_member_u64(&w, "size", bytes.n);
        jsonw_member_bool(&w, "is_utf8", lines.is_utf8);
        jsonw_member_bool(&w, "is_cut", lines.is_cut);
        end(&w);
        must(buf_append(&c->text, buf_slice(&text)) == 0);
        if (!lines.is_utf8)
                must(buf_append(&c->text,
                                S("\n[The file is not UTF-8: U+FFFD stands for bytes that are not.]")) == 0);
        if (lines.is_cut)
                must(buf_append(&c->text, S("\n[The line is longer than this; its rest is left out.]")) == 0);
        if (has_more || lines.count == 0)
                must(buf_printf(&c->text, "\n[%" PRIu64 " of %" PRIu64 " lines, from %" PRIu64 " on%s]",
                                lines.count, lines.total, args->offset,
                                has_more ? "; there are more" : "") == 0);
        return NULL;
}

const char *file_result_image(struct unified_call *c, struct slice bytes)
{
        const char *type = file_image_type(bytes);
        struct jsonw w;
        if (!type)
                return "not an image: PNG, JPEG, GIF and WebP can be shown";
        c->file.image_type = type;
        c->file.image = bytes;
        begin(&w, c);
        jsonw_member_str(&w, "mime_type", type);
        jsonw_member_u64(&w, "size", bytes.n);
        end(&w);
        return NULL;
}

void file_result_written(struct unified_call *c)
{
        struct jsonw w;
        begin(&w, c);
        jsonw_member_u64(&w, "size", c->file.args.content.n);
        end(&w);
        must(buf_printf(&c->text, "%zu bytes written to %s", c->file.args.content.n, c->file.path) == 0);
}

/* ---- lists ---- */

static struct slice text_of(struct arena *a, const struct json_doc *d, const struct json *object,
                            struct slice key)
{
        const struct json *v = json_get(d, object, key);
        return v && v->type == JSON_STRING ? json_string(a, d, v) : S("");
}

static bool is_true(const struct json_doc *d, const struct json *object, struct slice key)
{
        const struct json *v = json_get(d, object, key);
        return v && v->type == JSON_TRUE;
}

/* Returns the kind of an entry, of fs/scanDirectory or of fs/readDirectory. */
static const char *kind_of(struct arena *a, const struct json_doc *d, const struct json *entry)
{
        static const char *const kinds[] = { "file", "directory", "link", "other" };
        size_t which = slice_find(text_of(a, d, entry, S("kind")), kinds, ARRAY_LEN(kinds));
        if (which < ARRAY_LEN(kinds))
                return kinds[which];
        return is_true(d, entry, S("isDirectory")) ? "directory"
               : is_true(d, entry, S("isFile"))    ? "file"
                                                   : "other";
}

/* Appends a line with the name of an entry, and a slash behind the name of a directory. */
static void write_line(struct unified_call *c, struct arena *a, struct slice name, const char *kind)
{
        const char *shown = printable_text(a, name), *mark = strcmp(kind, "directory") == 0 ? "/"
                                                             : strcmp(kind, "link") == 0    ? "@"
                                                                                            : "";
        must(buf_printf(&c->text, "%s%s\n", shown, mark) == 0);
}

static void write_entry(struct unified_call *c, struct jsonw *w, struct arena *a, const struct json_doc *d,
                        const struct json *entry)
{
        struct slice name = text_of(a, d, entry, S("name")), other = text_of(a, d, entry, S("fileName"));
        const char *kind = kind_of(a, d, entry);
        const struct json *size = json_get(d, entry, S("size"));
        uint64_t bytes;
        name = name.n > 0 ? name : other;
        if (name.n == 0 || name.n > LISTED_NAME_BYTES)
                return; /* not UTF-8, so that no path of an argument could name it */
        jsonw_object(w);
        jsonw_member_string(w, "name", name);
        jsonw_member_str(w, "kind", kind);
        if (size && strcmp(kind, "file") == 0 && json_u64(d, size, &bytes) == 0)
                jsonw_member_u64(w, "size", bytes);
        jsonw_object_end(w);
        write_line(c, a, name, kind);
}

void file_result_list(struct unified_call *c, const struct json_doc *d)
{
        const struct json *entries = json_get(d, json_root(d), S("entries"));
        bool is_truncated = is_true(d, json_root(d), S("truncated"));
        size_t count = 0;
        struct jsonw w;
        begin(&w, c);
        jsonw_key(&w, "entries");
        jsonw_array(&w);
        if (entries && entries->type == JSON_ARRAY) {
                json_each (entry, d, entries) {
                        is_truncated |= count == FILE_ENTRIES;
                        if (count++ < FILE_ENTRIES)
                                write_entry(c, &w, &c->strings, d, entry);
                }
        }
        jsonw_array_end(&w);
        jsonw_member_bool(&w, "truncated", is_truncated);
        end(&w);
        if (is_truncated)
                must(buf_append(&c->text, S("[there are more: go on with `after`]\n")) == 0);
        else if (c->text.n == 0)
                must(buf_append(&c->text, S("[empty]\n")) == 0);
}
