/* scan_test: the answer to a query holds every match and nothing else, within the limits. */
#include "glob/scan.h"

#include "glob/cache.h"
#include "glob/rig_internal.h"
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

/* Returns the answer to patterns below the root (separated by blanks), or the error. */
static const char *scan_to(struct tree_rig *rig, const char *patterns, uint64_t depth)
{
        struct slice list[8], rest = slice_from_str(patterns);
        struct glob_query q = { .patterns = list, .depth = depth };
        _glob_matches_ struct glob_matches *m = NULL;
        struct err err = ERR_INIT;

        while (rest.p) {
                struct slice one = slice_split(&rest, ' ');
                list[q.count++] = slice_from_str(at(rig, arena_printf(&rig->arena, "%.*s", SLICE(one))));
        }
        int r = glob_scan(&q, &m, &err);
        if (r < 0) {
                eq_int(err.code, r);
                eq_str(err.step, "glob scan");
                return arena_printf(&rig->arena, "%s", err.text);
        }
        return shown(rig, m);
}

static void put_tree(struct tree_rig *rig)
{
        put_directory(rig, "s");
        put_directory(rig, "s/t");
        put_directory(rig, ".hid");
        put_file(rig, "a.env");
        put_file(rig, ".env");
        put_file(rig, "a.txt");
        put_file(rig, "s/b.env");
        put_file(rig, "s/t/c.env");
        put_file(rig, ".hid/d.env");
        put_file(rig, ".gitignore");
}

TEST(glob_scan_finds_hidden_and_ignored_names_at_every_depth)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_tree(&rig);
        eq_str(scan_to(&rig, "**/*.env", 0), ".env .hid/d.env a.env s/b.env s/t/c.env");
        eq_str(scan_to(&rig, "*.env", 0), ".env a.env");
        eq_str(scan_to(&rig, "s/**", 0), "s/b.env s/t/");
        eq_str(scan_to(&rig, "{s,.hid}/*.env", 0), ".hid/d.env s/b.env");
        eq_str(scan_to(&rig, "a.env", 0), "a.env");
        eq_str(scan_to(&rig, "none*", 0), "");
}

TEST(glob_scan_looks_as_deep_below_the_prefix_as_it_was_told)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_tree(&rig);
        eq_str(scan_to(&rig, "**/*.env", 1), ".env a.env");
        eq_str(scan_to(&rig, "**/*.env", 2), ".env .hid/d.env a.env s/b.env");
        eq_str(scan_to(&rig, "**/*.env", 3), ".env .hid/d.env a.env s/b.env s/t/c.env");
        eq_str(scan_to(&rig, "s/**/*.env", 1), "s/b.env");
}

TEST(glob_scan_takes_a_directory_that_matches_as_a_whole)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_tree(&rig);
        put_directory(&rig, "s/private");
        put_file(&rig, "s/private/x.env");
        eq_str(scan_to(&rig, "**/private **/*.env", 0), ".env .hid/d.env a.env s/b.env s/private/ s/t/c.env");
        /* Nothing below a match is listed, also when the prefix of another pattern is there. */
        eq_str(scan_to(&rig, "**/private s/private/*.env s/private/*", 0), "s/private/");
}

TEST(glob_scan_matches_links_by_name_and_never_follows_them)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_tree(&rig);
        put_link(&rig, "s", "linked");
        put_link(&rig, "s", "l.env");
        put_link(&rig, "nowhere", "d.env");
        put_link(&rig, "/", "s/up");
        eq_str(scan_to(&rig, "**/*.env", 0), ".env .hid/d.env a.env d.env@ l.env@ s/b.env s/t/c.env");
}

TEST(glob_scan_through_a_linked_prefix_gives_real_paths)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_tree(&rig);
        put_link(&rig, "s", "linked");
        eq_str(scan_to(&rig, "linked/**/*.env", 0), "s/b.env s/t/c.env");
        eq_str(scan_to(&rig, "linked/**/*.env s/*.env", 0), "s/b.env s/t/c.env");
}

TEST(glob_scan_of_a_prefix_that_is_not_there_finds_nothing)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_tree(&rig);
        eq_str(scan_to(&rig, "nope/**/*.env", 0), "");
        eq_str(scan_to(&rig, "a.txt/**/*.env", 0), "");
}

TEST(glob_scan_refuses_a_root_prefix_and_malformed_patterns)
{
        struct glob_query q = { .patterns = &S("/**/*.env"), .count = 1 };
        struct glob_matches *m;
        struct err err = ERR_INIT;

        eq_int(glob_scan(&q, &m, &err), -EINVAL);
        eq_str(err.text,
               "unreadable glob `/**/*.env` cannot be safely expanded; use a pattern with a non-root "
               "directory prefix");
        q.patterns = &S("/w/{a");
        eq_int(glob_scan(&q, &m, &err), -EINVAL);
        eq_str(err.text, "invalid deny-read glob pattern `/w/{a`: a `{` without its `}`");
}

TEST(glob_scan_without_patterns_finds_nothing)
{
        struct glob_query q = { 0 };
        _glob_matches_ struct glob_matches *m = NULL;
        struct err err = ERR_INIT;
        eq_int(glob_scan(&q, &m, &err), 0);
        eq_u64(m->count, 0);
}

TEST(glob_scan_tells_when_there_are_more_matches_than_can_be_masked)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        _close_ int root = open(rig.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (size_t i = 0; i < GLOB_MATCHES_MAX; i++) {
                char name[32];
                snprintf(name, sizeof(name), "%zu.env", i);
                _close_ int fd = openat(root, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
                ok(fd >= 0);
        }
        struct slice pattern = slice_from_str(at(&rig, "*.env"));
        struct glob_query q = { .patterns = &pattern, .count = 1 };
        _glob_matches_ struct glob_matches *m = NULL;
        struct err err = ERR_INIT;
        eq_int(glob_scan(&q, &m, &err), 0);
        eq_u64(m->count, GLOB_MATCHES_MAX);
        ok(!m->is_overfull);

        put_file(&rig, "x.env");
        put_link(&rig, "x.env", "link.env"); /* links have a limit of their own */
        m = glob_matches_unref(m);
        eq_int(glob_scan(&q, &m, &err), 0);
        ok(m->is_overfull);
        size_t links = 0;
        for (size_t i = 0; i < m->count; i++)
                links += m->list[i].is_symlink;
        eq_u64(links, 1);
}

TEST(a_cache_notices_when_there_are_not_too_many_matches_any_more)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        _glob_cache_ struct glob_cache *cache = glob_cache_new();
        char name[32];
        for (size_t i = 0; i <= GLOB_MATCHES_MAX; i++) {
                snprintf(name, sizeof(name), "%zu.env", i);
                put_file(&rig, name);
        }
        struct slice pattern = slice_from_str(at(&rig, "*.env"));
        struct glob_query q = { .patterns = &pattern, .count = 1 };
        _glob_matches_ struct glob_matches *m = NULL;
        struct err err = ERR_INIT;
        eq_int(glob_cache_scan(cache, &q, &m, &err), 0);
        ok(m->is_overfull);
        eq_int(unlink(at(&rig, name)), 0);
        m = glob_matches_unref(m);
        eq_int(glob_cache_scan(cache, &q, &m, &err), 0);
        ok(!m->is_overfull);
        eq_u64(m->count, GLOB_MATCHES_MAX);
}

TEST(glob_scan_that_is_cancelled_says_so)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct slice pattern = slice_from_str(at(&rig, "*.env"));
        atomic_bool is_cancelled = true;
        struct glob_query q = { .patterns = &pattern, .count = 1, .is_cancelled = &is_cancelled };
        struct glob_matches *m;
        struct err err = ERR_INIT;
        eq_int(glob_scan(&q, &m, &err), -ECANCELED);
}

/* Makes directories below directories until a path leaves no room for another name. */
TEST(glob_scan_masks_what_is_too_deep_for_a_path)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        char name[201];
        memset(name, 'd', 200);
        name[200] = '\0';
        int dir = open(rig.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (size_t i = 0; i < 30; i++) {
                ok(mkdirat(dir, name, 0755) == 0);
                int below = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                fd_close(dir);
                dir = below;
        }
        fd_close(dir);

        struct slice pattern = slice_from_str(at(&rig, "**/*.env"));
        struct glob_query q = { .patterns = &pattern, .count = 1 };
        _glob_matches_ struct glob_matches *m = NULL;
        struct err err = ERR_INIT;
        eq_int(glob_scan(&q, &m, &err), 0);
        eq_u64(m->count, 1);
        ok(m->list[0].is_unreadable && m->list[0].path.n < PATH_MAX);

        /* Shortens the paths for nftw, which could not remove such a deep tree: removes the top directory, again and again. */
        for (size_t i = 0; i < 30; i++) {
                ok(rename(at(&rig, name), at(&rig, "x")) == 0);
                char *below = arena_printf(&rig.arena, "x/%s", name);
                ok(rename(at(&rig, below), at(&rig, name)) == 0 || i == 29);
                ok(rmdir(at(&rig, "x")) == 0);
        }
}

/* Scans in a child process, as another user when the test runs as root: root may read everything. */
static const char *scan_unprivileged(struct tree_rig *rig, const char *patterns)
{
        int ends[2];
        char text[1024] = "";
        ok(pipe2(ends, O_CLOEXEC) == 0);
        pid_t pid = fork();
        if (pid == 0) {
                if (getuid() == 0 && setresuid(65534, 65534, 65534) < 0)
                        _exit(1);
                const char *answer =
                        access(rig->root, R_OK | X_OK) < 0 ? "unreachable" : scan_to(rig, patterns, 0);
                _exit(write(ends[1], answer, strlen(answer)) < 0);
        }
        fd_close(ends[1]);
        ok(pid > 0 && waitpid(pid, NULL, 0) == pid);
        ok(read(ends[0], text, sizeof(text) - 1) >= 0);
        fd_close(ends[0]);
        return arena_printf(&rig->arena, "%s", text);
}

TEST(glob_scan_masks_a_directory_that_cannot_be_read_as_a_whole)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_tree(&rig);
        ok(chmod(rig.root, 0755) == 0);
        ok(chmod(at(&rig, "s/t"), 0) == 0);     /* neither names nor files can be read */
        ok(chmod(at(&rig, ".hid"), 0444) == 0); /* only names can be read */
        const char *answer = scan_unprivileged(&rig, "**/*.env");
        if (strcmp(answer, "unreachable") == 0)
                skip(); /* only root can read TMPDIR */
        eq_str(answer, ".env .hid/! a.env s/b.env s/t/!");
        eq_str(scan_unprivileged(&rig, "s/t/*.env"), "s/t/!");
        /* A directory below which nothing can match is not read. */
        eq_str(scan_unprivileged(&rig, "*.env"), ".env a.env");
        ok(chmod(at(&rig, ".hid"), 0755) == 0 && chmod(at(&rig, "s/t"), 0755) == 0);
}

struct race {
        struct tree_rig *rig;
        atomic_bool is_over;
};

/* Exchanges a directory and a link to a place with matches, again and again, in a thread of its own. */
static void *swap_names(void *arg)
{
        struct race *race = arg;
        const char *a = at(race->rig, "w/a"), *b = at(race->rig, "w/b");
        while (!atomic_load(&race->is_over))
                must(renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0);
        return NULL;
}

TEST(glob_scan_is_not_led_out_by_a_directory_that_becomes_a_link)
{
        if (!has_openat2())
                skip(); /* valgrind runs one thread at a time, and the exchanging thread may keep the scan waiting */
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "w");
        put_directory(&rig, "w/a");
        put_directory(&rig, "w/a/in");
        put_directory(&rig, "out");
        put_directory(&rig, "out/in");
        put_file(&rig, "out/x.env");
        put_file(&rig, "out/in/y.env");
        put_link(&rig, "../out", "w/b");

        struct race race = { .rig = &rig };
        struct slice pattern = slice_from_str(at(&rig, "w/**/*.env"));
        pthread_t thread;
        eq_int(pthread_create(&thread, NULL, swap_names, &race), 0);
        for (size_t i = 0; i < 2000; i++) {
                struct glob_query q = { .patterns = &pattern, .count = 1 };
                _glob_matches_ struct glob_matches *m = NULL;
                struct err err = ERR_INIT;
                if (glob_scan(&q, &m, &err) < 0)
                        fail_msg("%s", err.text);
                eq_u64(m->count, 0);
        }
        atomic_store(&race.is_over, true);
        eq_int(pthread_join(thread, NULL), 0);
}
