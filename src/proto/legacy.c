/* legacy: reads the sandbox policies of older clients. All names are in two tables, one for each spelling. */
#include "proto/legacy.h"

#include "proto/profile.h"

#include <errno.h>

#define KINDS 4

struct spelling {
        const char *kinds[KINDS];
        const char *network_access, *writable_roots, *exclude_tmpdir, *exclude_slash_tmp;
        const char *access;           /* a member of read-only */
        const char *read_only_access; /* the member `readOnlyAccess` of workspace-write */
        const char *access_types[2];  /* indexed by is_restricted */
        const char *include_platform_defaults, *readable_roots;
};

static const struct spelling spellings[] = {
        {
                .kinds = {
                        [SANDBOX_POLICY_FULL_ACCESS] = "danger-full-access",
                        [SANDBOX_POLICY_READ_ONLY] = "read-only",
                        [SANDBOX_POLICY_EXTERNAL] = "external-sandbox",
                        [SANDBOX_POLICY_WORKSPACE_WRITE] = "workspace-write",
                },
                .network_access = "network_access",
                .writable_roots = "writable_roots",
                .exclude_tmpdir = "exclude_tmpdir_env_var",
                .exclude_slash_tmp = "exclude_slash_tmp",
                .access = "access",
                .read_only_access = "read_only_access",
                .access_types = { "full-access", "restricted" },
                .include_platform_defaults = "include_platform_defaults",
                .readable_roots = "readable_roots",
        },
        {
                .kinds = {
                        [SANDBOX_POLICY_FULL_ACCESS] = "dangerFullAccess",
                        [SANDBOX_POLICY_READ_ONLY] = "readOnly",
                        [SANDBOX_POLICY_EXTERNAL] = "externalSandbox",
                        [SANDBOX_POLICY_WORKSPACE_WRITE] = "workspaceWrite",
                },
                .network_access = "networkAccess",
                .writable_roots = "writableRoots",
                .exclude_tmpdir = "excludeTmpdirEnvVar",
                .exclude_slash_tmp = "excludeSlashTmp",
                .access = "access",
                .read_only_access = "readOnlyAccess",
                .access_types = { "fullAccess", "restricted" },
                .include_platform_defaults = "includePlatformDefaults",
                .readable_roots = "readableRoots",
        },
};

/* Decodes the tag, which may be of either spelling. Returns that spelling; *ret is the kind. */
static const struct spelling *decode_kind(struct decoder *d, enum sandbox_policy_kind *ret)
{
        const char *names[2 * KINDS];
        size_t which = 0;

        memcpy(names, spellings[0].kinds, sizeof(spellings[0].kinds));
        memcpy(names + KINDS, spellings[1].kinds, sizeof(spellings[0].kinds));
        decode_variant(d, "type", names, ARRAY_LEN(names), &which);
        *ret = (enum sandbox_policy_kind)(which % KINDS);
        return &spellings[which / KINDS];
}

static void decode_roots(struct decoder *d, const char *key, struct slice **ret, size_t *ret_count)
{
        const struct json *list = decode_optional_array(d, key);

        if (!list)
                return;
        size_t n = json_count(d->doc, list);
        if (n > SANDBOX_POLICY_ROOTS_MAX) {
                decode_fail(d, "%s: at most %d paths", key, SANDBOX_POLICY_ROOTS_MAX);
                return;
        }

        struct slice *roots = arena_alloc(d->arena, (n + 1) * sizeof(*roots));
        n = 0;
        json_each (it, d->doc, list) {
                profile_decode_path(d, it, PROFILE_FORM_STORED, &roots[n]);
                if (d->has_failed) {
                        (void)err_wrap(d->err, "%s[%zu]", key, n);
                        return;
                }
                n++;
        }
        *ret = roots;
        *ret_count = n;
}

static void decode_read_access(struct decoder *outer, const struct spelling *sp, const char *key,
                               struct read_access *ret)
{
        const struct json *value = json_get(outer->doc, outer->object, slice_from_str(key));
        struct read_access read = { .has_platform = true };
        size_t is_restricted = 0;
        struct decoder d;

        if (outer->has_failed || !value)
                return;
        decode_begin_inside(&d, outer, value, "ReadOnlyAccess");
        decode_variant(&d, "type", sp->access_types, ARRAY_LEN(sp->access_types), &is_restricted);
        if (is_restricted) {
                const char *const names[] = { "type", sp->include_platform_defaults, sp->readable_roots };
                profile_refuse_others(&d, names, ARRAY_LEN(names));
                decode_optional_bool(&d, sp->include_platform_defaults, &read.has_platform);
                decode_roots(&d, sp->readable_roots, &read.roots, &read.root_count);
                read.is_restricted = true;
        } else {
                const char *const names[] = { "type" };
                profile_refuse_others(&d, names, ARRAY_LEN(names));
                read.has_platform = false;
        }
        if (d.has_failed)
                (void)err_wrap(outer->err, "%s", key);
        decode_end_inside(outer, &d);
        if (!d.has_failed)
                *ret = read;
}

static void decode_read_only(struct decoder *d, const struct spelling *sp, struct sandbox_policy *ret)
{
        const char *const names[] = { "type", sp->network_access, sp->access };

        profile_refuse_others(d, names, ARRAY_LEN(names));
        decode_optional_bool(d, sp->network_access, &ret->has_network);
        decode_read_access(d, sp, sp->access, &ret->read);
}

static void decode_external(struct decoder *d, const struct spelling *sp, struct sandbox_policy *ret)
{
        const char *const names[] = { "type", sp->network_access };
        static const char *const networks[] = { [false] = "restricted", [true] = "enabled" };
        size_t network = false;

        profile_refuse_others(d, names, ARRAY_LEN(names));
        if (!d->has_failed && json_get(d->doc, d->object, slice_from_str(sp->network_access)))
                decode_variant(d, sp->network_access, networks, ARRAY_LEN(networks), &network);
        ret->has_network = network;
}

static void decode_workspace_write(struct decoder *d, const struct spelling *sp, struct sandbox_policy *ret)
{
        const char *const names[] = {
                "type",
                sp->writable_roots,
                sp->read_only_access,
                sp->network_access,
                sp->exclude_tmpdir,
                sp->exclude_slash_tmp,
        };

        profile_refuse_others(d, names, ARRAY_LEN(names));
        decode_roots(d, sp->writable_roots, &ret->writable_roots, &ret->writable_root_count);
        decode_read_access(d, sp, sp->read_only_access, &ret->read);
        decode_optional_bool(d, sp->network_access, &ret->has_network);
        decode_optional_bool(d, sp->exclude_tmpdir, &ret->excludes_tmpdir);
        decode_optional_bool(d, sp->exclude_slash_tmp, &ret->excludes_slash_tmp);
}

int sandbox_policy_decode(struct arena *a, const struct json_doc *doc, const struct json *value,
                          struct sandbox_policy *ret, struct err *err)
{
        static const char *const only_type[] = { "type" };
        struct sandbox_policy policy = { 0 };
        struct decoder d;

        decode_begin(&d, a, doc, value, "SandboxPolicy", err);
        decode_own_members(&d);
        const struct spelling *sp = decode_kind(&d, &policy.kind);
        switch (policy.kind) {
        case SANDBOX_POLICY_FULL_ACCESS:
                profile_refuse_others(&d, only_type, ARRAY_LEN(only_type));
                policy.has_network = true;
                break;
        case SANDBOX_POLICY_READ_ONLY:
                decode_read_only(&d, sp, &policy);
                break;
        case SANDBOX_POLICY_EXTERNAL:
                decode_external(&d, sp, &policy);
                break;
        case SANDBOX_POLICY_WORKSPACE_WRITE:
                decode_workspace_write(&d, sp, &policy);
                break;
        }

        int r = decode_end(&d);
        if (r >= 0)
                *ret = policy;
        return r;
}
