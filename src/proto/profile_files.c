/* profile_files: reads the file_system part of a profile: entries, their targets, and paths.
 *
 * All forms are read alike except for their paths: a path in a stored profile is plain and may be of another operating system; a
 * path in a request may be a URI.
 */
#include "proto/profile_internal.h"

#include "base/uri.h"

ACCESS_COMPARED(3);

static const char *const target_types[] = {
        [TARGET_PATH] = "path", [TARGET_GLOB] = "glob_pattern", [TARGET_SPECIAL] = "special"
};

/* The tables list all names that are accepted. `none` and `current_working_directory` are older names of `deny` and
 * `project_roots`. */
static const char *const access_names[] = { "read", "write", "deny", "none" };
static const enum access accesses[] = { ACCESS_READ, ACCESS_WRITE, ACCESS_DENY, ACCESS_DENY };

static const char *const special_names[] = {
        "root", "minimal", "current_working_directory", "project_roots", "tmpdir", "slash_tmp", "unknown",
};
static const enum special specials[] = {
        SPECIAL_ROOT,   SPECIAL_MINIMAL,   SPECIAL_PROJECT_ROOTS, SPECIAL_PROJECT_ROOTS,
        SPECIAL_TMPDIR, SPECIAL_SLASH_TMP, SPECIAL_UNKNOWN,
};

static void complain(struct decoder *d, const char *key, const char *text)
{
        if (d->names_members)
                decode_fail(d, "%s: %s", key, text);
        else
                decode_fail(d, "%s", text);
}

static const char *item_name(struct decoder *d, const char *list, size_t i)
{
        return arena_printf(d->arena, "%s[%zu]", list, i);
}

/* --- paths -------------------------------------------------------------------------------------------------------- */

static bool is_windows_path(struct slice s)
{
        bool has_drive = s.n >= 3 && ascii_lower(s.p[0]) >= 'a' && ascii_lower(s.p[0]) <= 'z' &&
                         s.p[1] == ':' && (s.p[2] == '\\' || s.p[2] == '/');

        return has_drive || slice_starts(s, S("\\\\"));
}

static void decode_stored_path(struct decoder *d, const struct json *value, struct slice *ret)
{
        struct slice text = { 0 };

        if (value->type == JSON_STRING)
                text = json_string(d->arena, d->doc, value);
        if (is_windows_path(text) && !slice_has_nul(text))
                *ret = text;
        else if (value->type == JSON_STRING && (text.n == 0 || text.p[0] != '/'))
                decode_fail(d, "path is not absolute: %.*s", SLICE(text));
        else
                decode_path_value(d, value, NULL, ret);
}

void profile_refuse_relative_uri(struct decoder *d, const struct json *value, const char *what)
{
        if (d->has_failed)
                return;
        struct slice text = json_string(d->arena, d->doc, value);
        struct slice scheme = slice_split(&text, ':');
        bool is_native = scheme.n > 0 && scheme.p[0] == '/';

        if (!is_native && (text.n == 0 || text.p[0] != '/'))
                decode_fail(d, "%s is not absolute", what);
}

static void decode_wire_path(struct decoder *d, const struct json *value, enum profile_form form,
                             struct slice *ret)
{
        struct slice path, detail = { 0 };

        if (value->type != JSON_STRING) {
                decode_path_value(d, value, NULL, ret);
                return;
        }
        struct slice text = json_string(d->arena, d->doc, value);
        enum uri_result r = uri_to_path(d->arena, text, &path, &detail);
        if (r == URI_OK) {
                profile_refuse_relative_uri(d, value, "sandbox permission path");
                *ret = path;
                return;
        }
        int rpc = r == URI_FOREIGN && form == PROFILE_FORM_WIRE_FILES ? RPC_INVALID_REQUEST
                                                                      : RPC_INVALID_PARAMS;
        (void)path_refusal(d->err, rpc, (int)r, text, detail);
        if (r == URI_FOREIGN)
                (void)err_wrap(d->err, "invalid sandbox permission path URI");
        d->has_failed = true;
}

void profile_decode_path(struct decoder *d, const struct json *value, enum profile_form form,
                         struct slice *ret)
{
        if (d->has_failed)
                return;
        if (form == PROFILE_FORM_STORED)
                decode_stored_path(d, value, ret);
        else
                decode_wire_path(d, value, form, ret);
}

/* --- entries ------------------------------------------------------------------------------------------------------ */

/* Refuses a text with a NUL, because it becomes part of a path. */
static void refuse_nul(struct decoder *d, const char *key, struct slice text)
{
        if (slice_has_nul(text))
                complain(d, key, "a path cannot hold a NUL");
}

static void decode_special(struct decoder *outer, const struct json *value, struct profile_entry *ret)
{
        struct decoder d;

        decode_begin_inside(&d, outer, value, "ExecFileSystemSpecialPath");
        ret->special = specials[PROFILE_ONE_OF(&d, "kind", special_names)];
        if (ret->special == SPECIAL_UNKNOWN)
                decode_string(&d, "path", &ret->text);
        decode_optional_string_or_null(&d, "subpath", &ret->subpath);
        refuse_nul(&d, "subpath", ret->subpath);
        profile_leave(outer, &d, "value");
}

static void decode_target(struct decoder *outer, const struct json *value, enum profile_form form,
                          struct profile_entry *ret)
{
        const struct json *v;
        struct decoder d;

        decode_begin_inside(&d, outer, value, "FileSystemPath");
        ret->kind = (enum target_kind)PROFILE_ONE_OF(&d, "type", target_types);
        if (ret->kind == TARGET_GLOB) {
                decode_string(&d, "pattern", &ret->text);
                refuse_nul(&d, "pattern", ret->text);
        } else if (ret->kind == TARGET_SPECIAL) {
                if ((v = decode_required(&d, "value")))
                        decode_special(&d, v, ret);
        } else if ((v = decode_required(&d, "path"))) {
                struct decoder path = d;
                profile_decode_path(&path, v, form, &ret->text);
                profile_leave(&d, &path, "path");
        }
        profile_leave(outer, &d, "path");
}

static void decode_entry(struct decoder *outer, const struct json *value, enum profile_form form,
                         struct profile_entry *ret)
{
        static const char *const behaviors[] = { "skip" };
        struct profile_entry e = { 0 };
        struct decoder d;

        decode_begin_inside(&d, outer, value, "ExecFileSystemSandboxEntry");
        const struct json *path = decode_required(&d, "path");
        if (path)
                decode_target(&d, path, form, &e);
        e.access = accesses[PROFILE_ONE_OF(&d, "access", access_names)];
        if (decode_peek(&d, "missing_path_behavior")) {
                (void)PROFILE_ONE_OF(&d, "missing_path_behavior", behaviors);
                e.skips_missing = true;
        }
        decode_end_inside(outer, &d);
        if (!d.has_failed)
                *ret = e;
}

/* Makes room for `more` entries at the end of the list. Returns that room, or NULL when there would be too many entries. */
static struct profile_entry *more_entries(struct decoder *d, struct profile_files *files, size_t more)
{
        if (d->has_failed)
                return NULL;
        if (more > PROFILE_ENTRIES_MAX - files->count) {
                decode_fail(d, "a permission profile has at most %d entries", PROFILE_ENTRIES_MAX);
                return NULL;
        }
        files->entries = arena_grow(d->arena, files->entries, files->count * sizeof(*files->entries),
                                    (files->count + more + 1) * sizeof(*files->entries));
        return files->entries + files->count;
}

void profile_decode_entries(struct decoder *d, enum profile_form form, struct profile_files *ret)
{
        const struct json *list = decode_array(d, "entries");
        struct profile_entry *e = list ? more_entries(d, ret, json_count(d->doc, list)) : NULL;
        uint64_t depth = 0;
        bool has_depth = false;

        if (!e)
                return;
        json_each (it, d->doc, list) {
                struct decoder item = *d;
                decode_entry(&item, it, form, e++);
                profile_leave(d, &item, item.has_failed ? item_name(d, "entries", ret->count) : NULL);
                if (d->has_failed)
                        return;
                ret->count++;
        }
        decode_optional_u64_or_null(d, "glob_scan_max_depth", &has_depth, &depth);
        if (has_depth && depth == 0)
                complain(d, "glob_scan_max_depth", "invalid value: integer `0`, expected a nonzero usize");
        ret->glob_depth = depth;
}

static void decode_paths(struct decoder *d, const char *key, enum access access, enum profile_form form,
                         struct profile_files *ret)
{
        const struct json *list = decode_peek(d, key) ? decode_array(d, key) : NULL;
        struct profile_entry *e = list ? more_entries(d, ret, json_count(d->doc, list)) : NULL;
        size_t i = 0;

        if (!e)
                return;
        json_each (it, d->doc, list) {
                struct decoder item = *d;
                *e = (struct profile_entry){ .kind = TARGET_PATH, .access = access };
                profile_decode_path(&item, it, form, &e->text);
                profile_leave(d, &item, item.has_failed ? item_name(d, key, i) : NULL);
                if (d->has_failed)
                        return;
                e++;
                i++;
                ret->count++;
        }
}

void profile_decode_files(struct decoder *outer, const struct json *value, enum profile_form form,
                          struct profile_files *ret)
{
        static const char *const with_entries[] = { "entries", "glob_scan_max_depth" };
        static const char *const with_lists[] = { "read", "write" };
        struct profile_files files = { 0 };
        struct decoder d;

        decode_begin_inside(&d, outer, value, "FileSystemPermissions");
        if (decode_peek(&d, "entries")) {
                profile_refuse_others(&d, with_entries, ARRAY_LEN(with_entries));
                profile_decode_entries(&d, form, &files);
        } else {
                profile_refuse_others(&d, with_lists, ARRAY_LEN(with_lists));
                decode_paths(&d, "read", ACCESS_READ, form, &files);
                decode_paths(&d, "write", ACCESS_WRITE, form, &files);
        }
        profile_leave(outer, &d, "file_system");
        if (!d.has_failed)
                *ret = files;
}
