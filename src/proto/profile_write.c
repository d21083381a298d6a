/* profile_write: writes permission profiles and additional permissions as JSON. */
#include "proto/profile_write.h"

#include "base/buf.h"
#include "base/uri.h"
#include "base/utf8.h"

ACCESS_COMPARED(3);

void profile_write_path(struct jsonw *w, struct slice path)
{
        _buf_ struct buf uri = BUF_INIT(path.n * 3 + 64);

        if (!utf8_is_valid(path) && uri_from_path(&uri, path) >= 0)
                jsonw_string(w, buf_slice(&uri));
        else
                jsonw_string(w, path);
}

static void write_special(struct jsonw *w, const struct profile_entry *e)
{
        static const char *const names[] = {
                [SPECIAL_ROOT] = "root",
                [SPECIAL_MINIMAL] = "minimal",
                [SPECIAL_PROJECT_ROOTS] = "project_roots",
                [SPECIAL_TMPDIR] = "tmpdir",
                [SPECIAL_SLASH_TMP] = "slash_tmp",
                [SPECIAL_UNKNOWN] = "unknown",
        };

        jsonw_object(w);
        jsonw_member_str(w, "kind", names[e->special]);
        if (e->special == SPECIAL_UNKNOWN)
                jsonw_member_string(w, "path", e->text);
        if (e->subpath.p)
                jsonw_member_string(w, "subpath", e->subpath);
        jsonw_object_end(w);
}

static void write_target(struct jsonw *w, const struct profile_entry *e)
{
        static const char *const types[] = {
                [TARGET_PATH] = "path", [TARGET_GLOB] = "glob_pattern", [TARGET_SPECIAL] = "special"
        };

        jsonw_object(w);
        jsonw_member_str(w, "type", types[e->kind]);
        switch (e->kind) {
        case TARGET_PATH:
                jsonw_key(w, "path");
                profile_write_path(w, e->text);
                break;
        case TARGET_GLOB:
                jsonw_member_string(w, "pattern", e->text);
                break;
        case TARGET_SPECIAL:
                jsonw_key(w, "value");
                write_special(w, e);
                break;
        }
        jsonw_object_end(w);
}

void profile_write_entry(struct jsonw *w, const struct profile_entry *e)
{
        static const char *const names[] = {
                [ACCESS_DENY] = "deny", [ACCESS_READ] = "read", [ACCESS_WRITE] = "write"
        };

        jsonw_object(w);
        jsonw_key(w, "path");
        write_target(w, e);
        jsonw_member_str(w, "access", names[e->access]);
        if (e->skips_missing)
                jsonw_member_str(w, "missing_path_behavior", "skip");
        jsonw_object_end(w);
}

static void write_entries(struct jsonw *w, const struct profile_entry *entries, size_t count,
                          uint64_t glob_depth)
{
        jsonw_key(w, "entries");
        jsonw_array(w);
        for (size_t i = 0; i < count; i++)
                profile_write_entry(w, &entries[i]);
        jsonw_array_end(w);
        if (glob_depth > 0)
                jsonw_member_u64(w, "glob_scan_max_depth", glob_depth);
}

void profile_write(struct jsonw *w, const struct profile *p)
{
        static const char *const kinds[] = { [PROFILE_MANAGED] = "managed",
                                             [PROFILE_DISABLED] = "disabled",
                                             [PROFILE_EXTERNAL] = "external" };

        jsonw_object(w);
        jsonw_member_str(w, "type", kinds[p->kind]);
        if (p->kind == PROFILE_MANAGED) {
                jsonw_key(w, "file_system");
                jsonw_object(w);
                jsonw_member_str(w, "type", p->is_unrestricted ? "unrestricted" : "restricted");
                if (!p->is_unrestricted)
                        write_entries(w, p->entries, p->count, p->glob_depth);
                jsonw_object_end(w);
        }
        if (p->kind != PROFILE_DISABLED || !p->has_network)
                jsonw_member_str(w, "network", p->has_network ? "enabled" : "restricted");
        jsonw_object_end(w);
}

/* ---- additional permissions ---- */

/* Has the overlay only plain paths with read or write access? Then it is written as two lists, otherwise as entries. */
static bool is_plain(const struct overlay *o)
{
        for (size_t i = 0; i < o->count; i++) {
                const struct profile_entry *e = &o->entries[i];
                if (e->kind != TARGET_PATH || e->access == ACCESS_DENY || e->skips_missing)
                        return false;
        }
        return o->glob_depth == 0;
}

static void write_list(struct jsonw *w, const char *key, const struct overlay *o, enum access access)
{
        bool has_some = false;

        for (size_t i = 0; i < o->count; i++) {
                if (o->entries[i].access != access)
                        continue;
                if (!has_some) {
                        jsonw_key(w, key);
                        jsonw_array(w);
                        has_some = true;
                }
                profile_write_path(w, o->entries[i].text);
        }
        if (has_some)
                jsonw_array_end(w);
}

static void write_overlay_files(struct jsonw *w, const struct overlay *o)
{
        jsonw_object(w);
        if (is_plain(o)) {
                write_list(w, "read", o, ACCESS_READ);
                write_list(w, "write", o, ACCESS_WRITE);
        } else {
                write_entries(w, o->entries, o->count, o->glob_depth);
        }
        jsonw_object_end(w);
}

void profile_write_overlay(struct jsonw *w, const struct overlay *o)
{
        jsonw_object(w);
        jsonw_key(w, "network");
        if (o->has_network_word) {
                jsonw_object(w);
                jsonw_member_bool(w, "enabled", o->has_network);
                jsonw_object_end(w);
        } else {
                jsonw_null(w);
        }
        jsonw_key(w, "file_system");
        if (o->has_files)
                write_overlay_files(w, o);
        else
                jsonw_null(w);
        jsonw_object_end(w);
}
