/* batch: many files of a directory with few requests, and digests of parts of files (fsBatchV1). */
#include "question/question.h"

#include "base/base64.h"
#include "base/utf8.h"
#include "client/error.h"
#include "client/member.h"

#include <errno.h>

#define FILES_MAX 1024                            /* in one request */
#define PIECE_BYTES_MAX ((size_t)8 * 1024 * 1024) /* one request, unless one file alone needs more */
#define NAME_BYTES_MAX 255
#define TARGET_BYTES_MAX 4096
#define ENCODED_MAX (2 * TARGET_BYTES_MAX)   /* a name or a target as base64 */
#define NAME_ROOM (NAME_BYTES_MAX * 6 + 128) /* what a file takes beside its content */

static int check_server(struct farhand *f, struct farhand_error *ret_error)
{
        return question_needs(f, "fsBatchV1", "this server has no fsBatchV1", ret_error);
}

/* Returns bytes that are either in a text member or, when they are not UTF-8, as base64 in another. .p is NULL when both are missing. */
static struct slice bytes_of(struct question *q, const struct json *object, struct slice key,
                             struct slice key_base64)
{
        struct slice text = member_string(&q->arena, &q->doc, object, key);
        struct slice encoded = member_string(&q->arena, &q->doc, object, key_base64);
        if (text.p || !encoded.p || encoded.n > ENCODED_MAX)
                return text;
        char *bytes = arena_alloc(&q->arena, base64_decoded_max(encoded.n) + 1);
        ssize_t n = base64_decode(bytes, encoded.p, encoded.n, NULL);
        return n < 0 ? (struct slice){ 0 } : slice_from(bytes, (size_t)n);
}

/* ---- directories ---- */

/* Reads one entry. Returns false when its name or kind makes no sense. */
static bool read_scanned(struct question *q, const struct json *o, struct farhand_scanned *ret)
{
        static const char *const kinds[] = { [FARHAND_KIND_FILE] = "file",
                                             [FARHAND_KIND_DIRECTORY] = "directory",
                                             [FARHAND_KIND_LINK] = "link",
                                             [FARHAND_KIND_OTHER] = "other" };
        struct slice name = bytes_of(q, o, S("name"), S("nameBase64"));
        struct slice target = bytes_of(q, o, S("target"), S("targetBase64"));
        size_t kind = slice_find(member_string(&q->arena, &q->doc, o, S("kind")), kinds, ARRAY_LEN(kinds));
        uint64_t mode = 0;
        if (!name.p || !question_is_name(name) || name.n > NAME_BYTES_MAX || kind == ARRAY_LEN(kinds))
                return false;
        *ret = (struct farhand_scanned){ .name = arena_dup(&q->arena, name),
                                         .kind = (enum farhand_kind)kind };
        if (target.p && target.n > 0 && target.n <= TARGET_BYTES_MAX && !slice_has_nul(target))
                ret->target = arena_dup(&q->arena, target);
        (void)member_u64(&q->doc, o, S("size"), &ret->size);
        (void)member_u64(&q->doc, o, S("mode"), &mode);
        (void)member_i64(&q->doc, o, S("modifiedAtMs"), &ret->modified_ms);
        ret->mode = (uint32_t)mode & 07777;
        return true;
}

/* Tells the entries of one answer. Leaves the last name in `after`. Returns 1 when there are more entries; 0; or -EPROTO, also when the
 * names do not rise: a server could otherwise keep the program busy for ever with the same names. */
static int tell_scanned(struct question *q, struct buf *after,
                        void (*on_entry)(void *arg, const struct farhand_scanned *entry), void *arg,
                        struct farhand_error *ret_error)
{
        const struct json *entries = question_array(q, S("entries"), ret_error);
        bool is_first = after->n == 0, has_more = member_is_true(&q->doc, question_root(q), S("truncated"));
        if (!entries)
                return -EPROTO;
        if (has_more && json_count(&q->doc, entries) == 0)
                return error_set(ret_error, -EPROTO, "the server's answer has no entries");
        json_each (it, &q->doc, entries) {
                struct farhand_scanned entry;
                if (!read_scanned(q, it, &entry) || (!is_first && strcmp(entry.name, after->p) <= 0))
                        return error_set(ret_error, -EPROTO,
                                         "the server's answer has an entry that cannot be");
                is_first = false;
                buf_truncate(after, 0);
                (void)!buf_append(after, slice_from_str(entry.name)); /* a name fits: read_scanned looked */
                on_entry(arg, &entry);
        }
        return has_more;
}

int farhand_scan(struct farhand *f, const char *path,
                 void (*on_entry)(void *arg, const struct farhand_scanned *entry), void *arg,
                 struct farhand_error *ret_error)
{
        _buf_ struct buf after = BUF_INIT(NAME_BYTES_MAX);
        int r = check_server(f, ret_error);
        for (r = r < 0 ? r : 1; r > 0;) {
                _question_ struct question q = QUESTION_INIT;
                question_begin_file(&q, f, "fs/scanDirectory", FARHAND_REPEAT);
                r = question_path(&q, "path", path, ret_error);
                if (after.n > 0 && utf8_is_valid(buf_slice(&after))) {
                        jsonw_member_string(&q.w, "after", buf_slice(&after));
                } else if (after.n > 0) {
                        jsonw_key(&q.w, "afterBase64");
                        jsonw_base64(&q.w, buf_slice(&after));
                }
                r = r < 0 ? r : question_ask(&q, ret_error);
                r = r < 0 ? r : tell_scanned(&q, &after, on_entry, arg, ret_error);
        }
        return r;
}

/* ---- files ---- */

static int check_name(const char *name, struct farhand_error *ret_error)
{
        struct slice s = slice_from_str(name);
        if (!question_is_name(s) || s.n > NAME_BYTES_MAX)
                return error_set(ret_error, -EINVAL, "`%s` is not the name of a file", name);
        /* These names are JSON strings, which cannot hold other bytes. */
        return utf8_is_valid(s) ? 0 : error_set(ret_error, -EILSEQ, "the name of a file is not UTF-8");
}

/* Reads the member `error` of a file. Returns false when the file has none. */
static bool read_error(struct question *q, const struct json *file, struct farhand_error *ret)
{
        const struct json *error = json_get(&q->doc, file, S("error"));
        int64_t number = 0;
        if (!error)
                return false;
        struct slice text = member_string(&q->arena, &q->doc, error, S("message"));
        error_set(ret, -EREMOTEIO, "%.*s", (int)MIN(text.n, sizeof(ret->text)), text.p ? text.p : "");
        if (member_i64(&q->doc, error, S("errno"), &number) && number > 0 && number <= INT32_MAX)
                (void)snprintf(ret->data, sizeof(ret->data), "{\"errno\":%d}", (int)number);
        return true;
}

/* Tells one file that was read. */
static int tell_file(struct question *q, const struct json *o, size_t index,
                     void (*on_file)(void *arg, size_t index, const struct farhand_read *file), void *arg,
                     struct farhand_error *ret_error)
{
        _buf_ struct buf content = BUF_INIT(TRANSPORT_MESSAGE_MAX);
        struct farhand_read file = { 0 };
        struct farhand_error error;
        uint64_t mode = 0;
        char *room;
        if (read_error(q, o, &error)) {
                file.error = &error;
                on_file(arg, index, &file);
                return 0;
        }
        struct slice text = member_string(&q->arena, &q->doc, o, S("dataBase64"));
        int r = text.p ? buf_reserve_or_fail(&content, base64_decoded_max(text.n), &room) : -EPROTO;
        ssize_t n = r < 0 ? r : base64_decode(room, text.p, text.n, NULL);
        if (n < 0)
                return error_set(ret_error, r == -ENOMEM ? r : -EPROTO,
                                 "the server's answer has no usable content");
        buf_commit(&content, (size_t)n);
        file.bytes = content.p;
        file.n = content.n;
        (void)member_u64(&q->doc, o, S("mode"), &mode);
        (void)member_i64(&q->doc, o, S("modifiedAtMs"), &file.modified_ms);
        file.mode = (uint32_t)mode & 07777;
        on_file(arg, index, &file);
        return 0;
}

/* Asks for the first of these files. Returns how many of them the server has told, or -errno. */
static ssize_t read_some(struct farhand *f, const char *path, const char *const *names, size_t count,
                         size_t first,
                         void (*on_file)(void *arg, size_t index, const struct farhand_read *file), void *arg,
                         struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        size_t n = MIN(count, (size_t)FILES_MAX), index = first;
        question_begin_file(&q, f, "fs/readFiles", FARHAND_REPEAT);
        question_make_room(&q, n * NAME_ROOM);
        int r = question_path(&q, "path", path, ret_error);
        jsonw_key(&q.w, "names");
        jsonw_array(&q.w);
        for (size_t i = 0; i < n; i++)
                jsonw_str(&q.w, names[i]);
        jsonw_array_end(&q.w);
        r = r < 0 ? r : question_ask(&q, ret_error);
        if (r < 0)
                return r;
        const struct json *files = question_array(&q, S("files"), ret_error);
        if (!files)
                return -EPROTO;
        size_t told = json_count(&q.doc, files);
        if (told == 0 || told > n)
                return error_set(ret_error, -EPROTO, "the server's answer has %zu files, of %zu", told, n);
        json_each (it, &q.doc, files) {
                r = tell_file(&q, it, index++, on_file, arg, ret_error);
                if (r < 0)
                        return r;
        }
        return (ssize_t)told;
}

int farhand_read_files(struct farhand *f, const char *path, const char *const *names, size_t count,
                       void (*on_file)(void *arg, size_t index, const struct farhand_read *file), void *arg,
                       struct farhand_error *ret_error)
{
        int r = check_server(f, ret_error);
        for (size_t i = 0; r == 0 && i < count; i++)
                r = check_name(names[i], ret_error);
        for (size_t done = 0; r == 0 && done < count;) {
                ssize_t n = read_some(f, path, names + done, count - done, done, on_file, arg, ret_error);
                if (n < 0)
                        return (int)n;
                done += (size_t)n;
        }
        return r;
}

static const struct farhand_new_file *file_at(const struct farhand_new_file *files, size_t i)
{
        return (const struct farhand_new_file *)(const void *)((const char *)files + i * files->size);
}

static int check_files(const struct farhand_new_file *files, size_t count, struct farhand_error *ret_error)
{
        int r = 0;
        for (size_t i = 0; r == 0 && i < count; i++) {
                if (files->size < sizeof(struct farhand_new_file) || files->size % sizeof(size_t) != 0 ||
                    file_at(files, i)->size != files->size)
                        return error_set(ret_error, -EINVAL,
                                         "struct farhand_new_file has no size, or not always the same");
                if (file_at(files, i)->n > WHOLE_FILE_MAX)
                        return error_set(ret_error, -EFBIG, "the content is longer than %zu bytes",
                                         WHOLE_FILE_MAX);
                r = check_name(file_at(files, i)->name, ret_error);
        }
        return r;
}

/* Writes the first files, as many as one request takes. Returns how many. */
static size_t write_list(struct question *q, const struct farhand_new_file *files, size_t count)
{
        size_t n = 0, bytes = 0;
        jsonw_key(&q->w, "files");
        jsonw_array(&q->w);
        for (; n < MIN(count, (size_t)FILES_MAX); n++) {
                const struct farhand_new_file *file = file_at(files, n);
                size_t room = base64_encoded_size(file->n) + NAME_ROOM;
                bytes += room;
                if (n > 0 && bytes > PIECE_BYTES_MAX)
                        break;
                question_make_room(q, room);
                jsonw_object(&q->w);
                jsonw_member_str(&q->w, "name", file->name);
                jsonw_key(&q->w, "dataBase64");
                jsonw_base64(&q->w, slice_from(file->bytes, file->n));
                if (file->mode >= 0)
                        jsonw_member_i64(&q->w, "mode", file->mode);
                if (file->modified_ms >= 0)
                        jsonw_member_i64(&q->w, "modifiedAtMs", file->modified_ms);
                jsonw_object_end(&q->w);
        }
        jsonw_array_end(&q->w);
        return n;
}

int farhand_write_files(struct farhand *f, const char *path, const struct farhand_new_file *files,
                        size_t count,
                        void (*on_failed)(void *arg, size_t index, const struct farhand_error *error),
                        void *arg, struct farhand_error *ret_error)
{
        bool has_failed = false;
        int r = check_server(f, ret_error);
        r = r < 0 ? r : check_files(files, count, ret_error);
        for (size_t done = 0; r == 0 && done < count;) {
                _question_ struct question q = QUESTION_INIT;
                question_begin_file(&q, f, "fs/writeFiles", 0);
                r = question_path(&q, "path", path, ret_error);
                size_t n = write_list(&q, file_at(files, done), count - done);
                r = r < 0 ? r : question_ask(&q, ret_error);
                if (r < 0)
                        return r;
                const struct json *written = question_array(&q, S("files"), ret_error);
                if (!written)
                        return -EPROTO;
                if (json_count(&q.doc, written) != n)
                        return error_set(ret_error, -EPROTO, "the server did not answer for each file");
                json_each (it, &q.doc, written) {
                        struct farhand_error error;
                        bool failed = read_error(&q, it, &error);
                        has_failed |= failed;
                        if (failed && on_failed)
                                on_failed(arg, done, &error);
                        done++;
                }
        }
        return r < 0 ? r : has_failed;
}
