/* profile: reads permission profiles from JSON.
 *
 * The same functions read stored profiles and those of requests. For a stored profile each level adds its name in front of an
 * error text; for a profile of a request the text stands alone, as clients know it.
 */
#include "proto/profile_internal.h"

static const char *const kinds[] = {
        [PROFILE_MANAGED] = "managed", [PROFILE_DISABLED] = "disabled", [PROFILE_EXTERNAL] = "external"
};
/* The texts of two members, each at the index of the bool that it becomes. */
static const char *const fs_types[] = { [false] = "restricted", [true] = "unrestricted" };
static const char *const networks[] = { [false] = "restricted", [true] = "enabled" };

size_t profile_decode_one_of(struct decoder *d, const char *key, const char *const *names, size_t count)
{
        size_t which = 0;

        decode_variant(d, key, names, count, &which);
        return which;
}

/* --- error texts -------------------------------------------------------------------------------------------------- */

void profile_leave(struct decoder *outer, const struct decoder *inner, const char *where)
{
        if (inner->has_failed && !outer->has_failed && outer->names_members && where)
                (void)err_wrap(outer->err, "%s", where);
        decode_end_inside(outer, inner);
}

void profile_refuse_others(struct decoder *d, const char *const *names, size_t count)
{
        if (d->has_failed)
                return;
        json_each (it, d->doc, d->object) {
                struct slice key = json_string(d->arena, d->doc, it);
                if (slice_find(key, names, count) == count) {
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

/* In a stored profile of type `disabled` the member `network` has no meaning. In a request it is obeyed, because a request must
 * never get more access than it asked for. */
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

/* Decodes { "enabled"?: bool or null }. */
static void decode_network(struct decoder *outer, const struct json *value, bool *ret)
{
        static const char *const names[] = { "enabled" };
        bool enabled = false;
        struct decoder d;

        decode_begin_inside(&d, outer, value, "NetworkPermissions");
        profile_refuse_others(&d, names, ARRAY_LEN(names));
        if (decode_peek(&d, "enabled"))
                decode_bool(&d, "enabled", &enabled);
        profile_leave(outer, &d, "network");
        if (!d.has_failed)
                *ret = enabled;
}

static void decode_untagged(struct decoder *d, enum profile_form form, struct profile *ret)
{
        static const char *const names[] = { "network", "file_system" };
        struct profile_files files = { 0 };
        const struct json *v;

        profile_refuse_others(d, names, ARRAY_LEN(names));
        if ((v = decode_peek(d, "network")))
                decode_network(d, v, &ret->has_network);
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

/* Returns whether the object has the member, and it is not null. */
static bool has_member(const struct json_doc *doc, const struct json *object, const char *key)
{
        const struct json *v = json_get(doc, object, slice_from_str(key));

        return v && v->type != JSON_NULL;
}

int profile_decode_overlay(struct arena *a, const struct json_doc *doc, const struct json *value,
                           struct overlay *ret, struct err *err)
{
        struct profile p = { .kind = PROFILE_MANAGED };
        struct decoder d;

        decode_begin(&d, a, doc, value, "AdditionalPermissionProfile", err);
        decode_own_members(&d);
        decode_untagged(&d, PROFILE_FORM_STORED, &p);

        int r = decode_end(&d);
        if (r >= 0)
                *ret = (struct overlay){
                        .has_network_word = has_member(doc, json_get(doc, value, S("network")), "enabled"),
                        .has_network = p.has_network,
                        .has_files = has_member(doc, value, "file_system"),
                        .entries = p.entries,
                        .count = p.count,
                        .glob_depth = p.glob_depth,
                };
        return r;
}

int profile_decode_either(struct arena *a, const struct json_doc *doc, const struct json *value,
                          struct profile *ret, struct err *err)
{
        struct err ignored = ERR_INIT;
        struct decoder d;

        /* The form of requests comes first, because it is the one that servers obey. */
        decode_begin(&d, a, doc, value, "PermissionProfile", &ignored);
        profile_decode_wire(&d, value, PROFILE_FORM_WIRE, ret);
        return decode_end(&d) == 0 ? 0 : profile_decode_stored(a, doc, value, ret, err);
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
