/* sandbox: decodes the `sandbox` member of process and file requests, and decides whether it asks for anything to be enforced.
 *
 * All types and names are checked first, so that a malformed member is reported as malformed and not as "cannot be enforced".
 * A request runs without a sandbox only when nothing in its profile could forbid anything.
 */
#include "proto/sandbox.h"

#include "proto/legacy.h"

#include <errno.h>

ACCESS_COMPARED(3);

enum override { OVERRIDE_NONE, OVERRIDE_RESTRICTED, OVERRIDE_BYPASS };

static const char *const overrides[] = {
        [OVERRIDE_NONE] = "noOverride",
        [OVERRIDE_RESTRICTED] = "escalatedSandboxWithRestrictions",
        [OVERRIDE_BYPASS] = "bypassSandboxFirstAttempt",
};

static int refuse(struct err *err)
{
        err->reason = "sandboxUnavailable";
        err->remedy = "Send a profile that restricts nothing, or no sandbox, and isolate the whole server "
                      "instead; or use a server that enforces permission profiles.";
        return err_set(err, RPC_INVALID_PARAMS, -EINVAL,
                       "sandbox intent cannot be enforced on this executor");
}

/* --- decoding the member ------------------------------------------------------------------------------------------ */

/* Is there a member with which older clients asked for something to be enforced, and which cannot be mapped to a profile? */
static bool has_lost_member(struct decoder *d)
{
        return decode_peek(d, "fileSystemSandboxPolicy") || decode_peek(d, "additionalPermissions") ||
               (decode_peek(d, "sandboxPolicyCwd") && !decode_peek(d, "sandboxPolicy")) ||
               (decode_peek(d, "sandboxPolicy") && decode_peek(d, "permissions"));
}

/* Decodes the policy that older clients sent in place of `permissions` and `cwd`. The protected names are not added here but by the
 * plan of the sandbox, which knows which of them exist. */
static void decode_policy(struct decoder *d, const struct json *value, struct sandbox_context *c)
{
        struct sandbox_policy policy;
        const struct json *v = decode_peek(d, "sandboxPolicyCwd");

        if (v)
                decode_path_value(d, v, "sandbox cwd URI", &c->cwd);
        if (d->has_failed)
                return;
        if (sandbox_policy_decode(d->arena, d->doc, value, &policy, d->err) < 0) {
                d->has_failed = true;
                return;
        }
        struct place place = { .cwd = c->cwd, .roots = &c->cwd, .root_count = c->cwd.p != NULL };
        struct policy_host host = { .place = &place };
        sandbox_policy_to_profile(d->arena, &policy, &host, &c->profile);
}

static void decode_one_of(struct decoder *d, const char *key, const char *const *names, size_t count,
                          size_t *ret)
{
        if (decode_peek(d, key))
                decode_variant(d, key, names, count, ret);
}

/* Decodes and checks every path of a list. `ret` is NULL for a list whose paths are not used. */
static void decode_paths(struct decoder *d, const struct json *list, const char *what, struct slice *ret)
{
        struct slice ignored;

        json_each (it, d->doc, list)
                decode_path_value(d, it, what, ret ? ret++ : &ignored);
}

static void decode_roots(struct decoder *d, struct sandbox_context *c)
{
        const struct json *list = decode_optional_array(d, "workspaceRoots");

        if (!list)
                return;
        size_t count = json_count(d->doc, list);
        if (count > SANDBOX_ROOTS_MAX) {
                decode_fail(d, "a sandbox has at most %d workspaceRoots", SANDBOX_ROOTS_MAX);
                return;
        }
        c->has_roots = true;
        c->root_count = count;
        c->roots = arena_zalloc(d->arena, (count + 1) * sizeof(*c->roots));
        decode_paths(d, list, "sandbox workspace root URI", c->roots);
        json_each (it, d->doc, list)
                profile_refuse_relative_uri(d, it, "sandbox workspace root");
}

/* Checks and drops the members that are for Windows or describe the client's own host. */
static void decode_unused_members(struct decoder *d)
{
        static const char *const levels[] = { "disabled", "restricted-token", "elevated", "mxc" };
        static const char *const modes[] = { "reconcile", "preserve" };
        const struct json *v;
        struct slice ignored;
        size_t ignored_index;
        bool ignored_bool;

        if ((v = decode_peek(d, "userHomeDir")))
                decode_path_value(d, v, "sandbox home URI", &ignored);
        if (decode_peek(d, "temporaryDirectories") && (v = decode_array(d, "temporaryDirectories")))
                decode_paths(d, v, "sandbox temporary directory URI", NULL);
        if (json_get(d->doc, d->object, S("windowsSandboxLevel")))
                decode_variant(d, "windowsSandboxLevel", levels, ARRAY_LEN(levels), &ignored_index);
        if (decode_peek(d, "windowsSandboxPrivateDesktop"))
                decode_bool(d, "windowsSandboxPrivateDesktop", &ignored_bool);
        decode_one_of(d, "windowsSandboxProxySettingsMode", modes, ARRAY_LEN(modes), &ignored_index);
        decode_optional_bool(d, "useLegacyLandlock", &ignored_bool);
}

int sandbox_context_decode(struct arena *a, const struct json_doc *doc, const struct json *value,
                           enum sandbox_use use, struct sandbox_context *ret, struct err *err)
{
        struct sandbox_context c = { 0 };
        size_t override = OVERRIDE_NONE;
        const struct json *v;
        struct decoder d;

        decode_begin(&d, a, doc, value, "WireFileSystemSandboxContext", err);
        if (has_lost_member(&d))
                return refuse(err);
        bool is_old = (v = decode_peek(&d, "sandboxPolicy")) != NULL;
        if (is_old)
                decode_policy(&d, v, &c);
        else if ((v = decode_required(&d, "permissions")))
                profile_decode_wire(&d, v,
                                    use == SANDBOX_FOR_FILES ? PROFILE_FORM_WIRE_FILES : PROFILE_FORM_WIRE,
                                    &c.profile);
        if (!d.has_failed && json_get(doc, value, S("sandboxOverride")))
                decode_variant(&d, "sandboxOverride", overrides, ARRAY_LEN(overrides), &override);
        if ((v = decode_peek(&d, "cwd"))) {
                decode_path_value(&d, v, "sandbox cwd URI", &c.cwd);
                profile_refuse_relative_uri(&d, v, "sandbox cwd");
        }
        decode_roots(&d, &c);
        decode_unused_members(&d);
        if (!d.has_failed && use == SANDBOX_FOR_FILES && !c.cwd.p && profile_needs_cwd(&c.profile))
                decode_fail(&d, "file system sandbox context with dynamic permissions requires cwd");

        int r = decode_end(&d);
        if (r < 0)
                return r;
        if (override == OVERRIDE_RESTRICTED)
                return refuse(err);
        *ret = c;
        return 0;
}

struct place sandbox_context_place(const struct sandbox_context *c, struct slice fallback_cwd,
                                   struct slice tmpdir)
{
        struct place place = {
                .cwd = c->cwd.p ? c->cwd : fallback_cwd,
                .roots = c->roots,
                .root_count = c->root_count,
                .tmpdir = tmpdir,
        };

        if (!c->has_roots && c->cwd.p) {
                place.roots = &c->cwd;
                place.root_count = 1;
        }
        return place;
}

/* --- requests that need no sandbox -------------------------------------------------------------------------------- */

/* Does the profile allow everything with all files? Stricter than profile_writes_all: any entry that is not plain write access
 * makes the answer no, because entries are not evaluated here. */
static bool has_all_files(const struct profile *p)
{
        bool has_root = false;

        if (p->kind != PROFILE_MANAGED || p->is_unrestricted)
                return true;
        for (size_t i = 0; i < p->count; i++) {
                const struct profile_entry *e = &p->entries[i];
                if (e->access != ACCESS_WRITE || e->kind == TARGET_GLOB)
                        return false;
                has_root |= e->kind == TARGET_SPECIAL && e->special == SPECIAL_ROOT && !e->subpath.p;
        }
        return has_root;
}

int sandbox_files_decode(struct arena *a, const struct json_doc *doc, const struct json *value,
                         const struct sandbox_context **ret, struct err *err)
{
        struct sandbox_context *c = arena_new(a, struct sandbox_context);
        int r = sandbox_context_decode(a, doc, value, SANDBOX_FOR_FILES, c, err);

        *ret = r < 0 || has_all_files(&c->profile) ? NULL : c;
        return r;
}

int sandbox_admit(struct arena *a, const struct json_doc *doc, const struct json *value, struct err *err)
{
        struct sandbox_context c;
        int r = sandbox_context_decode(a, doc, value, SANDBOX_FOR_PROCESS, &c, err);

        if (r < 0)
                return r;
        return has_all_files(&c.profile) && c.profile.has_network ? 0 : refuse(err);
}
