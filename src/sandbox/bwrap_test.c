/* bwrap_test: compares the arguments for bwrap with those that a plan should give. Each option is a line with its values. */
#include "unit.h"

#include "base/buf.h"
#include "sandbox/bwrap.h"

#include <errno.h>

/* Writes the arguments into *ret, as one "--option a b" per line. */
static void show(const struct bwrap_arguments *a, struct buf *ret)
{
        struct slice rest = buf_slice(&a->text);
        while (rest.n > 0) {
                struct slice word = slice_split(&rest, 0);
                if (word.n == 0)
                        break;
                bool is_option = slice_starts(word, S("--"));
                eq_int(buf_printf(ret, "%s%.*s", ret->n == 0 ? "" : is_option ? "\n" : " ", SLICE(word)), 0);
        }
}

static struct slice arguments(const struct plan *p, bool has_landlock, struct bwrap_arguments *a,
                              struct buf *ret)
{
        struct err err = ERR_INIT;
        eq_int(bwrap_arguments_make(p, has_landlock, a, &err), 0);
        show(a, ret);
        return buf_slice(ret);
}

/* Returns the lines between two texts: the arguments that the operations gave. */
static struct slice between(struct slice all, const char *from, const char *to)
{
        const char *begin = memmem(all.p, all.n, from, strlen(from));
        ok(begin != NULL);
        begin += strlen(from);
        const char *end = to ? memmem(begin, (size_t)(all.p + all.n - begin), to, strlen(to)) : all.p + all.n;
        ok(end != NULL);
        return slice_from(begin, (size_t)(end - begin));
}

#define OP(k, d, path_)                                                                     \
        {                                                                                   \
                .kind = (k), .is_directory = (d), .path = S(path_), .ino = 7, .why = "test" \
        }
#define LAST_KNOB "--ro-bind-try /proc/timer_list /proc/timer_list"
#define PROC                                                                         \
        "--proc /proc\n"                                                             \
        "--ro-bind-try /proc/sys /proc/sys\n--ro-bind-try /proc/irq /proc/irq\n"     \
        "--ro-bind-try /proc/bus /proc/bus\n--ro-bind-try /proc/fs /proc/fs\n"       \
        "--ro-bind-try /proc/sysrq-trigger /proc/sysrq-trigger\n"                    \
        "--ro-bind-try /proc/acpi /proc/acpi\n--ro-bind-try /proc/scsi /proc/scsi\n" \
        "--ro-bind-try /proc/driver /proc/driver\n--ro-bind-try /proc/mtrr /proc/mtrr\n" LAST_KNOB

TEST(bwrap_begins_every_view_with_namespaces_root_dev_and_proc)
{
        const struct plan p = { .has_view = true, .root = PLAN_ROOT_READ };
        _bwrap_arguments_ struct bwrap_arguments a = BWRAP_ARGUMENTS_INIT;
        _buf_ struct buf text = BUF_INIT(65536);
        eq_slice(arguments(&p, true, &a, &text),
                 S("--unshare-user\n--die-with-parent\n--cap-drop ALL\n--chdir /\n--unshare-net\n"
                   "--unshare-pid\n--unshare-ipc\n--as-pid-1\n"
                   "--ro-bind / /\n"
                   "--dev /dev\n--perms 1777\n--size 67108864\n--tmpfs /dev/shm\n" PROC));
        eq_int(a.empties, 0);
}

TEST(bwrap_leaves_an_open_network_alone)
{
        const struct plan p = { .has_view = true, .has_network = true, .root = PLAN_ROOT_WRITE };
        _bwrap_arguments_ struct bwrap_arguments a = BWRAP_ARGUMENTS_INIT;
        _buf_ struct buf text = BUF_INIT(65536);
        struct slice all = arguments(&p, true, &a, &text);
        ok(!memmem(all.p, all.n, "--unshare-net", 13));
        ok(memmem(all.p, all.n, "\n--bind / /\n", 12));
}

TEST(bwrap_gives_a_command_that_loses_only_the_network_all_files_but_no_settings)
{
        const struct plan p = { .has_view = false };
        _bwrap_arguments_ struct bwrap_arguments a = BWRAP_ARGUMENTS_INIT;
        _buf_ struct buf text = BUF_INIT(65536);
        eq_slice(arguments(&p, true, &a, &text),
                 S("--unshare-user\n--die-with-parent\n--cap-drop ALL\n--chdir /\n--unshare-net\n"
                   "--unshare-pid\n--unshare-ipc\n--as-pid-1\n--dev-bind / /\n" PROC
                   "\n--ro-bind-try /sys /sys"));
}

TEST(bwrap_mounts_pins_and_covers_in_the_order_of_the_plan)
{
        struct plan_op ops[] = {
                OP(PLAN_WRITE, true, "/w"),
                OP(PLAN_PREVENT, true, "/w/.codex"),
                OP(PLAN_READ, true, "/w/.git"),
                OP(PLAN_PIN, true, "/w/a"),
                OP(PLAN_HIDE, true, "/w/a/private"),
                OP(PLAN_HIDE, false, "/w/a/secret"),
                OP(PLAN_PREVENT, false, "/w/missing"),
        };
        const struct plan p = {
                .has_view = true, .root = PLAN_ROOT_READ, .ops = ops, .op_count = ARRAY_LEN(ops)
        };
        _bwrap_arguments_ struct bwrap_arguments a = BWRAP_ARGUMENTS_INIT;
        _buf_ struct buf text = BUF_INIT(65536);
        eq_slice(between(arguments(&p, true, &a, &text), LAST_KNOB "\n", NULL),
                 S("--bind /w /w\n"
                   "--perms 0555\n--tmpfs /w/.codex\n--remount-ro /w/.codex\n"
                   "--ro-bind /w/.git /w/.git\n"
                   "--bind /w/a /w/a\n"
                   "--perms 0000\n--tmpfs /w/a/private\n--remount-ro /w/a/private\n"
                   "--perms 0000\n--ro-bind-data 6 /w/a/secret\n"
                   "--perms 0444\n--ro-bind-data 7 /w/missing"));
        eq_int(a.empties, 2);
}

/* A directory that is made inside of one that can be passed through but not listed has the same mode. The outer one is made
 * read-only at the end. */
TEST(bwrap_seals_an_empty_root_and_a_mask_with_openings_last)
{
        struct plan_op ops[] = {
                OP(PLAN_DIRECTORY, true, "/usr"),
                OP(PLAN_READ, true, "/usr"),
                OP(PLAN_OPEN, true, "/usr/local"),
                OP(PLAN_DIRECTORY, true, "/usr/local/x"),
                OP(PLAN_FILE, false, "/usr/local/x/y"),
                OP(PLAN_READ, false, "/usr/local/x/y"),
                { .kind = PLAN_LINK, .path = S("/bin"), .text = S("usr/bin"), .why = "test" },
                OP(PLAN_SEAL, false, "/usr/local"),
        };
        const struct plan p = {
                .has_view = true, .root = PLAN_ROOT_EMPTY, .ops = ops, .op_count = ARRAY_LEN(ops)
        };
        _bwrap_arguments_ struct bwrap_arguments a = BWRAP_ARGUMENTS_INIT;
        _buf_ struct buf text = BUF_INIT(65536);
        struct slice all = arguments(&p, true, &a, &text);
        ok(!memmem(all.p, all.n, "bind / /", 8));
        eq_slice(between(all, LAST_KNOB "\n", NULL), S("--perms 0755\n--dir /usr\n"
                                                       "--ro-bind /usr /usr\n"
                                                       "--perms 0111\n--tmpfs /usr/local\n"
                                                       "--perms 0111\n--dir /usr/local/x\n"
                                                       "--ro-bind /usr/local/x/y /usr/local/x/y\n"
                                                       "--symlink usr/bin /bin\n"
                                                       "--remount-ro /usr/local\n"
                                                       "--remount-ro /"));
}

/* A device can be written through a read-only mount; only Landlock prevents that. */
TEST(bwrap_opens_a_device_for_reading_only_with_landlock)
{
        struct plan_op ops[] = { OP(PLAN_READ, false, "/dev/fuse"), OP(PLAN_WRITE, false, "/dev/kvm") };
        const struct plan p = {
                .has_view = true, .root = PLAN_ROOT_READ, .ops = ops, .op_count = ARRAY_LEN(ops)
        };
        _bwrap_arguments_ struct bwrap_arguments a = BWRAP_ARGUMENTS_INIT;
        _buf_ struct buf with = BUF_INIT(65536), without = BUF_INIT(65536);
        eq_slice(between(arguments(&p, true, &a, &with), LAST_KNOB "\n", NULL),
                 S("--dev-bind /dev/fuse /dev/fuse\n--remount-ro /dev/fuse\n--dev-bind /dev/kvm /dev/kvm"));
        eq_slice(between(arguments(&p, false, &a, &without), LAST_KNOB "\n", NULL),
                 S("--ro-bind /dev/fuse /dev/fuse\n--dev-bind /dev/kvm /dev/kvm"));
        buf_release(&without);
}

/* bwrap would have to make a missing path before mounting on it, and cannot do so in /proc. /proc/1 exists: process 1 is in the
 * sandbox. */
TEST(bwrap_hides_no_process_of_the_machine_but_its_own_first)
{
        struct plan_op ops[] = { OP(PLAN_HIDE, true, "/proc/4242"), OP(PLAN_HIDE, true, "/proc/1"),
                                 OP(PLAN_HIDE, true, "/proc/12/fd") };
        for (size_t i = 0; i < ARRAY_LEN(ops); i++)
                ops[i].may_be_missing = true;
        const struct plan p = {
                .has_view = true, .root = PLAN_ROOT_READ, .ops = ops, .op_count = ARRAY_LEN(ops)
        };
        _bwrap_arguments_ struct bwrap_arguments a = BWRAP_ARGUMENTS_INIT;
        _buf_ struct buf text = BUF_INIT(65536);
        eq_slice(between(arguments(&p, true, &a, &text), LAST_KNOB "\n", NULL),
                 S("--perms 0000\n--tmpfs /proc/1\n--remount-ro /proc/1"));
}

TEST(bwrap_refuses_more_arguments_than_bwrap_takes)
{
        static struct plan_op ops[2000];
        for (size_t i = 0; i < ARRAY_LEN(ops); i++)
                ops[i] = (struct plan_op)OP(PLAN_HIDE, true, "/w/x");
        const struct plan p = {
                .has_view = true, .root = PLAN_ROOT_READ, .ops = ops, .op_count = ARRAY_LEN(ops)
        };
        _bwrap_arguments_ struct bwrap_arguments a = BWRAP_ARGUMENTS_INIT;
        struct err err = ERR_INIT;
        eq_int(bwrap_arguments_make(&p, true, &a, &err), -E2BIG);
        eq_str(err.step, "bubblewrap");
        eq_int(err.os_errno, E2BIG);
        ok(err.remedy != NULL);
        const struct plan fits = { .has_view = true, .root = PLAN_ROOT_READ, .ops = ops, .op_count = 1400 };
        eq_int(bwrap_arguments_make(&fits, true, &a, &err), 0);
        ok(a.count <= BWRAP_ARGUMENTS_MAX);
}

TEST(bwrap_is_not_taken_from_where_a_command_may_write)
{
        struct plan_op ops[] = { OP(PLAN_WRITE, true, "/home/u"), OP(PLAN_READ, true, "/home/u/tools") };
        const struct plan p = {
                .has_view = true, .root = PLAN_ROOT_READ, .ops = ops, .op_count = ARRAY_LEN(ops)
        };
        const struct plan whole = { .has_view = true, .root = PLAN_ROOT_WRITE };
        struct bwrap mine = { .program = "/home/u/bin/bwrap" }, tools = { .program = "/home/u/tools/bwrap" },
                     system = { .program = "/usr/bin/bwrap" };
        ok(bwrap_exposed(&mine, &p, S("/work")) == mine.program);
        ok(!bwrap_exposed(&tools, &p, S("/work")));
        ok(!bwrap_exposed(&system, &p, S("/work")));
        ok(bwrap_exposed(&system, &p, S("/usr/bin")) == system.program);
        ok(!bwrap_exposed(&system, &p, S("/")));
        ok(!bwrap_exposed(&system, &whole, S("/work")));
}

/* A command cannot change the copy in memory, whatever directory the file is in. */
TEST(farhand_init_is_not_taken_from_where_a_command_may_write_unless_it_is_a_copy)
{
        struct plan_op ops[] = { OP(PLAN_WRITE, true, "/home/u") };
        const struct plan p = { .has_view = true, .root = PLAN_ROOT_READ, .ops = ops, .op_count = 1 };
        struct bwrap b = { .program = "/usr/bin/bwrap",
                           .init = "/home/u/build/farhand-init",
                           .init_file = { .file = 1, .copy = -1 } };
        ok(bwrap_exposed(&b, &p, S("/home/u")) == b.init);
        b.init_file.copy = 2;
        ok(!bwrap_exposed(&b, &p, S("/home/u")));
}

/* Only the keeper learns whether a placeholder could be made, and whether it is a file or a directory. */
TEST(bwrap_lies_on_a_placeholder_of_either_kind)
{
        struct plan_op ops[] = { OP(PLAN_WRITE, true, "/w"), OP(PLAN_PREVENT, true, "/w/.git"),
                                 OP(PLAN_HIDE, false, "/w/no") };
        struct plan_placeholder placeholders[] = { { .path = S("/w/.git"), .is_directory = true, .op = 1 },
                                                   { .path = S("/w/no"), .op = 2 } };
        const struct plan p = { .has_view = true,
                                .root = PLAN_ROOT_READ,
                                .ops = ops,
                                .op_count = ARRAY_LEN(ops),
                                .placeholders = placeholders,
                                .placeholder_count = ARRAY_LEN(placeholders) };
        _bwrap_arguments_ struct bwrap_arguments a = BWRAP_ARGUMENTS_INIT;
        _buf_ struct buf text = BUF_INIT(65536);
        eq_slice(between(arguments(&p, true, &a, &text), LAST_KNOB "\n", NULL),
                 S("--bind /w /w\n"
                   "--perms 0555\n--tmpfs /w/.git\n--remount-ro /w/.git\n"
                   "--perms 0000\n--ro-bind-data 7 /w/no"));
        eq_slice(slice_from(a.text.p + a.placeholders[0].planned.at, a.placeholders[0].planned.bytes),
                 S("--perms\0000555\0--tmpfs\0/w/.git\0--remount-ro\0/w/.git\0"));
        eq_slice(slice_from(a.others.p + a.placeholders[0].other.at, a.placeholders[0].other.bytes),
                 S("--perms\0000444\0--ro-bind-data\0006\0/w/.git\0"));
        eq_slice(slice_from(a.others.p + a.placeholders[1].other.at, a.placeholders[1].other.bytes),
                 S("--perms\0000000\0--tmpfs\0/w/no\0--remount-ro\0/w/no\0"));
        eq_int(a.empties, 2);
}
