/* profile: see profile.h.
 *
 * One walk for both forms. Each level that is left puts its name in front of the complaint where the form wants that;
 * on the wire the complaint stands alone, as clients know it.
 */
#include "proto/profile_internal.h"

static const char *const kinds[] = {
        [PROFILE_MANAGED] = "managed", [PROFILE_DISABLED] = "disabled", [PROFILE_EXTERNAL] = "external"
};
/* By the bool that they become. */
static const char *const fs_types[] = { [false] = "restricted", [true] = "unrestricted" };
static const char *const networks[] = { [false] = "restricted", [true] = "enabled" };

size_t profile_decode_one_of(struct decoder *d, const char *key, const char *const *names, size_t count)
{
        size_t which = 0;

        decode_variant(d, key, names, count, &which);
        return which;
}

/* --- complaints --------------------------------------------------------------------------------------------------- */

void profile_leave(struct decoder *outer, const struct decoder *inner, const char *where)
{
        if (inner->has_failed && !outer->has_failed && outer->names_members && where)
                (void)err_wrap(outer->err, "%s", where);
        decode_end_inside(outer, inner);
}

static bool is_among(struct slice key, const char *const *names, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                if (slice_eq(key, slice_from_str(names[i])))
                        return true;
        }
        return false;
}

void profile_refuse_others(struct decoder *d, const char *const *names, size_t count)
{
        if (d->has_failed)
                return;
        json_each (it, d->doc, d->object) {
                struct slice key = json_string(d->arena, d->doc, it);
                if (!is_among(key, names, count)) {
                        decode_fail(d, "unknown field `%.*s`", SLICE(key));
                        return;
                }
        }
}

/* --- profiles ----------------------------------------------------------------------------------------------------- */

static void set_files(struct profile *p, const struct profile_files *files)
{
        p->entries = files->entries;
        p->count = files->count;
        p->glob_depth = files->glob_depth;
}

static void decode_managed(struct decoder *outer, const struct json *value, enum profile_form form,
                           struct profile *ret)
{
        struct profile_files files = { 0 };
        struct decoder d;

        decode_begin_inside(&d, outer, value, "ManagedFileSystemPermissions");
        ret->is_unrestricted = PROFILE_ONE_OF(&d, "type", fs_types);
        if (!ret->is_unrestricted)
                profile_decode_entries(&d, form, &files);
        else if (decode_peek(&d, "entries"))
                decode_fail(&d, "an unrestricted file system has no entries");
        profile_leave(outer, &d, "file_system");
        set_files(ret, &files);
}

/* Beside `disabled` a network says nothing in what is stored. In a request it is taken for what it says: to close less
 * than was asked for is the one mistake that must not be made. */
static void decode_tagged(struct decoder *d, enum profile_form form, struct profile *ret)
{
        ret->kind = (enum profile_kind)PROFILE_ONE_OF(d, "type", kinds);
        ret->has_network = true;
        if (ret->kind == PROFILE_MANAGED) {
                const struct json *fs = decode_required(d, "file_system");
                if (fs)
                        decode_managed(d, fs, form, ret);
        } else if (decode_peek(d, "file_system")) {
                decode_fail(d, "only a managed profile has a file_system");
        }
        if (ret->kind != PROFILE_DISABLED || (form != PROFILE_FORM_STORED && decode_peek(d, "network")))
                ret->has_network = PROFILE_ONE_OF(d, "network", networks);
}

void profile_decode_network(struct decoder *outer, const struct json *value, bool *ret_has, bool *ret)
{
        static const char *const names[] = { "enabled" };
        bool enabled = false;
        struct decoder d;

        decode_begin_inside(&d, outer, value, "NetworkPermissions");
        profile_refuse_others(&d, names, ARRAY_LEN(names));
        bool has = decode_peek(&d, "enabled") != NULL;
        if (has)
                decode_bool(&d, "enabled", &enabled);
        profile_leave(outer, &d, "network");
        if (d.has_failed)
                return;
        *ret_has = has;
        *ret = enabled;
}

static void decode_untagged(struct decoder *d, enum profile_form form, struct profile *ret)
{
        static const char *const names[] = { "network", "file_system" };
        struct profile_files files = { 0 };
        const struct json *v;
        bool ignored;

        profile_refuse_others(d, names, ARRAY_LEN(names));
        if ((v = decode_peek(d, "network")))
                profile_decode_network(d, v, &ignored, &ret->has_network);
        if ((v = decode_peek(d, "file_system")))
                profile_decode_files(d, v, form, &files);
        set_files(ret, &files);
}

int profile_decode_stored(struct arena *a, const struct json_doc *doc, const struct json *value,
                          struct profile *ret, struct err *err)
{
        struct profile p = { .kind = PROFILE_MANAGED };
        struct decoder d;

        decode_begin(&d, a, doc, value, "PermissionProfile", err);
        decode_own_members(&d);
        if (!d.has_failed && json_get(doc, value, S("type")))
                decode_tagged(&d, PROFILE_FORM_STORED, &p);
        else
                decode_untagged(&d, PROFILE_FORM_STORED, &p);

        int r = decode_end(&d);
        if (r >= 0)
                *ret = p;
        return r;
}

void profile_decode_wire(struct decoder *outer, const struct json *value, enum profile_form form,
                         struct profile *ret)
{
        struct profile p = { .kind = PROFILE_MANAGED };
        struct decoder d;

        decode_begin_inside(&d, outer, value, "ExecPermissionProfile");
        bool is_untagged = !d.has_failed && !json_get(d.doc, value, S("type")) &&
                           (json_get(d.doc, value, S("network")) || json_get(d.doc, value, S("file_system")));
        if (is_untagged)
                decode_untagged(&d, form, &p);
        else
                decode_tagged(&d, form, &p);
        decode_end_inside(outer, &d);
        if (!d.has_failed)
                *ret = p;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void encode_files(struct jsonw *w, const struct profile *p)
{
        jsonw_object(w);
        jsonw_member_str(w, "type", fs_types[p->is_unrestricted]);
        if (!p->is_unrestricted) {
                jsonw_key(w, "entries");
                jsonw_array(w);
                for (size_t i = 0; i < p->count; i++)
                        profile_encode_entry(w, &p->entries[i]);
                jsonw_array_end(w);
                if (p->glob_depth > 0)
                        jsonw_member_u64(w, "glob_scan_max_depth", p->glob_depth);
        }
        jsonw_object_end(w);
}

void profile_encode(struct jsonw *w, const struct profile *p)
{
        jsonw_object(w);
        jsonw_member_str(w, "type", kinds[p->kind]);
        if (p->kind == PROFILE_MANAGED) {
                jsonw_key(w, "file_system");
                encode_files(w, p);
        }
        if (p->kind != PROFILE_DISABLED || !p->has_network)
                jsonw_member_str(w, "network", networks[p->has_network]);
        jsonw_object_end(w);
}
