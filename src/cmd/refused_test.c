/* refused_test: which line is printed for what a command was refused, and which option it names. */
#include "cmd/refused.h"

#include "base/limits.h"
#include "unit.h"

static const struct slice cwd = S("/tree");
static const struct place place = {
        .cwd = S("/tree"), .roots = &cwd, .root_count = 1, .tmpdir = S("/var/t")
};
static const struct plan read_only = { .has_view = true, .root = PLAN_ROOT_READ };

/* Checks that `want` is printed after the command has written `err` to standard error. */
static void tells(struct refused r, const char *err, const char *want)
{
        _buf_ struct buf out = BUF_INIT(4096);
        r.place = &place;
        r.err = slice_from_str(err);
        refused_write(&r, false, &out);
        eq_slice(buf_slice(&out), slice_from_str(want));
}

TEST(a_write_names_the_option_that_opens_its_directory)
{
        const struct refused r = { .plan = &read_only };
        tells(r, "touch: cannot touch '/tree/a': Read-only file system\n",
              "refused: write a (read-only; see --workspace-write)\n");
        tells(r, "touch: cannot touch '/var/t/a': Read-only file system\n",
              "refused: write /var/t/a (read-only; see --workspace-write)\n");
        tells(r, "touch: cannot touch '/srv/a': Read-only file system\n",
              "refused: write /srv/a (read-only; see --workspace-write DIR)\n");
        tells(r, "fatal: Unable to create '/tree/.git/index.lock': Read-only file system\n",
              "refused: write .git/index.lock (read-only; see --workspace-write and --git)\n");
}

TEST(under_a_profile_only_the_profile_is_named)
{
        tells((struct refused){ .plan = &read_only, .has_profile = true },
              "touch: cannot touch '/tree/a': Read-only file system\n",
              "refused: write a (read-only; see --profile)\n");
}

TEST(beside_a_writable_directory_the_rest_is_outside)
{
        struct plan_op op = {
                .kind = PLAN_WRITE, .is_directory = true, .path = S("/tree"), .why = "writable"
        };
        const struct plan plan = { .has_view = true, .root = PLAN_ROOT_READ, .ops = &op, .op_count = 1 };
        const struct refused r = { .plan = &plan, .is_workspace_write = true };
        tells(r, "touch: cannot touch '/srv/a': Read-only file system\n",
              "refused: write /srv/a (outside the writable directories; see --workspace-write DIR)\n");
        tells(r, "touch: cannot touch '/tree/a': Read-only file system\n", "");
}

TEST(what_the_plan_does_not_refuse_is_not_told)
{
        const struct refused r = { .plan = &read_only };
        tells(r, "", "");
        tells(r, "make: *** [all] Error 1\n", "");
}

TEST(control_characters_of_a_name_are_not_printed)
{
        const struct refused r = { .plan = &read_only };
        tells(r, "touch: cannot touch '/tree/\033[31mred': Read-only file system\n",
              "refused: write ?[31mred (read-only; see --workspace-write)\n");
}

TEST(a_death_by_the_filter_is_told_without_a_path)
{
        tells((struct refused){ .plan = &read_only, .is_by_filter = true }, "Bad system call\n",
              "refused: system call (not allowed in any sandbox)\n");
}

TEST(a_line_that_the_command_left_open_is_ended_first)
{
        const struct refused r = { .plan = &read_only,
                                   .place = &place,
                                   .err = S("touch: cannot touch '/tree/a': Read-only file system\n$ ") };
        _buf_ struct buf out = BUF_INIT(4096);
        refused_write(&r, true, &out);
        eq_slice(buf_slice(&out), S("\nrefused: write a (read-only; see --workspace-write)\n"));
        buf_truncate(&out, 0);
        refused_write(&(struct refused){ .plan = &read_only, .place = &place, .err = S("$ ") }, true, &out);
        eq_u64(out.n, 0);
}

TEST(only_a_few_refusals_are_listed)
{
        _buf_ struct buf err = BUF_INIT(4096), out = BUF_INIT(4096);
        for (int i = 0; i < LIMIT_REFUSED_LINES + 2; i++)
                ok(buf_printf(&err, "touch: cannot touch '/tree/%d': Read-only file system\n", i) == 0);
        const struct refused r = { .plan = &read_only, .place = &place, .err = buf_slice(&err) };
        refused_write(&r, false, &out);
        size_t lines = 0;
        for (size_t i = 0; i < out.n; i++)
                lines += out.p[i] == '\n';
        eq_u64(lines, LIMIT_REFUSED_LINES + 1);
        ok(strstr(out.p, "\nrefused: and 2 more\n") != NULL);
}
