/* files: the methods on files, as functions that wait for the answer. */
#include "question/question.h"

#include "base/base64.h"
#include "base/mem.h"
#include "base/uri.h"
#include "client/error.h"
#include "client/member.h"

#include <errno.h>

/* The largest limits of a walk that servers accept. */
#define WALK_DEPTH_MAX 64
#define WALK_DIRECTORIES_MAX 10000
#define WALK_ENTRIES_MAX 50000

/* Returns a member that is a string; .p is NULL when it is missing. */
static struct slice text_of(struct question *q, const struct json *object, struct slice key)
{
        return member_string(&q->arena, &q->doc, object, key);
}

/* ---- looking ---- */

bool question_is_name(struct slice name)
{
        return name.n > 0 && !slice_has_nul(name) && !memchr(name.p, '/', name.n) &&
               !slice_eq(name, S(".")) && !slice_eq(name, S(".."));
}

/* Returns the name of an entry as a string in the arena, or NULL when the entry has no valid name. A name that is not UTF-8 is the
 * end of the member `path`. */
static const char *name_of(struct question *q, const struct json *entry)
{
        struct slice name = text_of(q, entry, S("fileName")), uri = text_of(q, entry, S("path")), path;
        if (uri.p && uri_to_path(&q->arena, uri, &path, NULL) == URI_OK) {
                const char *slash = memrchr(path.p, '/', path.n);
                name = slash ? slice_from(slash + 1, path.n - (size_t)(slash + 1 - path.p)) : path;
        }
        return question_is_name(name) ? arena_dup(&q->arena, name) : NULL;
}

int farhand_list(struct farhand *f, const char *path,
                 void (*on_entry)(void *arg, const struct farhand_entry *entry), void *arg,
                 struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        int r = question_about(&q, f, "fs/readDirectory", FARHAND_REPEAT, path, ret_error);
        if (r < 0)
                return r;
        const struct json *entries = question_array(&q, S("entries"), ret_error);
        if (!entries)
                return -EPROTO;
        json_each (it, &q.doc, entries) {
                struct farhand_entry entry = { .name = name_of(&q, it),
                                               .is_directory = member_is_true(&q.doc, it, S("isDirectory")),
                                               .is_file = member_is_true(&q.doc, it, S("isFile")) };
                if (entry.name)
                        on_entry(arg, &entry);
        }
        return 0;
}

static void tell_walk(struct question *q, const struct farhand_walk *walk, const struct json *entries,
                      const struct json *errors)
{
        json_each (it, &q->doc, entries) {
                const char *at = member_path(&q->arena, &q->doc, it, S("path"));
                if (at && walk->on_entry)
                        walk->on_entry(walk->arg, at, slice_eq(text_of(q, it, S("kind")), S("directory")));
        }
        if (!errors || errors->type != JSON_ARRAY || !walk->on_error)
                return;
        json_each (it, &q->doc, errors) {
                const char *at = member_path(&q->arena, &q->doc, it, S("path"));
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
        question_begin_file(&q, f, "fs/walk", FARHAND_REPEAT);
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
        const struct json *root = question_root(&q), *entries = question_array(&q, S("entries"), ret_error);
        if (!entries)
                return -EPROTO;
        tell_walk(&q, &walk, entries, json_get(&q.doc, root, S("errors")));
        return member_is_true(&q.doc, root, S("truncated"));
}

int farhand_read_link(struct farhand *f, const char *path, char **ret, struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        int r = question_about(&q, f, "fs/readLink", FARHAND_REPEAT, path, ret_error);
        if (r < 0)
                return r;
        struct slice text = text_of(&q, question_root(&q), S("target"));
        struct slice encoded = text_of(&q, question_root(&q), S("targetBase64"));
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
        int r = question_about(&q, f, "fs/canonicalize", FARHAND_REPEAT, path, ret_error);
        if (r < 0)
                return r;
        const char *real = member_path(&q.arena, &q.doc, question_root(&q), S("path"));
        if (!real)
                return error_set(ret_error, -EPROTO, "the server's answer has no path");
        *ret = mem_strdup(real);
        return 0;
}

/* ---- changing ---- */

int farhand_make_directory_with(struct farhand *f, const char *path, unsigned flags,
                                struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        int r = question_check_flags(f, flags, FARHAND_PARENTS, ret_error);
        if (r < 0)
                return r;
        question_begin_file(&q, f, "fs/createDirectory", 0);
        r = question_path(&q, "path", path, ret_error);
        jsonw_member_bool(&q.w, "recursive", flags & FARHAND_PARENTS);
        question_links(&q, flags);
        return r < 0 ? r : question_ask(&q, ret_error);
}

int farhand_make_directory(struct farhand *f, const char *path, bool with_parents,
                           struct farhand_error *ret_error)
{
        return farhand_make_directory_with(f, path, with_parents ? FARHAND_PARENTS : 0, ret_error);
}

int farhand_remove_with(struct farhand *f, const char *path, unsigned flags, struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        int r = question_check_flags(f, flags, FARHAND_RECURSIVE | FARHAND_FORCE, ret_error);
        if (r < 0)
                return r;
        question_begin_file(&q, f, "fs/remove", 0);
        r = question_path(&q, "path", path, ret_error);
        jsonw_member_bool(&q.w, "recursive", flags & FARHAND_RECURSIVE);
        jsonw_member_bool(&q.w, "force", flags & FARHAND_FORCE);
        question_links(&q, flags);
        return r < 0 ? r : question_ask(&q, ret_error);
}

int farhand_remove(struct farhand *f, const char *path, bool is_recursive, bool with_force,
                   struct farhand_error *ret_error)
{
        unsigned flags = (is_recursive ? FARHAND_RECURSIVE : 0) | (with_force ? FARHAND_FORCE : 0);
        return farhand_remove_with(f, path, flags, ret_error);
}

int farhand_rename_with(struct farhand *f, const char *from, const char *to, unsigned flags,
                        struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        int r = question_check_flags(f, flags, FARHAND_NEW, ret_error);
        if (r < 0)
                return r;
        question_begin_file(&q, f, "fs/rename", 0);
        r = question_path(&q, "sourcePath", from, ret_error);
        if (r == 0)
                r = question_path(&q, "destinationPath", to, ret_error);
        if (flags & FARHAND_NEW)
                jsonw_member_bool(&q.w, "replace", false);
        question_links(&q, flags);
        return r < 0 ? r : question_ask(&q, ret_error);
}

int farhand_rename(struct farhand *f, const char *from, const char *to, struct farhand_error *ret_error)
{
        return farhand_rename_with(f, from, to, 0, ret_error);
}

int farhand_rename_new(struct farhand *f, const char *from, const char *to, struct farhand_error *ret_error)
{
        return farhand_rename_with(f, from, to, FARHAND_NEW, ret_error);
}

int farhand_copy(struct farhand *f, const char *from, const char *to, bool is_recursive,
                 struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        question_begin_file(&q, f, "fs/copy", 0);
        int r = question_path(&q, "sourcePath", from, ret_error);
        if (r == 0)
                r = question_path(&q, "destinationPath", to, ret_error);
        jsonw_member_bool(&q.w, "recursive", is_recursive);
        return r < 0 ? r : question_ask(&q, ret_error);
}

int farhand_symlink(struct farhand *f, const char *target, const char *path, struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        question_begin_file(&q, f, "fs/symlink", 0);
        int r = question_path(&q, "path", path, ret_error);
        jsonw_member_str(&q.w, "target", target);
        return r < 0 ? r : question_ask(&q, ret_error);
}

int farhand_set_metadata_with(struct farhand *f, const char *path, int mode, int64_t modified_ms,
                              unsigned flags, struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        int r = question_check_flags(f, flags, 0, ret_error);
        if (r < 0)
                return r;
        question_begin_file(&q, f, "fs/setMetadata", FARHAND_REPEAT);
        r = question_path(&q, "path", path, ret_error);
        if (mode >= 0)
                jsonw_member_i64(&q.w, "mode", mode);
        if (modified_ms >= 0)
                jsonw_member_i64(&q.w, "modifiedAtMs", modified_ms);
        question_links(&q, flags);
        return r < 0 ? r : question_ask(&q, ret_error);
}

int farhand_set_metadata(struct farhand *f, const char *path, int mode, int64_t modified_ms,
                         struct farhand_error *ret_error)
{
        return farhand_set_metadata_with(f, path, mode, modified_ms, 0, ret_error);
}
