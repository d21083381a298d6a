/* cp_list: the names in a directory of either side, sorted by bytes.
 *
 * A server is asked for a page at a time, so that memory is bounded; on this machine a directory is one page.
 */
#include "base/base64.h"
#include "base/mem.h"
#include "farfs/cp.h"
#include "wire/json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#define ANSWER_MAX ((size_t)64 * 1024 * 1024)

bool cp_is_name(struct slice name)
{
        return name.n > 0 && name.n <= CP_NAME_MAX && !slice_has_nul(name) && !memchr(name.p, '/', name.n) &&
               !slice_eq(name, S(".")) && !slice_eq(name, S(".."));
}

void cp_list_begin(struct cp_list *list, struct cp_dir *dir)
{
        *list = (struct cp_list){ .dir = cp_dir_ref(dir), .has_more = true };
}

void cp_list_release(struct cp_list *list)
{
        arena_release(&list->arena);
        free(list->after);
        cp_dir_unref(list->dir);
}

static struct cp_entry *add(struct cp_list *list, size_t *room)
{
        list->entries = arena_room(&list->arena, list->entries, list->count, room, sizeof(*list->entries));
        struct cp_entry *e = &list->entries[list->count++];
        *e = (struct cp_entry){ 0 };
        return e;
}

static int by_name(const void *a, const void *b)
{
        return strcmp(((const struct cp_entry *)a)->name, ((const struct cp_entry *)b)->name);
}

/* ---- a directory of this machine ---- */

static int read_near(struct cp_list *list)
{
        int fd = openat(list->dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        size_t room = 0;
        struct stat st;
        if (!d) {
                cp_complain_errno(list->dir, NULL, errno);
                return -1;
        }
        for (const struct dirent *e; errno = 0, (e = readdir(d));) {
                if (!cp_is_name(slice_from_str(e->d_name)))
                        continue;
                if (fstatat(list->dir->fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
                        if (errno != ENOENT) /* otherwise it was removed meanwhile */
                                cp_complain_errno(list->dir, e->d_name, errno);
                        continue;
                }
                struct cp_entry *entry = add(list, &room);
                entry->name = arena_dup(&list->arena, slice_from_str(e->d_name));
                cp_meta_from_stat(&st, &entry->meta);
                char target[PATH_MAX];
                ssize_t n = entry->meta.kind == CP_LINK
                                    ? readlinkat(list->dir->fd, entry->name, target, sizeof(target))
                                    : 0;
                if (n > 0 && (size_t)n < sizeof(target))
                        entry->target = arena_dup(&list->arena, slice_from(target, (size_t)n));
        }
        int e = errno;
        (void)closedir(d);
        if (e) {
                cp_complain_errno(list->dir, NULL, e);
                return -1;
        }
        if (list->count > 0)
                qsort(list->entries, list->count, sizeof(*list->entries), by_name);
        list->has_more = false;
        return 0;
}

/* ---- a directory of a server ---- */

/* Reads bytes that are text in one member or, when they are not UTF-8, base64 in another one. */
static struct slice bytes_of(struct arena *a, const struct json_doc *doc, const struct json *object,
                             struct slice key, struct slice key_base64)
{
        const struct json *v = json_get(doc, object, key);
        if (v && v->type == JSON_STRING)
                return json_string(a, doc, v);
        v = json_get(doc, object, key_base64);
        if (!v || v->type != JSON_STRING)
                return (struct slice){ 0 };
        struct slice text = json_string(a, doc, v);
        char *bytes = arena_alloc(a, base64_decoded_max(text.n) + 1);
        ssize_t n = base64_decode(bytes, text.p, text.n, NULL);
        return n < 0 ? (struct slice){ 0 } : slice_from(bytes, (size_t)n);
}

static enum cp_kind kind_of(const struct json_doc *doc, const struct json *entry)
{
        static const char *const names[] = { "file", "directory", "link" };
        static const enum cp_kind kinds[] = { CP_FILE, CP_DIRECTORY, CP_LINK, CP_OTHER };
        const struct json *v = json_get(doc, entry, S("kind"));
        return v && v->type == JSON_STRING ? kinds[slice_find(json_raw(doc, v), names, ARRAY_LEN(names))]
                                           : CP_OTHER;
}

static void take_entry(struct cp_list *list, const struct json_doc *doc, const struct json *item,
                       struct arena *scratch, size_t *room)
{
        uint64_t mode = 0;
        struct slice name = bytes_of(scratch, doc, item, S("name"), S("nameBase64"));
        if (!cp_is_name(name)) {
                cp_complain_text(list->dir, NULL, "the server lists a name that no file can have");
                return;
        }
        struct cp_entry *e = add(list, room);
        e->name = arena_dup(&list->arena, name);
        e->meta.kind = kind_of(doc, item);
        const struct json *v = json_get(doc, item, S("size"));
        if (v && json_u64(doc, v, &e->meta.size) < 0)
                e->meta.size = 0;
        v = json_get(doc, item, S("modifiedAtMs"));
        if (v && json_i64(doc, v, &e->meta.modified_ms) < 0)
                e->meta.modified_ms = 0;
        v = json_get(doc, item, S("mode"));
        e->meta.has_mode = v && json_u64(doc, v, &mode) == 0;
        e->meta.mode = (uint32_t)(mode & 01777);
        struct slice target = bytes_of(scratch, doc, item, S("target"), S("targetBase64"));
        if (e->meta.kind == CP_LINK && target.n > 0 && target.n < PATH_MAX && !slice_has_nul(target))
                e->target = arena_dup(&list->arena, target);
}

static char *page_params(const struct cp_list *list)
{
        _free_ char *path = cp_path_json(list->dir, NULL);
        size_t n = list->after ? strlen(list->after) : 0;
        char encoded[(CP_NAME_MAX + 2) / 3 * 4 + 1];
        encoded[base64_encode(encoded, list->after, n)] = '\0';
        return mem_printf("{\"path\":%s,\"limit\":%d,\"unordered\":true%s%s%s}", path, CP_PAGE,
                          n ? ",\"afterBase64\":\"" : "", encoded, n ? "\"" : "");
}

static int read_page(struct cp_list *list)
{
        struct farhand_error error;
        struct json_error bad;
        struct json_doc doc;
        _arena_ struct arena scratch = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(ANSWER_MAX);
        _free_ char *params = page_params(list), *result = NULL;
        size_t room = 0;
        if (cp_call(list->dir->side, "fs/scanDirectory", params, &result, &error) < 0) {
                cp_complain(list->dir, NULL, &error);
                return -1;
        }
        int r = buf_append(&text, slice_from_str(result));
        free(TAKE(result));
        if (r < 0 || json_parse(&scratch, buf_slice(&text), &doc, &bad) < 0) {
                cp_complain_text(list->dir, NULL, "the server's answer makes no sense");
                return -1;
        }
        const struct json *entries = json_get(&doc, json_root(&doc), S("entries"));
        const struct json *more = json_get(&doc, json_root(&doc), S("truncated"));
        /* A server must not list more names than were asked for: each costs memory, and a bad one a line of complaint. */
        if (!entries || entries->type != JSON_ARRAY || json_count(&doc, entries) > CP_PAGE) {
                cp_complain_text(list->dir, NULL,
                                 "the server's answer has no list, or a longer one than was asked for");
                return -1;
        }
        json_each (it, &doc, entries)
                take_entry(list, &doc, it, &scratch, &room);
        list->has_more = more && more->type == JSON_TRUE;
        if (list->count > 0)
                qsort(list->entries, list->count, sizeof(*list->entries), by_name);
        const char *last = list->count > 0 ? list->entries[list->count - 1].name : NULL;
        /* A server that sends the same names again would never come to an end. */
        if (list->has_more && (!last || (list->after && strcmp(last, list->after) <= 0))) {
                cp_complain_text(list->dir, NULL, "the server's list does not come to an end");
                return -1;
        }
        free(list->after);
        list->after = mem_strdup(last);
        return 0;
}

/* The names that on_entry collects from a server without fsBatchV1, which is then asked about each name. */
struct names {
        struct cp_list *list;
        size_t room;
};

static void on_entry(void *arg, const struct farhand_entry *entry)
{
        struct names *n = arg;
        if (!cp_is_name(slice_from_str(entry->name)))
                return;
        struct cp_entry *e = add(n->list, &n->room);
        e->name = arena_dup(&n->list->arena, slice_from_str(entry->name));
}

static int read_names(struct cp_list *list)
{
        struct farhand_error error;
        struct farhand_metadata m;
        struct names n = { .list = list };
        if (farhand_list(list->dir->side->fs.client, list->dir->path, on_entry, &n, &error) < 0) {
                cp_complain(list->dir, NULL, &error);
                return -1;
        }
        for (size_t i = 0; i < list->count; i++) {
                struct cp_entry *e = &list->entries[i];
                _free_ char *path = cp_path(list->dir, e->name);
                e->meta.kind = CP_OTHER;
                if (farhand_stat(list->dir->side->fs.client, path, &m, NULL) < 0)
                        continue;
                /* A link to a file is copied as that file. A link to a directory is left out: it could lead around in circles. */
                e->meta.kind = m.is_file                         ? CP_FILE
                               : m.is_directory && !m.is_symlink ? CP_DIRECTORY
                                                                 : CP_OTHER;
                e->meta.size = m.size;
                e->meta.modified_ms = m.modified_ms;
                e->meta.has_mode = m.has_mode;
                e->meta.mode = m.mode & 01777;
        }
        list->has_more = false;
        return 0;
}

/* ---- a directory of either side ---- */

static int next_page(struct cp_list *list)
{
        arena_release(&list->arena);
        list->entries = NULL;
        list->count = list->at = 0;
        int r = cp_is_near(list->dir->side)  ? read_near(list)
                : list->dir->side->has_batch ? read_page(list)
                                             : read_names(list);
        if (r < 0)
                list->has_more = false;
        return r;
}

const struct cp_entry *cp_list_next(struct cp_list *list, bool *ret_failed)
{
        while (list->at == list->count) {
                if (!list->has_more)
                        return NULL;
                if (next_page(list) < 0) {
                        *ret_failed = true;
                        return NULL;
                }
        }
        return &list->entries[list->at++];
}

const struct cp_entry *cp_list_find(struct cp_list *list, const char *name)
{
        bool has_failed = false;
        for (;;) {
                const struct cp_entry *e = cp_list_next(list, &has_failed);
                int order = e ? strcmp(e->name, name) : 1;
                if (order == 0)
                        return e;
                if (order > 0) {
                        if (e)
                                list->at--; /* the next call may ask for this entry */
                        return NULL;
                }
        }
}
