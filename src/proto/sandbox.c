/* sandbox: see sandbox.h.
 *
 * The shape is checked whole before it is judged, so that a mistake is called a mistake and not "cannot be enforced".
 * Judging errs on the safe side: a profile runs plainly only when nothing in it could forbid anything.
 */
#include "proto/sandbox.h"

#include <errno.h>

enum profile_type { PROFILE_MANAGED, PROFILE_DISABLED, PROFILE_EXTERNAL };
enum fs_type { FS_RESTRICTED, FS_UNRESTRICTED };
enum network { NETWORK_RESTRICTED, NETWORK_ENABLED };
enum access { ACCESS_READ, ACCESS_WRITE, ACCESS_DENY, ACCESS_NONE };
enum path_type { PATH_PATH, PATH_GLOB, PATH_SPECIAL };
enum special { SPECIAL_ROOT, SPECIAL_UNKNOWN = 6 }; /* those that matter here */
enum override { OVERRIDE_NONE, OVERRIDE_RESTRICTED, OVERRIDE_BYPASS };

static const char *const overrides[] = {
        [OVERRIDE_NONE] = "noOverride",
        [OVERRIDE_RESTRICTED] = "escalatedSandboxWithRestrictions",
        [OVERRIDE_BYPASS] = "bypassSandboxFirstAttempt",
};

/* What the entries of a profile come to. */
struct verdict {
        bool has_write_to_all;
        bool has_limit; /* an entry that could take something away */
};

static size_t decode_one_of(struct decoder *d, const char *key, const char *const *names, size_t count)
{
        size_t which = 0;

        decode_variant(d, key, names, count, &which);
        return which;
}
#define ONE_OF(d, key, names) decode_one_of((d), (key), (names), ARRAY_LEN(names))

static int refuse(struct err *err)
{
        err->reason = "sandboxUnavailable";
        err->remedy = "Send a profile that restricts nothing, or no sandbox, and isolate the whole server "
                      "instead; or use a server that enforces permission profiles.";
        return err_set(err, RPC_INVALID_PARAMS, -EINVAL,
                       "sandbox intent cannot be enforced on this executor");
}

/* --- shapes ------------------------------------------------------------------------------------------------------- */

static bool is_special_root(struct decoder *outer, const struct json *value)
{
        static const char *const kinds[] = {
                [SPECIAL_ROOT] = "root",
                "minimal",
                "current_working_directory",
                "project_roots",
                "tmpdir",
                "slash_tmp",
                [SPECIAL_UNKNOWN] = "unknown",
        };
        struct slice subpath = { 0 }, ignored;
        struct decoder d;

        decode_begin_inside(&d, outer, value, "ExecFileSystemSpecialPath");
        size_t kind = ONE_OF(&d, "kind", kinds);
        if (kind == SPECIAL_UNKNOWN)
                decode_string(&d, "path", &ignored);
        decode_optional_string_or_null(&d, "subpath", &subpath);
        decode_end_inside(outer, &d);
        return kind == SPECIAL_ROOT && !subpath.p;
}

/* A URI without a slash behind its scheme would silently become `/x`: in a permission that is refused. */
static void decode_absolute_path(struct decoder *d, const struct json *value, struct slice *ret)
{
        decode_path_value(d, value, "sandbox permission path URI", ret);
        if (d->has_failed)
                return;
        struct slice text = json_string(d->arena, d->doc, value);
        struct slice scheme = slice_split(&text, ':');
        bool is_native = scheme.n > 0 && scheme.p[0] == '/';
        if (!is_native && (text.n == 0 || text.p[0] != '/'))
                decode_fail(d, "sandbox permission path is not absolute");
}

/* Does the path of an entry mean everything? Only the special root does: `/` by name could be narrowed by rules that are
 * not looked at here. */
static bool decode_entry_path(struct decoder *outer, const struct json *value, enum path_type *ret_type)
{
        static const char *const types[] = {
                [PATH_PATH] = "path", [PATH_GLOB] = "glob_pattern", [PATH_SPECIAL] = "special"
        };
        struct decoder d;
        struct slice text = { 0 };
        bool is_root = false;

        decode_begin_inside(&d, outer, value, "FileSystemPath");
        *ret_type = (enum path_type)ONE_OF(&d, "type", types);
        if (*ret_type == PATH_PATH) {
                const struct json *path = decode_required(&d, "path");
                if (path)
                        decode_absolute_path(&d, path, &text);
        } else if (*ret_type == PATH_GLOB) {
                decode_string(&d, "pattern", &text);
        } else {
                const struct json *special = decode_required(&d, "value");
                is_root = special && is_special_root(&d, special);
        }
        decode_end_inside(outer, &d);
        return is_root;
}

static void decode_entry(struct decoder *outer, const struct json *value, struct verdict *verdict)
{
        static const char *const accesses[] = {
                [ACCESS_READ] = "read",
                [ACCESS_WRITE] = "write",
                [ACCESS_DENY] = "deny",
                [ACCESS_NONE] = "none",
        };
        static const char *const behaviors[] = { "skip" };
        struct decoder d;
        enum path_type type = PATH_PATH;
        bool is_root = false;

        decode_begin_inside(&d, outer, value, "ExecFileSystemSandboxEntry");
        const struct json *path = decode_required(&d, "path");
        if (path)
                is_root = decode_entry_path(&d, path, &type);
        enum access access = (enum access)ONE_OF(&d, "access", accesses);
        if (decode_peek(&d, "missing_path_behavior"))
                (void)ONE_OF(&d, "missing_path_behavior", behaviors);
        decode_end_inside(outer, &d);

        if (access != ACCESS_WRITE || type == PATH_GLOB)
                verdict->has_limit = true;
        else if (is_root)
                verdict->has_write_to_all = true;
}

static bool is_full_write(struct decoder *outer, const struct json *value)
{
        static const char *const types[] = {
                [FS_RESTRICTED] = "restricted", [FS_UNRESTRICTED] = "unrestricted"
        };
        struct verdict verdict = { 0 };
        struct decoder d;
        const struct json *v;
        uint64_t depth = 1;

        decode_begin_inside(&d, outer, value, "ManagedFileSystemPermissions");
        enum fs_type type = (enum fs_type)ONE_OF(&d, "type", types);
        if (type == FS_RESTRICTED) {
                if ((v = decode_array(&d, "entries"))) {
                        json_each (it, d.doc, v)
                                decode_entry(&d, it, &verdict);
                }
                if ((v = decode_peek(&d, "glob_scan_max_depth")))
                        decode_u64_value(&d, v, &depth);
                if (depth == 0)
                        decode_fail(&d, "invalid value: integer `0`, expected a nonzero usize");
        } else if (decode_peek(&d, "entries")) {
                decode_fail(&d, "an unrestricted file system has no entries");
        }
        decode_end_inside(outer, &d);
        return type == FS_UNRESTRICTED || (verdict.has_write_to_all && !verdict.has_limit);
}

/* Does the profile ask for nothing, or for nothing but the network? */
static bool is_plain_profile(struct decoder *outer, const struct json *value, bool needs_network)
{
        static const char *const types[] = {
                [PROFILE_MANAGED] = "managed",
                [PROFILE_DISABLED] = "disabled",
                [PROFILE_EXTERNAL] = "external",
        };
        static const char *const networks[] = {
                [NETWORK_RESTRICTED] = "restricted", [NETWORK_ENABLED] = "enabled"
        };
        enum network network = NETWORK_ENABLED;
        bool has_all_files = true;
        struct decoder d;

        decode_begin_inside(&d, outer, value, "ExecPermissionProfile");
        enum profile_type type = (enum profile_type)ONE_OF(&d, "type", types);
        if (type == PROFILE_MANAGED) {
                const struct json *fs = decode_required(&d, "file_system");
                has_all_files = fs && is_full_write(&d, fs);
        }
        if (type != PROFILE_MANAGED && decode_peek(&d, "file_system"))
                decode_fail(&d, "only a managed profile has a file_system");
        if (type != PROFILE_DISABLED || decode_peek(&d, "network"))
                network = (enum network)ONE_OF(&d, "network", networks);
        decode_end_inside(outer, &d);
        return has_all_files && (network == NETWORK_ENABLED || !needs_network);
}

/* Members that older clients sent in place of `permissions`: each of them wants something enforced. */
static bool has_old_member(struct decoder *d)
{
        static const char *const names[] = {
                "sandboxPolicy",
                "sandboxPolicyCwd",
                "fileSystemSandboxPolicy",
                "additionalPermissions",
        };

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                if (decode_peek(d, names[i]))
                        return true;
        }
        return false;
}

/* The profile from before the tag: { network?, file_system? }. */
static bool is_untagged(const struct json_doc *doc, const struct json *profile)
{
        return profile && !json_get(doc, profile, S("type")) &&
               (json_get(doc, profile, S("network")) || json_get(doc, profile, S("file_system")));
}

static void check_paths(struct decoder *d, const struct json *list, const char *what)
{
        struct slice ignored;

        if (!list)
                return;
        json_each (it, d->doc, list)
                decode_path_value(d, it, what, &ignored);
}

/* What stands beside the profile. It gives names a meaning, or is for Windows; only the override asks for something. */
static bool has_plain_context(struct decoder *d)
{
        static const char *const levels[] = { "disabled", "restricted-token", "elevated", "mxc" };
        static const char *const modes[] = { "reconcile", "preserve" };
        size_t override = OVERRIDE_NONE;
        struct slice ignored;
        bool ignored_bool;
        const struct json *v;

        if (json_get(d->doc, d->object, S("sandboxOverride")))
                override = ONE_OF(d, "sandboxOverride", overrides);
        if ((v = decode_peek(d, "cwd")))
                decode_path_value(d, v, "sandbox cwd URI", &ignored);
        check_paths(d, decode_optional_array(d, "workspaceRoots"), "sandbox workspace root URI");
        if ((v = decode_peek(d, "userHomeDir")))
                decode_path_value(d, v, "sandbox home URI", &ignored);
        if (decode_peek(d, "temporaryDirectories"))
                check_paths(d, decode_array(d, "temporaryDirectories"), "sandbox temporary directory URI");
        (void)ONE_OF(d, "windowsSandboxLevel", levels);
        if (decode_peek(d, "windowsSandboxPrivateDesktop"))
                decode_bool(d, "windowsSandboxPrivateDesktop", &ignored_bool);
        if (decode_peek(d, "windowsSandboxProxySettingsMode"))
                (void)ONE_OF(d, "windowsSandboxProxySettingsMode", modes);
        decode_optional_bool(d, "useLegacyLandlock", &ignored_bool);
        return override != OVERRIDE_RESTRICTED;
}

static int admit(struct arena *a, const struct json_doc *doc, const struct json *value, bool needs_network,
                 struct err *err)
{
        struct decoder d;
        bool is_plain = false;

        decode_begin(&d, a, doc, value, "WireFileSystemSandboxContext", err);
        if (has_old_member(&d))
                return refuse(err);
        const struct json *profile = decode_required(&d, "permissions");
        if (is_untagged(doc, profile))
                return refuse(err);
        if (profile)
                is_plain = is_plain_profile(&d, profile, needs_network);
        is_plain &= has_plain_context(&d);

        int r = decode_end(&d);
        if (r < 0)
                return r;
        return is_plain ? 0 : refuse(err);
}

int sandbox_admit(struct arena *a, const struct json_doc *doc, const struct json *value, struct err *err)
{
        return admit(a, doc, value, true, err);
}

int sandbox_admit_files(struct arena *a, const struct json_doc *doc, const struct json *value,
                        struct err *err)
{
        return admit(a, doc, value, false, err);
}
