/* rig_profile_internal: writes profiles as JSON, so that tests and fuzz harnesses can compare them. */
#pragma once

#include "base/buf.h"
#include "base/uri.h"
#include "base/utf8.h"
#include "proto/profile.h"
#include "wire/jsonw.h"

/* Writes a path; a path that is not UTF-8 is written as a file: URI. */
static inline void rig_write_path(struct jsonw *w, struct slice path)
{
        _buf_ struct buf uri = BUF_INIT(path.n * 3 + 64);

        if (!utf8_is_valid(path) && uri_from_path(&uri, path) >= 0)
                jsonw_string(w, buf_slice(&uri));
        else
                jsonw_string(w, path);
}

static inline void rig_write_target(struct jsonw *w, const struct profile_entry *e)
{
        static const char *const names[] = {
                [SPECIAL_ROOT] = "root",
                [SPECIAL_MINIMAL] = "minimal",
                [SPECIAL_PROJECT_ROOTS] = "project_roots",
                [SPECIAL_TMPDIR] = "tmpdir",
                [SPECIAL_SLASH_TMP] = "slash_tmp",
                [SPECIAL_UNKNOWN] = "unknown",
        };
        static const char *const types[] = {
                [TARGET_PATH] = "path", [TARGET_GLOB] = "glob_pattern", [TARGET_SPECIAL] = "special"
        };

        jsonw_object(w);
        jsonw_member_str(w, "type", types[e->kind]);
        if (e->kind == TARGET_PATH) {
                jsonw_key(w, "path");
                rig_write_path(w, e->text);
        } else if (e->kind == TARGET_GLOB) {
                jsonw_member_string(w, "pattern", e->text);
        } else {
                jsonw_key(w, "value");
                jsonw_object(w);
                jsonw_member_str(w, "kind", names[e->special]);
                if (e->special == SPECIAL_UNKNOWN)
                        jsonw_member_string(w, "path", e->text);
                if (e->subpath.p)
                        jsonw_member_string(w, "subpath", e->subpath);
                jsonw_object_end(w);
        }
        jsonw_object_end(w);
}

static inline void rig_write_entry(struct jsonw *w, const struct profile_entry *e)
{
        static const char *const names[] = {
                [ACCESS_DENY] = "deny", [ACCESS_READ] = "read", [ACCESS_WRITE] = "write"
        };

        jsonw_object(w);
        jsonw_key(w, "path");
        rig_write_target(w, e);
        jsonw_member_str(w, "access", names[e->access]);
        if (e->skips_missing)
                jsonw_member_str(w, "missing_path_behavior", "skip");
        jsonw_object_end(w);
}

static inline void rig_write_files(struct jsonw *w, const struct profile *p)
{
        jsonw_object(w);
        jsonw_member_str(w, "type", p->is_unrestricted ? "unrestricted" : "restricted");
        if (!p->is_unrestricted) {
                jsonw_key(w, "entries");
                jsonw_array(w);
                for (size_t i = 0; i < p->count; i++)
                        rig_write_entry(w, &p->entries[i]);
                jsonw_array_end(w);
                if (p->glob_depth > 0)
                        jsonw_member_u64(w, "glob_scan_max_depth", p->glob_depth);
        }
        jsonw_object_end(w);
}

/* Writes a profile with its members in a fixed order and without members that have their default. */
static inline void rig_write_profile(struct jsonw *w, const struct profile *p)
{
        static const char *const kinds[] = { [PROFILE_MANAGED] = "managed",
                                             [PROFILE_DISABLED] = "disabled",
                                             [PROFILE_EXTERNAL] = "external" };

        jsonw_object(w);
        jsonw_member_str(w, "type", kinds[p->kind]);
        if (p->kind == PROFILE_MANAGED) {
                jsonw_key(w, "file_system");
                rig_write_files(w, p);
        }
        if (p->kind != PROFILE_DISABLED || !p->has_network)
                jsonw_member_str(w, "network", p->has_network ? "enabled" : "restricted");
        jsonw_object_end(w);
}
