/* cache_test: after every kind of change the answer is that of a fresh scan, and whole trees are not read again for it. */
#include "glob/cache.h"

#include "base/random.h"
#include "glob/rig_internal.h"
#include "glob/scan.h"
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

/* A query whose tree the cache keeps. */
struct kept {
        struct tree_rig *rig;
        struct glob_cache *cache;
        struct slice patterns[4];
        struct glob_query query;
};

static struct kept kept_new(struct tree_rig *rig, struct glob_cache *cache, const char *patterns)
{
        struct kept k = { .rig = rig, .cache = cache };
        struct slice rest = slice_from_str(patterns);

        while (rest.p) {
                struct slice one = slice_split(&rest, ' ');
                k.patterns[k.query.count++] =
                        slice_from_str(at(rig, arena_printf(&rig->arena, "%.*s", SLICE(one))));
        }
        return k;
}

/* Returns the answer of the cache and compares it with that of a fresh scan. */
static const char *ask(struct kept *k)
{
        _glob_matches_ struct glob_matches *cached = NULL, *fresh = NULL;
        struct err err = ERR_INIT;

        k->query.patterns = k->patterns;
        if (glob_cache_scan(k->cache, &k->query, &cached, &err) < 0)
                fail_msg("%s", err.text);
        if (glob_scan(&k->query, &fresh, &err) < 0)
                fail_msg("%s", err.text);
        const char *text = shown(k->rig, cached);
        eq_str(text, shown(k->rig, fresh));
        return text;
}

static void put_tree(struct tree_rig *rig)
{
        put_directory(rig, "w");
        put_directory(rig, "w/s");
        put_directory(rig, "w/s/t");
        put_directory(rig, "o");
        put_file(rig, "w/a.env");
        put_file(rig, "w/s/b.env");
        put_file(rig, "w/s/t/c.env");
        put_file(rig, "o/d.env");
}

#define SETUP(patterns)                                           \
        _tree_rig_ struct tree_rig rig = tree_rig_new();          \
        _glob_cache_ struct glob_cache *cache = glob_cache_new(); \
        put_tree(&rig);                                           \
        struct kept k = kept_new(&rig, cache, patterns)

TEST(glob_cache_reads_a_tree_once_while_nothing_changes)
{
        SETUP("w/**/*.env");
        for (size_t i = 0; i < 5; i++)
                eq_str(ask(&k), "w/a.env w/s/b.env w/s/t/c.env");
        eq_u64(glob_cache_full_scans(cache), 1);
}

TEST(glob_cache_sees_files_come_and_go)
{
        SETUP("w/**/*.env");
        eq_str(ask(&k), "w/a.env w/s/b.env w/s/t/c.env");
        put_file(&rig, "w/s/t/n.env");
        put_file(&rig, "w/s/t/n.txt");
        eq_str(ask(&k), "w/a.env w/s/b.env w/s/t/c.env w/s/t/n.env");
        ok(unlink(at(&rig, "w/a.env")) == 0);
        eq_str(ask(&k), "w/s/b.env w/s/t/c.env w/s/t/n.env");
        move_to(&rig, "w/s/b.env", "w/s/b.txt");
        eq_str(ask(&k), "w/s/t/c.env w/s/t/n.env");
        move_to(&rig, "w/s/t/n.txt", "w/x.env");
        eq_str(ask(&k), "w/s/t/c.env w/s/t/n.env w/x.env");
        /* Another file under the same name: `shown` compares the inode number. */
        put_file(&rig, "w/other");
        move_to(&rig, "w/other", "w/x.env");
        eq_str(ask(&k), "w/s/t/c.env w/s/t/n.env w/x.env");
        ok(unlink(at(&rig, "w/x.env")) == 0);
        put_link(&rig, "/", "w/x.env");
        eq_str(ask(&k), "w/s/t/c.env w/s/t/n.env w/x.env@");
        ok(unlink(at(&rig, "w/x.env")) == 0);
        put_directory(&rig, "w/x.env");
        put_file(&rig, "w/x.env/y.env");
        eq_str(ask(&k), "w/s/t/c.env w/s/t/n.env w/x.env/");
        ok(link(at(&rig, "o/d.env"), at(&rig, "w/s/hard.env")) == 0);
        eq_str(ask(&k), "w/s/hard.env w/s/t/c.env w/s/t/n.env w/x.env/");
        eq_u64(glob_cache_full_scans(cache), 1);
}

TEST(glob_cache_sees_what_is_in_a_new_directory)
{
        SETUP("w/**/*.env");
        (void)ask(&k);
        put_directory(&rig, "w/n");
        put_directory(&rig, "w/n/m");
        put_directory(&rig, "w/n/m/l");
        put_file(&rig, "w/n/m/x.env");
        put_file(&rig, "w/n/m/l/y.env");
        eq_str(ask(&k), "w/a.env w/n/m/l/y.env w/n/m/x.env w/s/b.env w/s/t/c.env");
        put_file(&rig, "w/n/m/l/z.env");
        eq_str(ask(&k), "w/a.env w/n/m/l/y.env w/n/m/l/z.env w/n/m/x.env w/s/b.env w/s/t/c.env");
        eq_u64(glob_cache_full_scans(cache), 1);
}

TEST(glob_cache_sees_directories_move_in_and_out)
{
        SETUP("w/**/*.env");
        (void)ask(&k);
        move_to(&rig, "o", "w/in");
        eq_str(ask(&k), "w/a.env w/in/d.env w/s/b.env w/s/t/c.env");
        move_to(&rig, "w/s", "o");
        eq_str(ask(&k), "w/a.env w/in/d.env");
        /* Changes outside of the tree do not matter until the directory is moved back. */
        put_file(&rig, "o/t/e.env");
        eq_str(ask(&k), "w/a.env w/in/d.env");
        move_to(&rig, "o", "w/back");
        eq_str(ask(&k), "w/a.env w/back/b.env w/back/t/c.env w/back/t/e.env w/in/d.env");
        /* The directory is moved inside of the tree while an event is still waiting. */
        put_file(&rig, "w/back/t/f.env");
        move_to(&rig, "w/back", "w/again");
        put_file(&rig, "w/again/g.env");
        eq_str(ask(&k), "w/a.env w/again/b.env w/again/g.env w/again/t/c.env w/again/t/e.env "
                        "w/again/t/f.env w/in/d.env");
        eq_u64(glob_cache_full_scans(cache), 1);
}

TEST(glob_cache_sees_a_directory_replaced_by_another)
{
        SETUP("w/**/*.env");
        (void)ask(&k);
        move_to(&rig, "w/s", "w/old");
        move_to(&rig, "o", "w/s");
        put_file(&rig, "w/s/new.env");
        eq_str(ask(&k), "w/a.env w/old/b.env w/old/t/c.env w/s/d.env w/s/new.env");
        ok(renameat2(AT_FDCWD, at(&rig, "w/s"), AT_FDCWD, at(&rig, "w/old"), RENAME_EXCHANGE) == 0);
        eq_str(ask(&k), "w/a.env w/old/d.env w/old/new.env w/s/b.env w/s/t/c.env");
        /* The directory is replaced by a link, which is not followed. */
        move_to(&rig, "w/s", "o");
        put_link(&rig, "../o", "w/s");
        eq_str(ask(&k), "w/a.env w/old/d.env w/old/new.env");
        eq_u64(glob_cache_full_scans(cache), 1);
}

TEST(glob_cache_sees_directories_removed_and_made_again)
{
        SETUP("w/**/*.env");
        (void)ask(&k);
        for (size_t i = 0; i < 5; i++) {
                ok(unlink(at(&rig, "w/s/t/c.env")) == 0 && rmdir(at(&rig, "w/s/t")) == 0);
                if (i % 2)
                        eq_str(ask(&k), "w/a.env w/s/b.env");
                put_directory(&rig, "w/s/t");
                put_file(&rig, "w/s/t/c.env");
                eq_str(ask(&k), "w/a.env w/s/b.env w/s/t/c.env");
        }
        eq_u64(glob_cache_full_scans(cache), 1);
}

TEST(glob_cache_sees_the_prefix_itself_come_go_and_change)
{
        SETUP("w/**/*.env later/*.env");
        eq_str(ask(&k), "w/a.env w/s/b.env w/s/t/c.env");
        put_directory(&rig, "later");
        put_file(&rig, "later/x.env");
        eq_str(ask(&k), "later/x.env w/a.env w/s/b.env w/s/t/c.env");
        move_to(&rig, "w", "v");
        eq_str(ask(&k), "later/x.env");
        move_to(&rig, "o", "w");
        eq_str(ask(&k), "later/x.env w/d.env");
        /* The same directory under another name: the paths of the answer change. */
        move_to(&rig, "w", "real");
        put_link(&rig, "real", "w");
        eq_str(ask(&k), "later/x.env real/d.env");
        put_file(&rig, "real/e.env");
        eq_str(ask(&k), "later/x.env real/d.env real/e.env");
}

TEST(glob_cache_sees_a_directory_above_the_prefix_replaced)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        _glob_cache_ struct glob_cache *cache = glob_cache_new();
        put_directory(&rig, "u");
        put_directory(&rig, "u/w");
        put_file(&rig, "u/w/a.env");
        put_directory(&rig, "v");
        put_directory(&rig, "v/w");
        put_file(&rig, "v/w/b.env");
        struct kept k = kept_new(&rig, cache, "u/w/*.env");
        eq_str(ask(&k), "u/w/a.env");
        ok(renameat2(AT_FDCWD, at(&rig, "u"), AT_FDCWD, at(&rig, "v"), RENAME_EXCHANGE) == 0);
        eq_str(ask(&k), "u/w/b.env");
}

TEST(glob_cache_keeps_to_the_depth_of_the_query)
{
        SETUP("w/**/*.env");
        k.query.depth = 2;
        eq_str(ask(&k), "w/a.env w/s/b.env");
        put_file(&rig, "w/s/t/n.env");
        put_directory(&rig, "w/d");
        put_directory(&rig, "w/d/e");
        put_file(&rig, "w/d/x.env");
        put_file(&rig, "w/d/e/y.env");
        eq_str(ask(&k), "w/a.env w/d/x.env w/s/b.env");
        eq_u64(glob_cache_full_scans(cache), 1);
        /* Another depth is another query. */
        k.query.depth = 3;
        eq_str(ask(&k), "w/a.env w/d/e/y.env w/d/x.env w/s/b.env w/s/t/c.env w/s/t/n.env");
        eq_u64(glob_cache_full_scans(cache), 2);
}

TEST(glob_cache_is_not_disturbed_by_what_is_not_a_name)
{
        SETUP("w/**/*.env");
        (void)ask(&k);
        ok(chmod(at(&rig, "w/a.env"), 0) == 0 && chmod(at(&rig, "w/s"), 0700) == 0);
        ok(truncate(at(&rig, "w/s/b.env"), 100) == 0);
        eq_str(ask(&k), "w/a.env w/s/b.env w/s/t/c.env");
        eq_u64(glob_cache_full_scans(cache), 1);
}

TEST(glob_cache_serves_queries_that_share_directories)
{
        SETUP("w/**/*.env");
        struct kept l = kept_new(&rig, cache, "w/s/**/*.txt w/s/t/*"), m = kept_new(&rig, cache, "w/**/t");
        for (size_t i = 0; i < 3; i++) {
                put_file(&rig, arena_printf(&rig.arena, "w/s/%zu.txt", i));
                put_file(&rig, arena_printf(&rig.arena, "w/s/t/%zu.env", i));
                (void)ask(&k);
                (void)ask(&l);
                (void)ask(&m);
        }
        eq_str(ask(&l), "w/s/0.txt w/s/1.txt w/s/2.txt w/s/t/0.env w/s/t/1.env w/s/t/2.env w/s/t/c.env");
        eq_str(ask(&m), "w/s/t/");
        move_to(&rig, "w/s/t", "w/s/u");
        eq_str(ask(&m), "");
        eq_str(ask(&k), "w/a.env w/s/b.env w/s/u/0.env w/s/u/1.env w/s/u/2.env w/s/u/c.env");
        eq_u64(glob_cache_full_scans(cache), 3);
}

TEST(glob_cache_forgets_the_query_that_was_not_asked_for_longest)
{
        SETUP("w/*.env");
        (void)ask(&k);
        for (size_t i = 1; i < GLOB_CACHE_QUERIES; i++) {
                struct kept l = kept_new(&rig, cache, arena_printf(&rig.arena, "w/%zu*.env", i));
                (void)ask(&l);
        }
        (void)ask(&k);
        eq_u64(glob_cache_full_scans(cache), GLOB_CACHE_QUERIES);
        struct kept l = kept_new(&rig, cache, "w/one-more*");
        (void)ask(&l);
        (void)ask(&k);
        eq_u64(glob_cache_full_scans(cache), GLOB_CACHE_QUERIES + 1);
        l = kept_new(&rig, cache, "w/1*.env");
        (void)ask(&l);
        eq_u64(glob_cache_full_scans(cache), GLOB_CACHE_QUERIES + 2);
}

TEST(glob_cache_passes_errors_on_and_recovers)
{
        SETUP("w/*.env");
        struct glob_query q = { .patterns = &S("/**/*.env"), .count = 1 };
        struct glob_matches *m;
        struct err err = ERR_INIT;
        eq_int(glob_cache_scan(cache, &q, &m, &err), -EINVAL);
        ok(strstr(err.text, "non-root directory prefix"));

        atomic_bool is_cancelled = true;
        k.query.patterns = k.patterns;
        k.query.is_cancelled = &is_cancelled;
        eq_int(glob_cache_scan(cache, &k.query, &m, &err), -ECANCELED);
        is_cancelled = false;
        eq_str(ask(&k), "w/a.env");
}

/* Causes more events than the kernel keeps: the cache notices that some are lost. */
TEST(glob_cache_scans_again_when_events_were_lost)
{
        SETUP("w/**/*.env");
        char text[32] = "";
        _close_ int fd = open("/proc/sys/fs/inotify/max_queued_events", O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
                skip();
        long most = strtol(text, NULL, 10);
        if (most > 65536)
                skip();
        (void)ask(&k);
        const char *a = at(&rig, "w/one"), *b = at(&rig, "w/two");
        put_file(&rig, "w/one");
        for (long i = 0; i < most / 4 + 1; i++)
                ok(rename(a, b) == 0 && rename(b, a) == 0);
        put_file(&rig, "w/s/lost.env");
        eq_str(ask(&k), "w/a.env w/s/b.env w/s/lost.env w/s/t/c.env");
        eq_u64(glob_cache_full_scans(cache), 2);
        put_file(&rig, "w/s/found.env");
        eq_str(ask(&k), "w/a.env w/s/b.env w/s/found.env w/s/lost.env w/s/t/c.env");
        eq_u64(glob_cache_full_scans(cache), 2);
}

static bool put_text(const char *path, const char *text)
{
        _close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
        return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* Makes a mount namespace, and for users other than root a user namespace. */
static bool enter_namespaces(struct arena *a)
{
        uid_t uid = getuid();
        gid_t gid = getgid();

        if (uid == 0)
                return unshare(CLONE_NEWNS) == 0;
        return unshare(CLONE_NEWNS | CLONE_NEWUSER) == 0 && put_text("/proc/self/setgroups", "deny") &&
               put_text("/proc/self/uid_map", arena_printf(a, "0 %u 1", uid)) &&
               put_text("/proc/self/gid_map", arena_printf(a, "0 %u 1", gid));
}

/* Runs in a child with namespaces of its own. Returns 0, the number of the check that failed, or 77 when it cannot mount here. */
static int mount_in_tree(struct kept *k)
{
        struct glob_matches *m = NULL;
        struct err err = ERR_INIT;
        k->query.patterns = k->patterns;

        if (mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0)
                return 77;
        if (glob_cache_scan(k->cache, &k->query, &m, &err) < 0 || m->count != 3)
                return 1;
        if (mount("tmpfs", at(k->rig, "w/s"), "tmpfs", 0, NULL) < 0)
                return 77;
        put_file(k->rig, "w/s/over.env");
        glob_matches_unref(m);
        if (glob_cache_scan(k->cache, &k->query, &m, &err) < 0 || m->count != 2)
                return 2;
        /* A mount outside of the tree does not cause another scan. */
        uint64_t before = glob_cache_full_scans(k->cache);
        glob_matches_unref(m);
        if (mount("tmpfs", at(k->rig, "o"), "tmpfs", 0, NULL) < 0)
                return 3;
        if (glob_cache_scan(k->cache, &k->query, &m, &err) < 0 || glob_cache_full_scans(k->cache) != before)
                return 4;
        if (umount2(at(k->rig, "w/s"), MNT_DETACH) < 0)
                return 5;
        glob_matches_unref(m);
        if (glob_cache_scan(k->cache, &k->query, &m, &err) < 0 || m->count != 3)
                return 6;
        glob_matches_unref(m);
        return 0;
}

TEST(glob_cache_sees_what_is_mounted_in_the_tree)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_tree(&rig);
        int status = 0;
        pid_t pid = fork();
        if (pid == 0) {
                if (!enter_namespaces(&rig.arena))
                        _exit(77);
                struct glob_cache *cache = glob_cache_new();
                struct kept k = kept_new(&rig, cache, "w/**/*.env");
                int r = mount_in_tree(&k);
                glob_cache_free(cache);
                _exit(r);
        }
        ok(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
                skip();
        eq_int(WEXITSTATUS(status), 0);
}

/* Makes many small changes and compares the answer with a fresh scan after every third. */
TEST(glob_cache_agrees_with_a_fresh_scan_after_any_change)
{
        SETUP("w/**/*.env w/**/x/*");
        static const char *const places[] = { "w",     "w/s",     "w/s/t", "w/x",   "w/x/x",
                                              "w/s/x", "w/e.env", "o",     "w/s/y", "w/s/y/x" };
        static const char *const names[] = { "a.env", "b", "x", "y", "c.env" };
        uint32_t random;
        random_bytes(&random, sizeof(random));
        print_message("seed %u\n", random);
        for (size_t i = 0; i < 3000; i++) {
                random = random * 1664525u + 1013904223u;
                uint32_t r = random >> 8;
                const char *here = at(&rig, places[r % ARRAY_LEN(places)]);
                const char *there = at(&rig, places[r / 16 % ARRAY_LEN(places)]);
                const char *name = names[r / 256 % ARRAY_LEN(names)];
                const char *file = arena_printf(&rig.arena, "%s/%s", here, name);
                /* Most of these fail, and that is fine. */
                switch (r / 4096 % 8) {
                case 0:
                case 1:
                        (void)mkdir(here, 0755);
                        break;
                case 2:
                        (void)rename(here, there);
                        break;
                case 3:
                        (void)renameat2(AT_FDCWD, here, AT_FDCWD, there, RENAME_EXCHANGE);
                        break;
                case 4:
                        (void)(unlink(file) < 0 && rmdir(here) < 0);
                        break;
                case 5:
                        (void)(symlink("../o", file) < 0);
                        break;
                default:
                        (void)mknod(file, S_IFREG | 0644, 0);
                        break;
                }
                if (i % 3 == 0)
                        (void)ask(&k);
        }
        /* Some full scans are needed: the loop also replaces the directory of the prefix itself. */
        ok(glob_cache_full_scans(cache) < 500);
}

static void *ask_many(void *arg)
{
        struct kept *k = arg;
        for (size_t i = 0; i < 300; i++) {
                _glob_matches_ struct glob_matches *m = NULL;
                struct err err = ERR_INIT;
                must(glob_cache_scan(k->cache, &k->query, &m, &err) == 0 && m->count >= 3);
        }
        return NULL;
}

TEST(glob_cache_is_for_many_threads)
{
        SETUP("w/**/*.env");
        pthread_t threads[4];
        k.query.patterns = k.patterns;
        for (size_t i = 0; i < ARRAY_LEN(threads); i++)
                eq_int(pthread_create(&threads[i], NULL, ask_many, &k), 0);
        for (size_t i = 0; i < 300; i++)
                put_file(&rig, arena_printf(&rig.arena, "w/s/%zu.env", i));
        for (size_t i = 0; i < ARRAY_LEN(threads); i++)
                eq_int(pthread_join(threads[i], NULL), 0);
        (void)ask(&k);
}
