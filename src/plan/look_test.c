/* look_test: looking at paths through links, missing names and placeholders; reading the small files that name repositories. */
#include "unit.h"

#include "base/errno_text.h"
#include "base/tree_rig.h"
#include "plan/look.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

static int look(struct tree_rig *rig, const char *name, struct seen *ret)
{
        return look_at(&rig->arena, slice_from_str(at(rig, name)), ret);
}

/* Looks at a path and compares the identity with that of the file at the path that was found. */
static struct seen seen(struct tree_rig *rig, const char *name)
{
        struct seen s;
        struct stat st;
        eq_int(look(rig, name, &s), 0);
        eq_int(lstat(arena_dup(&rig->arena, s.base), &st), 0);
        eq_u64(s.dev, st.st_dev);
        eq_u64(s.ino, st.st_ino);
        ok(!S_ISLNK(st.st_mode));
        eq_int(s.is_directory, S_ISDIR(st.st_mode));
        return s;
}

static void eq_path(struct tree_rig *rig, struct slice path, const char *name)
{
        eq_str(arena_dup(&rig->arena, path), *name ? at(rig, name) : rig->root);
}

static void check_exists(struct tree_rig *rig, const char *name, const char *real)
{
        struct seen s = seen(rig, name);
        ok(s.exists);
        eq_path(rig, s.path, real);
        eq_slice(s.base, s.path);
}

static void check_missing(struct tree_rig *rig, const char *name, const char *path, const char *base,
                          const char *first)
{
        struct seen s = seen(rig, name);
        ok(!s.exists);
        eq_path(rig, s.path, path);
        eq_path(rig, s.base, base);
        eq_path(rig, seen_first_missing(&s), first);
}

/* ---- paths ---- */

TEST(what_exists_is_found_with_its_identity)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "a");
        put_directory(&rig, "a/b");
        put_file(&rig, "a/b/f");
        check_exists(&rig, "a", "a");
        check_exists(&rig, "a/b/f", "a/b/f");
        ok(seen(&rig, "a/b").is_directory);
        ok(!seen(&rig, "a/b/f").is_directory);
        eq_u64(seen(&rig, "a/b/f").link_count, 0);
}

TEST(the_root_is_seen)
{
        _arena_ struct arena a = ARENA_INIT;
        struct seen s;
        struct stat st;
        eq_int(look_at(&a, S("/"), &s), 0);
        eq_int(stat("/", &st), 0);
        ok(s.exists && s.is_directory);
        eq_slice(s.path, S("/"));
        eq_u64(s.ino, st.st_ino);
}

TEST(what_is_missing_is_told_from_what_holds_it)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "a");
        put_file(&rig, "f");
        check_missing(&rig, "x", "x", "", "x");
        check_missing(&rig, "a/x/y/z", "a/x/y/z", "a", "a/x");
        check_missing(&rig, "f/below", "f/below", "f", "f/below");
}

TEST(the_first_missing_name_at_the_root_is_right)
{
        _arena_ struct arena a = ARENA_INIT;
        struct seen s;
        eq_int(look_at(&a, S("/farhand-is-not-here/x"), &s), 0);
        ok(!s.exists);
        eq_slice(s.base, S("/"));
        eq_slice(seen_first_missing(&s), S("/farhand-is-not-here"));
}

TEST(links_are_followed_and_remembered_where_they_really_are)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "real");
        put_directory(&rig, "real/deep");
        put_file(&rig, "real/deep/f");
        put_link(&rig, "real", "one");
        put_link(&rig, "deep/f", "real/two");
        put_link(&rig, at(&rig, "one/two"), "three");
        check_exists(&rig, "one/deep/f", "real/deep/f");
        struct seen s = seen(&rig, "three");
        eq_path(&rig, s.path, "real/deep/f");
        eq_u64(s.link_count, 3);
        eq_path(&rig, s.links[0].at, "three");
        eq_slice(s.links[0].text, slice_from_str(at(&rig, "one/two")));
        eq_path(&rig, s.links[1].at, "one");
        eq_slice(s.links[1].text, S("real"));
        eq_path(&rig, s.links[2].at, "real/two"); /* not one/two, which does not exist */
        eq_slice(s.links[2].text, S("deep/f"));
}

TEST(dots_behind_a_link_count_from_where_it_leads)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "x");
        put_directory(&rig, "x/y");
        put_file(&rig, "x/sibling");
        put_file(&rig, "sibling");
        put_link(&rig, "x/y", "link");
        put_link(&rig, "link/../sibling", "to");
        put_link(&rig, "./x/./y/", "dots");
        put_link(&rig, "../../../../../../../../../../../../../../../../../..", "up");
        check_exists(&rig, "to", "x/sibling");
        check_exists(&rig, "dots", "x/y");
        struct seen s = seen(&rig, "up");
        eq_slice(s.path, S("/"));
}

TEST(a_dangling_link_leads_to_what_is_missing_there)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "real");
        put_link(&rig, "real/none", "link");
        put_link(&rig, "real/none/../f", "back");
        check_missing(&rig, "link", "real/none", "real", "real/none");
        check_missing(&rig, "link/more", "real/none/more", "real", "real/none");
        struct seen s;
        eq_int(look(&rig, "back", &s), -ENOENT); /* a `..` after a missing directory, which leads nowhere */
}

TEST(links_in_a_circle_are_an_error)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct seen s;
        put_link(&rig, "b", "a");
        put_link(&rig, "a", "b");
        put_link(&rig, "self/x", "self");
        eq_int(look(&rig, "a", &s), -ELOOP);
        eq_int(look(&rig, "self", &s), -ELOOP);
}

TEST(as_many_links_as_the_kernel_follows_are_followed)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct stat st;
        struct seen s;
        put_file(&rig, "0");
        for (int i = 1; i <= LOOK_LINKS_MAX + 1; i++)
                put_link(&rig, arena_printf(&rig.arena, "%d", i - 1), arena_printf(&rig.arena, "%d", i));
        const char *last = arena_printf(&rig.arena, "%d", LOOK_LINKS_MAX);
        /* stat(last) is not compared here: when a rename elsewhere makes the kernel start again, it counts the links twice. */
        eq_u64(seen(&rig, last).link_count, LOOK_LINKS_MAX);
        last = arena_printf(&rig.arena, "%d", LOOK_LINKS_MAX + 1);
        eq_int(stat(at(&rig, last), &st), -1);
        eq_int(look(&rig, last, &s), -ELOOP);
}

TEST(names_and_paths_that_are_too_long_are_errors)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct seen s;
        char name[NAME_MAX + 2];
        memset(name, 'n', sizeof(name) - 1);
        name[sizeof(name) - 1] = 0;
        eq_int(look(&rig, name, &s), -ENAMETOOLONG);
        name[NAME_MAX] = 0;
        check_missing(&rig, name, name, "", name);

        /* The texts of these links together are longer than a path may be. */
        char text[PATH_MAX - 1] = { 0 };
        for (size_t i = 0; i < sizeof(text) - 1; i++)
                text[i] = i % 100 == 99 ? '/' : 'p';
        put_link(&rig, text, "long");
        eq_int(look(&rig, "long/end", &s), -ENAMETOOLONG);
}

TEST(a_placeholder_of_another_command_is_nothing)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "stub");
        put_file(&rig, "empty");
        put_directory(&rig, "sticky");
        eq_int(chmod(at(&rig, "stub"), S_ISVTX | 0555), 0);
        eq_int(chmod(at(&rig, "empty"), S_ISVTX | 0444), 0);
        eq_int(chmod(at(&rig, "sticky"), S_ISVTX | 0755), 0);
        check_missing(&rig, "stub", "stub", "", "stub");
        check_missing(&rig, "stub/x", "stub/x", "", "stub");
        check_missing(&rig, "empty", "empty", "", "empty");
        check_exists(&rig, "sticky", "sticky");
        put_link(&rig, "stub", "link");
        check_missing(&rig, "link", "stub", "", "stub");
}

static int status_of_child(void (*fn)(struct tree_rig *), struct tree_rig *rig)
{
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
                        _exit(99);
                fn(rig);
                _exit(98);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        ok(WIFEXITED(status));
        return WEXITSTATUS(status);
}

static void look_into_closed(struct tree_rig *rig)
{
        struct seen s;
        _exit(-look(rig, "closed/f", &s));
}

TEST(what_we_may_not_look_at_is_an_error_and_not_missing)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "closed");
        put_file(&rig, "closed/f");
        eq_int(chmod(rig.root, 0755), 0);
        eq_int(chmod(at(&rig, "closed"), 0), 0);
        int status = status_of_child(look_into_closed, &rig);
        eq_int(chmod(at(&rig, "closed"), 0755), 0);
        eq_int(status, EACCES);
}

/* Two directories that a thread exchanges all the time. */
struct exchange {
        const char *a, *b;
        atomic_bool is_over;
};

static void *exchange_run(void *arg)
{
        struct exchange *x = arg;
        while (!atomic_load(&x->is_over))
                (void)renameat2(AT_FDCWD, x->a, AT_FDCWD, x->b, RENAME_EXCHANGE);
        return NULL;
}

TEST(while_directories_change_places_one_of_them_is_seen)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "a");
        put_directory(&rig, "b");
        put_file(&rig, "a/f");
        put_file(&rig, "b/f");
        struct stat one, two;
        eq_int(stat(at(&rig, "a/f"), &one), 0);
        eq_int(stat(at(&rig, "b/f"), &two), 0);
        struct exchange x = { .a = at(&rig, "a"), .b = at(&rig, "b") };
        pthread_t thread;
        eq_int(pthread_create(&thread, NULL, exchange_run, &x), 0);
        bool is_good = true;
        for (int i = 0; is_good && i < 2000; i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct seen s;
                is_good = look_at(&a, slice_from_str(at(&rig, "a/f")), &s) == 0 && s.exists &&
                          (s.ino == one.st_ino || s.ino == two.st_ino);
        }
        atomic_store(&x.is_over, true);
        eq_int(pthread_join(thread, NULL), 0);
        ok(is_good);
}

TEST(looking_leaves_nothing_open)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "a");
        put_link(&rig, "a/../a/none", "link");
        put_link(&rig, "circle", "circle");
        int before = dup(0);
        close(before);
        struct seen s;
        for (int i = 0; i < 10; i++) {
                eq_int(look(&rig, "link/x", &s), 0);
                eq_int(look(&rig, "circle", &s), -ELOOP);
                eq_int(look(&rig, "a", &s), 0);
        }
        int after = dup(0);
        close(after);
        eq_int(after, before);
}

/* ---- pointers ---- */

static void write_bytes(struct tree_rig *rig, const char *name, const char *text, size_t n)
{
        _close_ int fd = open(at(rig, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        ok(fd >= 0);
        eq_int(fd_write_all(fd, slice_from(text, n)), 0);
}

static const char *pointer(struct tree_rig *rig, const char *text, size_t n, const char *prefix)
{
        struct slice found;
        write_bytes(rig, "f", text, n);
        int r = look_pointer(&rig->arena, slice_from_str(at(rig, "f")), slice_from_str(prefix), &found);
        if (r <= 0)
                return r == 0 ? "(none)" : errno_name(-r);
        return arena_dup(&rig->arena, found);
}

TEST(the_first_line_of_a_pointer_is_what_it_says)
{
        static const struct {
                const char *text, *prefix, *wanted;
        } rows[] = {
                { "gitdir: ../x/.git\n", "gitdir:", "../x/.git" },
                { "gitdir:/a b/c", "gitdir:", "/a b/c" },
                { "gitdir: /x\r\n\n", "gitdir:", "/x" },
                { "../..\n", "", "../.." },
                { "gitdir: \n", "gitdir:", "(none)" },
                /* git reads a longer name from each of these than other programs do */
                { "gitdir: /x \n", "gitdir:", "EBADMSG" },
                { "gitdir:  /x\n", "gitdir:", "EBADMSG" },
                { "gitdir:\t/x\n", "gitdir:", "EBADMSG" },
                { "gitdir: /x\nmore\n", "gitdir:", "EBADMSG" },
                { "gitdir: \n/x\n", "gitdir:", "\n/x" },
                { "gitdir:   ", "gitdir:", "  " },
                { " ../..\n", "", "EBADMSG" },
                { "..\n..\n", "", "EBADMSG" },
                { "\ngitdir: /x\n", "gitdir:", "(none)" },
                { "Gitdir: /x\n", "gitdir:", "(none)" },
                { "gitdir", "gitdir:", "(none)" },
                { "", "gitdir:", "(none)" },
                { "", "", "(none)" },
        };
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                eq_str(pointer(&rig, rows[i].text, strlen(rows[i].text), rows[i].prefix), rows[i].wanted);
        eq_str(pointer(&rig, "gitdir: /a\0b\n", 13, "gitdir:"), "EBADMSG");
}

TEST(a_pointer_that_is_too_long_cannot_be_told)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        char text[4096];
        memset(text, 'x', sizeof(text));
        memcpy(text, "gitdir:", 7);
        eq_str(pointer(&rig, text, sizeof(text), "gitdir:"), "EFBIG");
        text[sizeof(text) - 1] = 0;
        eq_str(pointer(&rig, text, sizeof(text) - 1, "gitdir:"), text + 7);
}

TEST(only_a_regular_file_is_a_pointer)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct slice found;
        write_bytes(&rig, "f", "gitdir: /x\n", 11);
        put_link(&rig, "f", "link");
        put_directory(&rig, "directory");
        eq_int(mkfifo(at(&rig, "fifo"), 0644), 0); /* opening it must not wait */
        static const char *const names[] = { "link", "directory", "fifo", "none" };
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                eq_int(look_pointer(&rig.arena, slice_from_str(at(&rig, names[i])), S(""), &found), 0);
}
