/* walk_test: the order of a walk, its limits, and its errors. */
#include "fsop/walk.h"

#include "base/mem.h"
#include "fsop/rig.h"
#include "unit.h"

#include <errno.h>
#include <sys/wait.h>

#define PLENTY ((struct walk_options){ .max_depth = 10, .max_directories = 100, .max_entries = 1000 })

/* Writes a result as text: paths below the rig, "/" behind directories; then "!path" for errors, and "..." when truncated. */
static const char *show(const struct rig *rig, const struct walk_result *r)
{
        static char text[8192];
        size_t n = 0, skipped = strlen(rig->root) + 1;

        text[0] = '\0';
        for (size_t i = 0; i < r->count; i++)
                n += (size_t)snprintf(text + n, sizeof(text) - n, " %s%s", r->items[i].path.p + skipped,
                                      r->items[i].is_directory ? "/" : "");
        for (size_t i = 0; i < r->error_count; i++)
                n += (size_t)snprintf(text + n, sizeof(text) - n, " !%s", r->errors[i].path.p + skipped);
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", r->is_truncated ? " ..." : "");
        must(n < sizeof(text));
        return *text ? text + 1 : text;
}

static const char *walk_of(const struct rig *rig, const char *path, struct walk_options o)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct walk_result result;

        eq_int(fsop_walk(&a, rig_path(rig, path), &o, &result, &err), 0);
        return show(rig, &result);
}

static int walk_error(const struct rig *rig, const char *path, struct walk_options o, struct err *err)
{
        _arena_ struct arena a = ARENA_INIT;
        struct walk_result result;

        *err = ERR_INIT;
        int r = fsop_walk(&a, rig_path(rig, path), &o, &result, err);
        ok(r < 0);
        return r;
}

static struct rig tree(void)
{
        struct rig rig = rig_new();

        rig_directory(&rig, "a");
        rig_directory(&rig, "a/b");
        rig_directory(&rig, "a/b/c");
        rig_directory(&rig, ".git");
        rig_file(&rig, "B", S(""));
        rig_file(&rig, "sp ace", S(""));
        rig_file(&rig, "a/1", S(""));
        rig_file(&rig, ".git/HEAD", S(""));
        rig_link(&rig, "ln", "a");
        rig_link(&rig, "a/up", "..");
        rig_link(&rig, "to-file", "B");
        rig_link(&rig, "to-nothing", "nothing");
        rig_link(&rig, "loop", "loop");
        rig_fifo(&rig, "fifo");
        return rig;
}

TEST(walk_is_breadth_first_and_sorted)
{
        _rig_ struct rig rig = tree();

        eq_str(walk_of(&rig, "", PLENTY), ".git/ B a/ sp ace .git/HEAD a/1 a/b/ a/b/c/");
        eq_str(walk_of(&rig, "a/", PLENTY), "a/1 a/b/ a/b/c/");
        eq_str(walk_of(&rig, "a/b/c", PLENTY), "");
}

TEST(walk_goes_as_deep_as_it_may)
{
        _rig_ struct rig rig = tree();
        struct walk_options o = PLENTY;

        o.max_depth = 0;
        eq_str(walk_of(&rig, "", o), ".git/ B a/ sp ace");
        o.max_directories = 1;
        eq_str(walk_of(&rig, "", o), ".git/ B a/ sp ace");
        o.max_depth = 1;
        o.max_directories = 100;
        eq_str(walk_of(&rig, "", o), ".git/ B a/ sp ace .git/HEAD a/1 a/b/");
}

TEST(walk_follows_directory_links_and_enters_each_directory_once)
{
        _rig_ struct rig rig = tree();
        struct walk_options o = PLENTY;

        o.follows_directory_links = true;
        eq_str(walk_of(&rig, "", o), ".git/ B a/ ln/ sp ace .git/HEAD a/1 a/b/ a/up/ a/b/c/");
        eq_str(walk_of(&rig, "ln", o), "ln/1 ln/b/ ln/up/ ln/b/c/ ln/up/.git/ ln/up/B ln/up/a/ ln/up/ln/ "
                                       "ln/up/sp ace ln/up/.git/HEAD");
        o.max_directories = 3;
        eq_str(walk_of(&rig, "", o), ".git/ B a/ ln/ sp ace .git/HEAD a/1 a/b/ a/up/ ...");
        o.max_directories = 4;
        eq_str(walk_of(&rig, "", o), ".git/ B a/ ln/ sp ace .git/HEAD a/1 a/b/ a/up/ a/b/c/ ...");
        o.max_directories = 5;
        eq_str(walk_of(&rig, "", o), ".git/ B a/ ln/ sp ace .git/HEAD a/1 a/b/ a/up/ a/b/c/");
}

TEST(hidden_directories_are_listed_but_not_entered_when_pruned)
{
        _rig_ struct rig rig = tree();
        struct walk_options o = PLENTY;

        o.prunes_hidden = true;
        eq_str(walk_of(&rig, "", o), ".git/ B a/ sp ace a/1 a/b/ a/b/c/");
        eq_str(walk_of(&rig, ".git", o), ".git/HEAD");

        /* A hidden link, which is not entered, does not mark its target as seen. */
        rig_link(&rig, ".la", "a");
        o.follows_directory_links = true;
        eq_str(walk_of(&rig, "", o), ".git/ .la/ B a/ ln/ sp ace a/1 a/b/ a/up/ a/b/c/");
}

TEST(every_name_but_a_broken_link_counts)
{
        _rig_ struct rig rig = rig_new();
        struct walk_options o = PLENTY;

        rig_file(&rig, "a", S(""));
        rig_fifo(&rig, "b");
        rig_link(&rig, "c", "nothing");
        rig_link(&rig, "d", "a");
        rig_file(&rig, "e", S(""));

        o.max_entries = 4;
        eq_str(walk_of(&rig, "", o), "a e");
        o.max_entries = 3;
        eq_str(walk_of(&rig, "", o), "a ...");
        o.max_entries = 1;
        eq_str(walk_of(&rig, "", o), "a ...");
}

TEST(limit_of_directories_only_stops_descending)
{
        _rig_ struct rig rig = tree();
        struct walk_options o = PLENTY;

        o.max_directories = 2;
        eq_str(walk_of(&rig, "", o), ".git/ B a/ sp ace .git/HEAD ...");
        o.max_directories = 1;
        eq_str(walk_of(&rig, "", o), ".git/ B a/ sp ace ...");
}

TEST(root_that_is_no_directory_has_nothing_below)
{
        _rig_ struct rig rig = tree();
        struct walk_options follow = PLENTY;
        struct err err;

        follow.follows_directory_links = true;
        eq_str(walk_of(&rig, "B", PLENTY), "");
        eq_str(walk_of(&rig, "fifo", follow), "");
        eq_str(walk_of(&rig, "ln", PLENTY), "");
        eq_str(walk_of(&rig, "ln/", PLENTY), "");
        eq_str(walk_of(&rig, "to-file", follow), "");
        eq_int(walk_error(&rig, "none", PLENTY, &err), -ENOENT);
        eq_str(err.text, "No such file or directory (os error 2)");
        eq_int(walk_error(&rig, "to-nothing", PLENTY, &err), -ENOENT);
        eq_int(walk_error(&rig, "to-nothing", follow, &err), -ENOENT);
        eq_int(walk_error(&rig, "loop", PLENTY, &err), -ELOOP);
        eq_int(walk_error(&rig, "B/x", follow, &err), -ENOTDIR);
}

TEST(limits_are_checked)
{
        _rig_ struct rig rig = rig_new();
        struct walk_options o[] = { PLENTY, PLENTY, PLENTY, PLENTY, PLENTY };
        struct err err;

        o[0].max_directories = 0;
        o[1].max_entries = 0;
        o[2].max_depth = WALK_DEPTH_MAX + 1;
        o[3].max_directories = WALK_DIRECTORIES_MAX + 1;
        o[4].max_entries = WALK_ENTRIES_MAX + 1;
        for (size_t i = 0; i < ARRAY_LEN(o); i++) {
                eq_int(walk_error(&rig, "", o[i], &err), -EINVAL);
                eq_int(err.os_errno, 0);
                eq_str(err.text,
                       i < 2 ? "filesystem walk limits must be greater than zero"
                             : "filesystem walk limits exceed maximums: depth=64, directories=10000, "
                               "entries=50000");
        }
}

TEST(names_are_bytes)
{
        _rig_ struct rig rig = rig_new();

        rig_directory(&rig, "d\xff");
        rig_file(&rig, "d\xff/f\xfe\n", S(""));
        eq_str(walk_of(&rig, "", PLENTY), "d\xff/ d\xff/f\xfe\n");
}

/* Each item takes 64 bytes and its URI in the answer; a URI has 7 bytes for the scheme, and 3 for each blank of the path. */
TEST(answer_that_grows_too_large_is_truncated)
{
        _rig_ struct rig rig = rig_new();
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct walk_options o = { .max_directories = 1, .max_entries = WALK_ENTRIES_MAX };
        struct walk_result result;
        char name[300];

        for (int i = 0; i < 6000; i++) {
                snprintf(name, sizeof(name), "%05d%250s", i, "");
                must(mknod(rig_path(&rig, name), S_IFREG | 0600, 0) == 0);
        }
        eq_int(fsop_walk(&a, rig.root, &o, &result, &err), 0);
        ok(result.is_truncated);
        eq_u64(result.count, WALK_ANSWER_BYTES / (WALK_ITEM_BYTES + 7 + strlen(rig.root) + 1 + 5 + 3 * 250));
}

TEST(deep_tree_ends_in_an_error_and_not_in_a_hang)
{
        _rig_ struct rig rig = rig_new();
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct walk_options o = { .max_depth = WALK_DEPTH_MAX, .max_directories = 1000, .max_entries = 1000 };
        struct walk_result result;
        char name[251];

        memset(name, 'n', 250);
        name[250] = '\0';
        _close_ int fd = open(rig.root, O_PATH | O_CLOEXEC);
        for (int i = 0; i < 40; i++) {
                must(mkdirat(fd, name, 0700) == 0);
                int next = openat(fd, name, O_PATH | O_CLOEXEC);
                must(next >= 0);
                fd_close(fd);
                fd = next;
        }

        eq_int(fsop_walk(&a, rig.root, &o, &result, &err), 0);
        eq_u64(result.error_count, 1);
        eq_str(result.errors[0].message, "Filename too long (os error 36)");
        ok(result.count >= 15 && result.count < 40);
        ok(!result.is_truncated);
}

/* Runs `look` in a child that is not root, and returns its result. */
static int as_nobody(int (*look)(const struct rig *rig), const struct rig *rig)
{
        pid_t pid = fork();

        ok(pid >= 0);
        if (pid == 0) {
                if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
                        _exit(77);
                if (access(rig->root, R_OK | X_OK) < 0)
                        _exit(77);
                _exit(look(rig));
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        ok(WIFEXITED(status));
        return WEXITSTATUS(status);
}

static bool walk_says(const struct rig *rig, const char *path, const char *wanted)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct walk_options o = PLENTY;
        struct walk_result result;

        if (fsop_walk(&a, rig_path(rig, path), &o, &result, &err) < 0)
                return false;
        for (size_t i = 0; i < result.error_count; i++)
                if (strcmp(result.errors[i].message, "Permission denied (os error 13)") != 0)
                        return false;
        if (strcmp(show(rig, &result), wanted) == 0)
                return true;
        fprintf(stderr, "%s: %s, not %s\n", path, show(rig, &result), wanted);
        return false;
}

static int look_around(const struct rig *rig)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct walk_options o = PLENTY;
        struct walk_result result;

        return !(walk_says(rig, "up", "up/no/ up/nosearch/ up/z/ !up/no !up/nosearch/d !up/nosearch/x") &&
                 walk_says(rig, "up/no", "!up/no") &&
                 walk_says(rig, "up/nosearch", "!up/nosearch/d !up/nosearch/x") &&
                 fsop_walk(&a, rig_path(rig, "up/no/x"), &o, &result, &err) == -EACCES);
}

TEST(what_may_not_be_read_or_searched_becomes_errors)
{
        _rig_ struct rig rig = rig_new();

        rig_directory(&rig, "up");
        rig_directory(&rig, "up/no");
        rig_directory(&rig, "up/no/x");
        rig_directory(&rig, "up/nosearch");
        rig_directory(&rig, "up/nosearch/d");
        rig_file(&rig, "up/nosearch/x", S(""));
        rig_link(&rig, "up/nosearch/l", "x");
        rig_directory(&rig, "up/z");
        eq_int(chmod(rig.root, 0755), 0);
        eq_int(chmod(rig_path(&rig, "up/no"), 0), 0);
        eq_int(chmod(rig_path(&rig, "up/nosearch"), 0444), 0);

        int r = as_nobody(look_around, &rig);
        eq_int(chmod(rig_path(&rig, "up/no"), 0700), 0);
        eq_int(chmod(rig_path(&rig, "up/nosearch"), 0700), 0);
        if (r == 77)
                rig_skip(&rig);
        eq_int(r, 0);
}
