/* legacy_test: policies of older clients become profiles and profiles become policies, and denials are kept. */
#include "policy/legacy.h"

#include "policy/rig_internal.h"

#include <errno.h>

#define PROTECTED "r:ws/.git? r:ws/.agents? r:ws/.codex? r:ws/.aws?"

static struct slice w_root[] = { { "/w", 2 } };
static struct slice r_roots[] = {
        { "/r", 2 }, { "/w/sub", 6 }, { "/tmp/x", 6 }, { "/here/x", 7 }, { "/var/t/x", 8 }
};

static const char *meaning(struct arena *a, const struct sandbox_policy *policy,
                           const struct policy_host *host)
{
        struct profile p;

        sandbox_policy_to_profile(a, policy, host, &p);
        return rig_text(a, &p);
}

TEST(a_policy_without_a_sandbox_is_not_a_broad_sandbox)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(meaning(&a,
                       &(struct sandbox_policy){ .kind = SANDBOX_POLICY_FULL_ACCESS, .has_network = true },
                       NULL),
               "disabled network ");
        eq_str(meaning(&a, &(struct sandbox_policy){ .kind = SANDBOX_POLICY_EXTERNAL }, NULL), "external ");
}

TEST(a_readable_root_in_a_writable_one_takes_no_writing_away)
{
        _arena_ struct arena a = ARENA_INIT;
        struct place place = { .cwd = S("/here"), .tmpdir = S("/var/t") };
        struct policy_host host = { .place = &place };
        struct sandbox_policy policy = {
                .kind = SANDBOX_POLICY_WORKSPACE_WRITE,
                .read = { .is_restricted = true, .roots = r_roots, .root_count = ARRAY_LEN(r_roots) },
                .writable_roots = w_root,
                .writable_root_count = 1,
        };

        eq_str(meaning(&a, &policy, &host), "r/r w:ws w:slash_tmp w:tmpdir w/w " PROTECTED " r/here/.codex?");
        policy.excludes_slash_tmp = policy.excludes_tmpdir = true;
        eq_str(meaning(&a, &policy, &host), "r/r r/tmp/x r/var/t/x w:ws w/w " PROTECTED " r/here/.codex?");

        policy.kind = SANDBOX_POLICY_READ_ONLY;
        eq_str(meaning(&a, &policy, &host), "r:ws r/r r/w/sub r/tmp/x r/here/x r/var/t/x");
}

TEST(a_root_that_may_be_read_and_written_may_be_written)
{
        _arena_ struct arena a = ARENA_INIT;
        struct sandbox_policy policy = {
                .kind = SANDBOX_POLICY_WORKSPACE_WRITE,
                .read = { .is_restricted = true, .has_platform = true, .roots = w_root, .root_count = 1 },
                .writable_roots = w_root,
                .writable_root_count = 1,
                .excludes_slash_tmp = true,
                .excludes_tmpdir = true,
                .has_network = true,
        };

        eq_str(meaning(&a, &policy, NULL), "network r:minimal w:ws w/w " PROTECTED);
}

TEST(protected_paths_yield_to_a_root_of_the_same_name)
{
        _arena_ struct arena a = ARENA_INIT;
        struct slice roots[] = { S("/w"), S("/w/.git"), S("/w") };
        struct slice found[] = { S("/w/real"), S("/w/.git"), S("/w/.aws"), S("/here/.codex"), S("/w/.aws") };
        struct place place = { .cwd = S("/here") };
        struct policy_host host = { .place = &place,
                                    .protected_paths = found,
                                    .protected_count = ARRAY_LEN(found) };
        struct sandbox_policy policy = {
                .kind = SANDBOX_POLICY_WORKSPACE_WRITE,
                .writable_roots = roots,
                .writable_root_count = ARRAY_LEN(roots),
                .excludes_slash_tmp = true,
                .excludes_tmpdir = true,
        };

        eq_str(meaning(&a, &policy, &host),
               "r:root w:ws w/w w/w/.git " PROTECTED " r/w/real? r/w/.aws? r/here/.codex?");
        place.cwd = S("/");
        host.protected_count = 0;
        eq_str(meaning(&a, &policy, &host), "r:root w:ws w/w w/w/.git " PROTECTED " r/.codex?");
}

/* --- profile to policy -------------------------------------------------------------------------------------------- */

static const char *roots_text(struct arena *a, const char *what, const struct slice *roots, size_t count)
{
        const char *text = "";

        for (size_t i = 0; i < count; i++)
                text = arena_printf(a, "%s %s%.*s", text, what, SLICE(roots[i]));
        return text;
}

/* Returns the policy of a profile as a text, with `=` before it when it means the same as the profile. */
static const char *projected_profile(struct arena *a, const struct profile *p)
{
        static const char *const kinds[] = {
                [SANDBOX_POLICY_FULL_ACCESS] = "full",
                [SANDBOX_POLICY_READ_ONLY] = "read-only",
                [SANDBOX_POLICY_EXTERNAL] = "external",
                [SANDBOX_POLICY_WORKSPACE_WRITE] = "workspace",
        };
        struct err err = ERR_INIT;
        struct sandbox_policy o;
        bool is_exact;

        int r = sandbox_policy_from_profile(a, p, S("/here"), &o, &is_exact, &err);
        if (r < 0) {
                eq_int(r, -EINVAL);
                ok(slice_starts(slice_from_str(err.text),
                                S("permissions profile requests filesystem writes outside")));
                return "outside";
        }
        return arena_printf(a, "%s%s%s%s%s%s%s%s%s", is_exact ? "=" : "", kinds[o.kind],
                            o.has_network ? " network" : "", o.excludes_tmpdir ? " -tmpdir" : "",
                            o.excludes_slash_tmp ? " -tmp" : "", o.read.is_restricted ? " restricted" : "",
                            o.read.has_platform ? " platform" : "",
                            roots_text(a, "r", o.read.roots, o.read.root_count),
                            roots_text(a, "w", o.writable_roots, o.writable_root_count));
}

static const char *projected(struct arena *a, const char *entries)
{
        struct profile p = rig_profile(a, entries);

        return projected_profile(a, &p);
}

TEST(a_profile_that_came_from_a_policy_goes_back_exactly)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(projected(&a, "r:root"), "=read-only");
        eq_str(projected(&a, "r:root w:ws w:slash_tmp w:tmpdir " PROTECTED), "=workspace");
        eq_str(projected(&a, "r:root w:ws w:tmpdir w/w w/v " PROTECTED " r/w/.git?"),
               "=workspace -tmp w/w w/v");
        eq_str(projected(&a, "r:ws"), "=read-only restricted");
        eq_str(projected(&a, "r:ws r:minimal r/r"), "=read-only restricted platform r/r");
        eq_str(projected(&a, "r:minimal r/r w:ws " PROTECTED),
               "=workspace -tmpdir -tmp restricted platform r/r");
        eq_str(projected_profile(&a, &(struct profile){ .kind = PROFILE_DISABLED, .has_network = true }),
               "=full network");
        eq_str(projected_profile(&a, &(struct profile){ .kind = PROFILE_EXTERNAL }), "=external");
        eq_str(projected_profile(&a, &(struct profile){ .kind = PROFILE_EXTERNAL, .has_network = true }),
               "=external network");
}

TEST(a_policy_that_says_less_than_the_profile_is_not_exact)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(projected(&a, ""), "read-only");
        eq_str(projected(&a, "r:root d/s"), "read-only");
        eq_str(projected(&a, "r:root dglob(*.key)"), "read-only");
        eq_str(projected(&a, "r/r"), "read-only");
        eq_str(projected(&a, "r:ws d/r/s r/r"), "read-only");
        eq_str(projected(&a, "r:root w:ws r/here/src"), "workspace -tmpdir -tmp");
        eq_str(projected(&a, "r:root r/here/src? w:ws"), "workspace -tmpdir -tmp");
        eq_str(projected(&a, "r:root w/here"), "workspace -tmpdir -tmp");
        eq_str(projected(&a, "w:root"), "external");
        eq_str(projected_profile(&a, &(struct profile){ .is_unrestricted = true, .has_network = true }),
               "full network");
        eq_str(projected_profile(&a, &(struct profile){ .is_unrestricted = true }), "external");
}

TEST(restricted_reads_do_not_become_full_on_the_way_back)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(projected(&a, "r:minimal w/here"), "workspace -tmpdir -tmp restricted platform");
        eq_str(projected(&a, "w:ws w/w r/w/sub"), "workspace -tmpdir -tmp restricted r/w/sub w/w");
}

TEST(writable_places_become_roots_once)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(projected(&a, "r:root w:ws w/w w/w w:ws/docs w/here/docs w:ws/../out w:ws//abs"),
               "workspace -tmpdir -tmp w/w w/here/docs");
}

TEST(writes_outside_the_workspace_cannot_be_named_without_it)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(projected(&a, "r:root w/o"), "outside");
        eq_str(projected(&a, "r:root w:tmpdir"), "outside");
        eq_str(projected(&a, "r:root w:slash_tmp"), "outside");
        eq_str(projected(&a, "r:root w:ws/docs"), "outside");
        eq_str(projected(&a, "r:root w:ws/../out"), "outside");
        eq_str(projected(&a, "w:root r/o"), "outside");
        eq_str(projected(&a, "w:root d/o"), "outside");
}

TEST(a_write_that_has_no_effect_is_no_write)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(projected(&a, "r:root wglob(*.c)"), "read-only");
        eq_str(projected(&a, "r:root w:minimal w:unknown"), "read-only");
        eq_str(projected(&a, "r:root w:ws d:ws"), "read-only");
        eq_str(projected(&a, "r:root w:slash_tmp d/tmp"), "read-only");
        eq_str(projected(&a, "r:root w:ws w/o d/o"), "workspace -tmpdir -tmp");
}

/* --- keeping denials ---------------------------------------------------------------------------------------------- */

static const char *text_after_replace(struct arena *a, struct profile next, const char *old,
                                      uint64_t old_depth)
{
        struct profile p = rig_profile(a, old), ret;

        p.glob_depth = old_depth;
        profile_replace(a, &next, &p, &ret);
        return rig_text(a, &ret);
}

TEST(what_was_denied_stays_denied)
{
        _arena_ struct arena a = ARENA_INIT;
        struct profile next = rig_profile(&a, "r:root w/w d/s");
        struct profile all = { .is_unrestricted = true };
        struct profile none = { .kind = PROFILE_DISABLED, .has_network = true };
        struct profile external = { .kind = PROFILE_EXTERNAL };

        eq_str(text_after_replace(&a, next, "w/x d/s d/t dglob(*.k)", 3),
               "r:root w/w d/s d/t dglob(*.k) depth 3");
        eq_str(text_after_replace(&a, all, "r:root d/s", 0), "w:root d/s");
        eq_str(text_after_replace(&a, none, "r:root d/s", 0), "network w:root d/s");
        eq_str(text_after_replace(&a, all, "r:root", 0), "unrestricted ");
        eq_str(text_after_replace(&a, none, "r:root", 0), "disabled network ");
        eq_str(text_after_replace(&a, external, "r:root d/s", 0), "external ");
}

TEST(a_depth_never_reaches_less_than_before)
{
        _arena_ struct arena a = ARENA_INIT;
        struct profile next = rig_profile(&a, "r:root dglob(*.a)");

        next.glob_depth = 2;
        eq_str(text_after_replace(&a, next, "dglob(*.b)", 5), "r:root dglob(*.a) dglob(*.b) depth 5");
        eq_str(text_after_replace(&a, next, "dglob(*.b)", 0), "r:root dglob(*.a) dglob(*.b)");
        eq_str(text_after_replace(&a, next, "d/s", 0), "r:root dglob(*.a) d/s depth 2");
}
