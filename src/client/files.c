/* files: the methods on files, as functions that wait for the answer. */
#include "client/client_internal.h"

#include "base/base64.h"
#include "base/mem.h"
#include "base/uri.h"
#include "client/error.h"

#include <errno.h>

/* The largest limits of a walk that servers accept. */
#define WALK_DEPTH_MAX 64
#define WALK_DIRECTORIES_MAX 10000
#define WALK_ENTRIES_MAX 50000

#define PARAMS_MAX ((size_t)512 * 1024) /* room for two paths with all their characters escaped */

/* ---- errors ---- */

int farhand_error_errno(const struct farhand_error *error)
{
        static const char member[] = "\"errno\":", suffix[] = "(os error ";
        const char *at = strstr(error->data, member);
        if (at)
                return (int)strtol(at + strlen(member), NULL, 10);
        at = error->rpc_code ? strstr(error->text, suffix) : NULL;
        return at ? (int)strtol(at + strlen(suffix), NULL, 10) : 0;
}

/* ---- questions ---- */

/* A request that is being written, and its answer. */
struct question {
        struct farhand *client;
        const char *method;
        unsigned flags;
        struct buf params;
        struct jsonw w;
        struct arena arena;
        struct buf text;
        struct json_doc doc;
};

static void question_release(struct question *q)
{
        buf_release(&q->params);
        buf_release(&q->text);
        arena_release(&q->arena);
}
#define _question_ CLEANUP(question_release)
#define QUESTION_INIT \
        ((struct question){ .params = BUF_INIT(PARAMS_MAX), .text = BUF_INIT(TRANSPORT_MESSAGE_MAX) })

static void question_begin(struct question *q, struct farhand *f, const char *method, unsigned flags)
{
        q->client = f;
        q->method = method;
        q->flags = flags;
        jsonw_begin(&q->w, &q->params);
        jsonw_object(&q->w);
}

static int question_path(struct question *q, const char *key, const char *path,
                         struct farhand_error *ret_error)
{
        if (path[0] != '/')
                return error_set(ret_error, -EINVAL, "the path is not absolute");
        jsonw_key(&q->w, key);
        client_path_write(q->client, &q->w, path);
        return 0;
}

/* Sends the request, waits for the answer, and parses it. */
static int question_ask(struct question *q, struct farhand_error *ret_error)
{
        _free_ char *result = NULL;
        struct json_error bad;
        jsonw_object_end(&q->w);
        if (jsonw_end(&q->w) < 0)
                return error_set(ret_error, -ENAMETOOLONG, "File name too long");
        int r = farhand_call_wait(q->client, q->method, q->params.p, q->flags, -1, &result, ret_error);
        if (r < 0)
                return r;
        /* The JSON parser needs padding behind the text, which a buf has. */
        if (buf_append(&q->text, slice_from_str(result)) < 0 ||
            json_parse(&q->arena, buf_slice(&q->text), &q->doc, &bad) < 0)
                return error_set(ret_error, -EPROTO, "the server's answer to %s makes no sense", q->method);
        return 0;
}

/* Asks a question whose only param is one path. */
static int ask_about(struct question *q, struct farhand *f, const char *method, unsigned flags,
                     const char *path, struct farhand_error *ret_error)
{
        question_begin(q, f, method, flags);
        int r = question_path(q, "path", path, ret_error);
        return r < 0 ? r : question_ask(q, ret_error);
}

static bool is_true(const struct json_doc *doc, const struct json *object, struct slice key)
{
        const struct json *v = json_get(doc, object, key);
        return v && v->type == JSON_TRUE;
}

static struct slice text_of(struct question *q, const struct json *object, struct slice key)
{
        const struct json *v = json_get(&q->doc, object, key);
        return v && v->type == JSON_STRING ? json_string(&q->arena, &q->doc, v) : (struct slice){ 0 };
}

/* ---- metadata ---- */

static uint64_t number_of(const struct json_doc *doc, const struct json *object, struct slice key)
{
        uint64_t n = 0;
        const struct json *v = json_get(doc, object, key);
        return v && json_u64(doc, v, &n) == 0 ? n : 0;
}

static int64_t time_of(const struct json_doc *doc, const struct json *object, struct slice key)
{
        int64_t n = 0;
        const struct json *v = json_get(doc, object, key);
        return v && json_i64(doc, v, &n) == 0 ? n : 0;
}

static void read_metadata(const struct json_doc *doc, const struct json *o, struct farhand_metadata *ret)
{
        *ret = (struct farhand_metadata){
                .is_directory = is_true(doc, o, S("isDirectory")),
                .is_file = is_true(doc, o, S("isFile")),
                .is_symlink = is_true(doc, o, S("isSymlink")),
                .has_mode = json_get(doc, o, S("mode")) != NULL,
                .size = number_of(doc, o, S("size")),
                .created_ms = time_of(doc, o, S("createdAtMs")),
                .modified_ms = time_of(doc, o, S("modifiedAtMs")),
                .mode = (uint32_t)number_of(doc, o, S("mode")) & 07777,
                .uid = (uint32_t)number_of(doc, o, S("uid")),
                .gid = (uint32_t)number_of(doc, o, S("gid")),
                .links = number_of(doc, o, S("links")),
        };
}

static void tell_stat(struct farhand *f, const struct call *call, const struct rpc_message *m,
                      const struct farhand_error *error)
{
        struct farhand_metadata metadata;
        if (m)
                read_metadata(&m->doc, m->result, &metadata);
        ((farhand_on_stat)call->on_typed)(f, call->arg, m ? &metadata : NULL, error);
}

int farhand_stat_begin(struct farhand *f, const char *path, farhand_on_stat on_stat, void *arg,
                       struct farhand_error *ret_error)
{
        struct jsonw w;
        if (path[0] != '/')
                return error_set(ret_error, -EINVAL, "the path is not absolute");
        if (f->state == FARHAND_CONNECTING)
                return error_set(ret_error, -ENOTCONN, "the client is not connected yet");
        struct call *call = call_begin(f, "fs/getMetadata", &w, ret_error);
        if (!call)
                return f->state == FARHAND_FAILED ? f->failure.code : -EAGAIN;
        jsonw_object(&w);
        jsonw_key(&w, "path");
        client_path_write(f, &w, path);
        jsonw_object_end(&w);
        call->tell = tell_stat;
        call->on_typed = (any_function)on_stat;
        return call_end(f, call, &w, FARHAND_REPEAT, NULL, arg, ret_error);
}

int farhand_stat(struct farhand *f, const char *path, struct farhand_metadata *ret,
                 struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        int r = ask_about(&q, f, "fs/getMetadata", FARHAND_REPEAT, path, ret_error);
        if (r == 0)
                read_metadata(&q.doc, json_root(&q.doc), ret);
        return r;
}

/* ---- looking ---- */

/* Returns the name of an entry as a string in the arena, or NULL when the entry has no valid name. A name that is not UTF-8 is the
 * end of the member `path`. */
static const char *name_of(struct question *q, const struct json *entry)
{
        struct slice name = text_of(q, entry, S("fileName")), uri = text_of(q, entry, S("path")), path;
        if (uri.p && uri_to_path(&q->arena, uri, &path, NULL) == URI_OK) {
                const char *slash = memrchr(path.p, '/', path.n);
                name = slash ? slice_from(slash + 1, path.n - (size_t)(slash + 1 - path.p)) : path;
        }
        bool is_name = name.n > 0 && !slice_has_nul(name) && !memchr(name.p, '/', name.n) &&
                       !slice_eq(name, S(".")) && !slice_eq(name, S(".."));
        return is_name ? arena_dup(&q->arena, name) : NULL;
}

int farhand_list(struct farhand *f, const char *path,
                 void (*on_entry)(void *arg, const struct farhand_entry *entry), void *arg,
                 struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        int r = ask_about(&q, f, "fs/readDirectory", FARHAND_REPEAT, path, ret_error);
        if (r < 0)
                return r;
        const struct json *entries = json_get(&q.doc, json_root(&q.doc), S("entries"));
        if (!entries || entries->type != JSON_ARRAY)
                return error_set(ret_error, -EPROTO, "the server's answer has no entries");
        json_each (it, &q.doc, entries) {
                struct farhand_entry entry = { .name = name_of(&q, it),
                                               .is_directory = is_true(&q.doc, it, S("isDirectory")),
                                               .is_file = is_true(&q.doc, it, S("isFile")) };
                if (entry.name)
                        on_entry(arg, &entry);
        }
        return 0;
}

/* Returns the member `path` as a string in the arena, or NULL when there is no such path. */
static const char *path_of(struct question *q, const struct json *object)
{
        struct slice text = text_of(q, object, S("path")), path;
        return text.p && uri_to_path(&q->arena, text, &path, NULL) == URI_OK ? path.p : NULL;
}

static void tell_walk(struct question *q, const struct farhand_walk *walk, const struct json *entries,
                      const struct json *errors)
{
        json_each (it, &q->doc, entries) {
                const char *at = path_of(q, it);
                if (at && walk->on_entry)
                        walk->on_entry(walk->arg, at, slice_eq(text_of(q, it, S("kind")), S("directory")));
        }
        if (!errors || errors->type != JSON_ARRAY || !walk->on_error)
                return;
        json_each (it, &q->doc, errors) {
                const char *at = path_of(q, it);
                struct slice text = text_of(q, it, S("message"));
                if (at && text.p)
                        walk->on_error(walk->arg, at, arena_dup(&q->arena, text));
        }
}

int farhand_walk(struct farhand *f, const char *path, const struct farhand_walk *given,
                 struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        struct farhand_walk walk = { 0 };
        memcpy(&walk, given, MIN(given->size, sizeof(walk)));
        question_begin(&q, f, "fs/walk", FARHAND_REPEAT);
        int r = question_path(&q, "path", path, ret_error);
        jsonw_key(&q.w, "options");
        jsonw_object(&q.w);
        jsonw_member_u64(&q.w, "maxDepth", walk.max_depth ? walk.max_depth : WALK_DEPTH_MAX);
        jsonw_member_u64(&q.w, "maxDirectories",
                         walk.max_directories ? walk.max_directories : WALK_DIRECTORIES_MAX);
        jsonw_member_u64(&q.w, "maxEntries", walk.max_entries ? walk.max_entries : WALK_ENTRIES_MAX);
        jsonw_member_bool(&q.w, "followDirectorySymlinks", walk.follow_links);
        jsonw_member_bool(&q.w, "pruneHiddenDirectories", walk.skip_hidden);
        jsonw_object_end(&q.w);
        r = r < 0 ? r : question_ask(&q, ret_error);
        if (r < 0)
                return r;
        const struct json *root = json_root(&q.doc), *entries = json_get(&q.doc, root, S("entries"));
        if (!entries || entries->type != JSON_ARRAY)
                return error_set(ret_error, -EPROTO, "the server's answer has no entries");
        tell_walk(&q, &walk, entries, json_get(&q.doc, root, S("errors")));
        return is_true(&q.doc, root, S("truncated"));
}

int farhand_read_link(struct farhand *f, const char *path, char **ret, struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        int r = ask_about(&q, f, "fs/readLink", FARHAND_REPEAT, path, ret_error);
        if (r < 0)
                return r;
        struct slice text = text_of(&q, json_root(&q.doc), S("target"));
        struct slice encoded = text_of(&q, json_root(&q.doc), S("targetBase64"));
        if (!text.p && encoded.p) {
                char *bytes = arena_alloc(&q.arena, base64_decoded_max(encoded.n) + 1);
                ssize_t n = base64_decode(bytes, encoded.p, encoded.n, NULL);
                text = slice_from(bytes, n < 0 ? 0 : (size_t)n);
        }
        if (text.n == 0 || slice_has_nul(text))
                return error_set(ret_error, -EPROTO, "the server's answer has no target");
        *ret = slice_dup(text);
        return 0;
}

int farhand_canonicalize(struct farhand *f, const char *path, char **ret, struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        struct slice real;
        int r = ask_about(&q, f, "fs/canonicalize", FARHAND_REPEAT, path, ret_error);
        if (r < 0)
                return r;
        struct slice text = text_of(&q, json_root(&q.doc), S("path"));
        if (!text.p || uri_to_path(&q.arena, text, &real, NULL) != URI_OK)
                return error_set(ret_error, -EPROTO, "the server's answer has no path");
        *ret = slice_dup(real);
        return 0;
}

/* ---- changing ---- */

int farhand_make_directory(struct farhand *f, const char *path, bool with_parents,
                           struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        question_begin(&q, f, "fs/createDirectory", 0);
        int r = question_path(&q, "path", path, ret_error);
        jsonw_member_bool(&q.w, "recursive", with_parents);
        return r < 0 ? r : question_ask(&q, ret_error);
}

int farhand_remove(struct farhand *f, const char *path, bool is_recursive, bool with_force,
                   struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        question_begin(&q, f, "fs/remove", 0);
        int r = question_path(&q, "path", path, ret_error);
        jsonw_member_bool(&q.w, "recursive", is_recursive);
        jsonw_member_bool(&q.w, "force", with_force);
        return r < 0 ? r : question_ask(&q, ret_error);
}

int farhand_rename(struct farhand *f, const char *from, const char *to, struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        question_begin(&q, f, "fs/rename", 0);
        int r = question_path(&q, "sourcePath", from, ret_error);
        if (r == 0)
                r = question_path(&q, "destinationPath", to, ret_error);
        return r < 0 ? r : question_ask(&q, ret_error);
}

int farhand_copy(struct farhand *f, const char *from, const char *to, bool is_recursive,
                 struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        question_begin(&q, f, "fs/copy", 0);
        int r = question_path(&q, "sourcePath", from, ret_error);
        if (r == 0)
                r = question_path(&q, "destinationPath", to, ret_error);
        jsonw_member_bool(&q.w, "recursive", is_recursive);
        return r < 0 ? r : question_ask(&q, ret_error);
}

int farhand_symlink(struct farhand *f, const char *target, const char *path, struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        question_begin(&q, f, "fs/symlink", 0);
        int r = question_path(&q, "path", path, ret_error);
        jsonw_member_str(&q.w, "target", target);
        return r < 0 ? r : question_ask(&q, ret_error);
}

int farhand_set_metadata(struct farhand *f, const char *path, int mode, int64_t modified_ms,
                         struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        question_begin(&q, f, "fs/setMetadata", FARHAND_REPEAT);
        int r = question_path(&q, "path", path, ret_error);
        if (mode >= 0)
                jsonw_member_i64(&q.w, "mode", mode);
        if (modified_ms >= 0)
                jsonw_member_i64(&q.w, "modifiedAtMs", modified_ms);
        return r < 0 ? r : question_ask(&q, ret_error);
}

int farhand_write_file(struct farhand *f, const char *path, const void *bytes, size_t n, int mode,
                       struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        if (n > WHOLE_FILE_MAX)
                return error_set(ret_error, -EFBIG, "the content is longer than %zu bytes", WHOLE_FILE_MAX);
        question_begin(&q, f, "fs/writeFile", 0);
        q.params.cap = PARAMS_MAX + base64_encoded_size(n);
        int r = question_path(&q, "path", path, ret_error);
        jsonw_key(&q.w, "dataBase64");
        jsonw_base64(&q.w, slice_from(bytes, n));
        if (mode >= 0)
                jsonw_member_i64(&q.w, "mode", mode);
        return r < 0 ? r : question_ask(&q, ret_error);
}
