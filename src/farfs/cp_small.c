/* cp_small: small files of one directory together in one request, several requests under way.
 *
 * Files of this machine go to a server by fs/writeFiles, a request that is made while they are read. Files of a server come by
 * fs/readFiles; what the answer brings is written on this machine, or goes to another server by fs/writeFiles. Both requests may be done
 * twice, so a lost connection costs nothing but time.
 */
#include "base/base64.h"
#include "base/fd.h"
#include "base/mem.h"
#include "farfs/cp.h"
#include "wire/json.h"

#include <errno.h>
#include <unistd.h>

#define REQUEST_MAX ((size_t)4 * 1024 * 1024)
#define ANSWER_MAX ((size_t)64 * 1024 * 1024)

struct item {
        char *name;    /* in the directory that the file comes from */
        char *to_name; /* in the directory that the file goes to; NULL: the same name */
        uint64_t size;
};

struct cp_batch {
        struct cp_dir *from, *to;
        bool is_read; /* by fs/readFiles; otherwise by fs/writeFiles */
        size_t count;
        size_t bytes;
        struct item items[CP_BATCH_FILES];
        struct buf text; /* the params */
        struct jsonw w;
};

bool cp_small_is_possible(const struct cp_dir *from, const struct cp_dir *to)
{
        return (cp_is_near(from->side) || from->side->has_batch) &&
               (cp_is_near(to->side) || to->side->has_batch);
}

static const char *to_name(const struct item *item)
{
        return item->to_name ? item->to_name : item->name;
}

static struct cp_batch *batch_new(struct cp_dir *from, struct cp_dir *to, bool is_read)
{
        struct cp_batch *b = mem_new(struct cp_batch);
        _free_ char *path = cp_path_json(is_read ? from : to, NULL);
        b->from = cp_dir_ref(from);
        b->to = cp_dir_ref(to);
        b->is_read = is_read;
        b->text = BUF_INIT(REQUEST_MAX);
        jsonw_begin(&b->w, &b->text);
        jsonw_object(&b->w);
        jsonw_key(&b->w, "path");
        jsonw_raw(&b->w, slice_from_str(path));
        jsonw_member_bool(&b->w, "unordered", true);
        jsonw_key(&b->w, is_read ? "names" : "files");
        jsonw_array(&b->w);
        return b;
}

static void batch_free(struct cp_batch *b)
{
        cp_dir_unref(b->from);
        cp_dir_unref(b->to);
        for (size_t i = 0; i < b->count; i++) {
                free(b->items[i].name);
                free(b->items[i].to_name);
        }
        buf_release(&b->text);
        free(b);
}

static void add_item(struct cp_batch *b, const char *name, const char *target, uint64_t size)
{
        b->items[b->count++] = (struct item){
                .name = mem_strdup(name),
                .to_name = strcmp(name, target) == 0 ? NULL : mem_strdup(target),
                .size = size,
        };
        b->bytes += (size_t)size;
        if (b->is_read)
                jsonw_str(&b->w, name);
}

static void add_content(struct cp_batch *b, const char *name, const char *target, struct slice content,
                        const struct cp_meta *meta)
{
        add_item(b, name, target, content.n);
        jsonw_object(&b->w);
        jsonw_member_str(&b->w, "name", target);
        if (meta->has_mode)
                jsonw_member_u64(&b->w, "mode", meta->mode & 0777);
        jsonw_member_i64(&b->w, "modifiedAtMs", meta->modified_ms);
        jsonw_key(&b->w, "dataBase64");
        jsonw_base64(&b->w, content);
        jsonw_object_end(&b->w);
}

/* ---- answers ---- */

struct answer {
        struct arena arena;
        struct buf text;
        struct json_doc doc;
        const struct json *files; /* NULL: there is no list */
};

static void answer_parse(struct answer *a, const char *result)
{
        struct json_error bad;
        *a = (struct answer){ .text = BUF_INIT(ANSWER_MAX) };
        if (buf_append(&a->text, slice_from_str(result)) < 0 ||
            json_parse(&a->arena, buf_slice(&a->text), &a->doc, &bad) < 0)
                return;
        const struct json *files = json_get(&a->doc, json_root(&a->doc), S("files"));
        if (files && files->type == JSON_ARRAY)
                a->files = files;
}

static void answer_free(struct answer *a)
{
        arena_release(&a->arena);
        buf_release(&a->text);
}

/* Returns whether the server could read or write one file. Complains if not. */
static bool is_good(struct answer *a, const struct json *file, struct cp_dir *dir, const char *name)
{
        const struct json *failure = json_get(&a->doc, file, S("error"));
        if (!failure)
                return true;
        struct farhand_error error = { .code = -EREMOTEIO, .rpc_code = -32603 };
        const struct json *text = json_get(&a->doc, failure, S("message"));
        struct slice words = text && text->type == JSON_STRING ? json_string(&a->arena, &a->doc, text)
                                                               : S("it was refused");
        (void)snprintf(error.text, sizeof(error.text), "%.*s", (int)MIN(words.n, sizeof(error.text) - 1),
                       words.p);
        cp_complain(dir, name, &error);
        return false;
}

static void send_batch(struct cp_batch *b);

static void on_written(UNUSED struct farhand *f, void *arg, const char *result,
                       const struct farhand_error *error)
{
        struct cp_batch *b = arg;
        struct answer a = { 0 };
        size_t i = 0;
        b->to->cp->under_way--;
        if (!error) {
                answer_parse(&a, result);
                if (a.files)
                        json_each (it, &a.doc, a.files) {
                                if (i == b->count)
                                        break;
                                const struct item *item = &b->items[i++];
                                if (is_good(&a, it, b->to, to_name(item)))
                                        cp_done(b->from, item->name, b->to, to_name(item), item->size);
                        }
        }
        for (; i < b->count; i++) {
                if (error)
                        cp_complain(b->to, to_name(&b->items[i]), error);
                else
                        cp_complain_text(b->to, to_name(&b->items[i]),
                                         "the server's answer does not name it");
        }
        answer_free(&a);
        batch_free(b);
}

/* Takes one file of an answer: writes it here, or adds it to the request to the other server. */
static void take_file(struct cp_batch *b, const struct item *item, struct answer *a, const struct json *file,
                      struct cp_batch *onward)
{
        struct cp_meta meta = { .kind = CP_FILE };
        uint64_t mode = 0, size = UINT64_MAX;
        const struct json *data = json_get(&a->doc, file, S("dataBase64"));
        const struct json *v = json_get(&a->doc, file, S("mode"));
        meta.has_mode = v && json_u64(&a->doc, v, &mode) == 0;
        meta.mode = (uint32_t)mode & 0777;
        v = json_get(&a->doc, file, S("modifiedAtMs"));
        bool is_whole =
                v && json_i64(&a->doc, v, &meta.modified_ms) == 0 && data && data->type == JSON_STRING;
        v = json_get(&a->doc, file, S("size"));
        is_whole = is_whole && v && json_u64(&a->doc, v, &size) == 0;
        ssize_t n = -1;
        struct slice text = { 0 };
        if (is_whole) {
                text = json_string(&a->arena, &a->doc, data);
                n = base64_decode((char *)text.p, text.p, text.n, NULL); /* in our own copy of the answer */
        }
        if (n < 0 || (uint64_t)n != size) {
                cp_complain_text(b->from, item->name,
                                 n < 0 ? "the server's answer has no content"
                                       : "it was changed while it was copied");
                return;
        }
        struct slice content = slice_from(text.p, (size_t)n);
        if (onward) {
                add_content(onward, item->name, to_name(item), content, &meta);
                return;
        }
        int r = cp_near_write(b->to->fd, to_name(item), content, &meta);
        if (r < 0)
                cp_complain_errno(b->to, to_name(item), -r);
        else
                cp_done(b->from, item->name, b->to, to_name(item), content.n);
}

/* Asks again for files that an answer had no room for. */
static void ask_rest(struct cp_batch *b, size_t from)
{
        struct cp_batch *rest = batch_new(b->from, b->to, true);
        for (size_t i = from; i < b->count; i++)
                add_item(rest, b->items[i].name, to_name(&b->items[i]), b->items[i].size);
        send_batch(rest);
}

static void on_read(UNUSED struct farhand *f, void *arg, const char *result,
                    const struct farhand_error *error)
{
        struct cp_batch *b = arg, *onward = NULL;
        struct answer a = { 0 };
        size_t i = 0;
        b->to->cp->under_way--;
        if (!error)
                answer_parse(&a, result);
        if (a.files && !cp_is_near(b->to->side))
                onward = batch_new(b->from, b->to, false);
        if (a.files)
                json_each (it, &a.doc, a.files) {
                        if (i == b->count)
                                break;
                        const struct item *item = &b->items[i++];
                        if (is_good(&a, it, b->from, item->name))
                                take_file(b, item, &a, it, onward);
                }
        answer_free(&a);
        if (onward && onward->count > 0)
                send_batch(onward);
        else if (onward)
                batch_free(onward);
        if (i > 0 && i < b->count)
                ask_rest(b, i);
        for (size_t n = 0; i == 0 && n < b->count; n++) {
                if (error)
                        cp_complain(b->from, b->items[n].name, error);
                else
                        cp_complain_text(b->from, b->items[n].name, "the server's answer does not name it");
        }
        batch_free(b);
}

/* ---- requests ---- */

static void send_batch(struct cp_batch *b)
{
        struct farhand_error error = { .code = -EMSGSIZE, .text = "the request is too long" };
        struct farhand *f = b->is_read ? b->from->side->fs.client : b->to->side->fs.client;
        farhand_on_answer done = b->is_read ? on_read : on_written;
        jsonw_array_end(&b->w);
        jsonw_object_end(&b->w);
        b->to->cp->under_way++;
        int r = jsonw_end(&b->w) < 0 ? -EMSGSIZE
                                     : farhand_call(f, b->is_read ? "fs/readFiles" : "fs/writeFiles",
                                                    b->text.p, FARHAND_REPEAT, done, b, &error);
        if (r < 0) {
                done(f, b, NULL, &error);
                return;
        }
        buf_release(&b->text); /* the library has a copy */
}

void cp_small_flush(struct cp *cp)
{
        struct cp_batch *b = TAKE(cp->batch);
        if (!b)
                return;
        cp_settle(cp, CP_BATCHES_MAX - 1);
        send_batch(b);
}

static struct cp_batch *batch_for(struct cp_dir *from, struct cp_dir *to, uint64_t size)
{
        struct cp *cp = from->cp;
        struct cp_batch *b = cp->batch;
        if (b && (b->from != from || b->to != to || b->count == CP_BATCH_FILES ||
                  b->bytes + size > CP_BATCH_BYTES))
                cp_small_flush(cp);
        if (!cp->batch)
                cp->batch = batch_new(from, to, !cp_is_near(from->side));
        return cp->batch;
}

void cp_small(struct cp_dir *from, const struct cp_entry *entry, struct cp_dir *to, const char *name)
{
        if (!cp_is_near(from->side)) {
                add_item(batch_for(from, to, entry->meta.size), entry->name, name, entry->meta.size);
                return;
        }
        char content[CP_SMALL_BYTES + 1];
        struct stat st;
        struct cp_meta meta;
        size_t n = 0;
        _close_ int fd = cp_near_open(from->fd, entry->name, &st);
        ssize_t some = fd;
        while (fd >= 0 && n < sizeof(content) && (some = read(fd, content + n, sizeof(content) - n)) > 0)
                n += (size_t)some;
        if (fd < 0 || some < 0) {
                cp_complain_errno(from, entry->name, fd < 0 ? -fd : errno);
                return;
        }
        if (n != (uint64_t)st.st_size) {
                cp_complain_text(from, entry->name, "it was changed while it was copied");
                return;
        }
        cp_meta_from_stat(&st, &meta);
        add_content(batch_for(from, to, n), entry->name, name, slice_from(content, n), &meta);
}
