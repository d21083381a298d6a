/* write_test: replacing a file: content, attributes, links, conditions, full disks, and what a killed writer leaves. */
#include "fsop/write.h"

#include "fsop/journal.h"
#include "fsop/rig_mount_internal.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>

static struct err err;
static struct fs_meta made;

static const struct write_options plain = { .is_atomic = true, .follow = true };

static int put_with(const char *path, struct slice content, struct write_options o)
{
        struct writer *w;
        struct fs_meta meta;

        err = ERR_INIT;
        o.size = content.n;
        int r = fsop_write_begin(path, &o, &w, NULL, NULL, &err);
        if (r < 0)
                return r;
        r = fsop_write_data(w, content, &err);
        if (r < 0) {
                must(fsop_write_abort(w) == NULL);
                return r;
        }
        r = fsop_write_commit(w, &meta, NULL, NULL, &err);
        if (r == 0)
                made = meta;
        return r;
}

static int put(const struct rig *rig, const char *name, struct slice content)
{
        return put_with(rig_path(rig, name), content, plain);
}

static bool holds(const struct rig *rig, const char *name, struct slice content)
{
        _buf_ struct buf b = BUF_INIT(64 << 20);
        return fd_read_file(rig_path(rig, name), 64 << 20, &b) == 0 && slice_eq(buf_slice(&b), content);
}

static struct stat stat_of(const struct rig *rig, const char *name)
{
        struct stat st;
        must(lstat(rig_path(rig, name), &st) == 0);
        return st;
}

static size_t count_temps(const struct rig *rig, const char *name)
{
        DIR *dir = opendir(rig_path(rig, name));
        size_t n = 0;

        must(dir);
        for (const struct dirent *e; (e = readdir(dir));)
                n += strncmp(e->d_name, JOURNAL_TEMP_PREFIX, strlen(JOURNAL_TEMP_PREFIX)) == 0;
        closedir(dir);
        return n;
}

TEST(new_file_has_its_content_and_the_mode_of_the_umask)
{
        _rig_ struct rig rig = rig_new();
        mode_t mask = umask(027);

        eq_int(put(&rig, "f", S("hello\n")), 0);
        eq_int(put_with(rig_path(&rig, "g"), S(""), (struct write_options){ .is_atomic = false }), 0);
        (void)umask(mask);
        ok(holds(&rig, "f", S("hello\n")));
        eq_int(stat_of(&rig, "f").st_mode & 07777, 0640);
        eq_int(stat_of(&rig, "g").st_mode & 07777, 0640);
        eq_u64(made.size, 0);
        eq_int(count_temps(&rig, ""), 0);

        struct write_options o = plain;
        o.has_mode = true;
        o.mode = 0767;
        eq_int(put_with(rig_path(&rig, "h"), S("x"), o), 0);
        eq_int(stat_of(&rig, "h").st_mode & 07777, 0767);
        eq_int(made.mode, 0767);
        eq_int(put_with(rig_path(&rig, "f"), S("x"), o), 0); /* `mode` is only for a new file */
        eq_int(stat_of(&rig, "f").st_mode & 07777, 0640);
}

TEST(replaced_file_is_another_with_the_same_mode_owner_and_attributes)
{
        _rig_ struct rig rig = rig_new();
        char value[8];

        eq_int(put(&rig, "f", S("old content")), 0);
        eq_int(chmod(rig_path(&rig, "f"), 0751), 0);
        bool has_xattrs = setxattr(rig_path(&rig, "f"), "user.mark", "yes", 3, 0) == 0;
        bool is_root = chown(rig_path(&rig, "f"), 1234, 5678) == 0;
        ino_t before = stat_of(&rig, "f").st_ino;

        eq_int(put(&rig, "f", S("new")), 0);
        struct stat st = stat_of(&rig, "f");
        ok(holds(&rig, "f", S("new")));
        ok(st.st_ino != before);
        eq_int(st.st_mode & 07777, 0751);
        eq_u64(made.size, 3);
        eq_int(made.modified_ms, st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000);
        eq_int(made.mode, 0751);
        if (is_root) {
                eq_int(st.st_uid, 1234);
                eq_int(st.st_gid, 5678);
                eq_int(chmod(rig_path(&rig, "f"), 06755), 0);
                eq_int(put(&rig, "f", S("newer")), 0);
                eq_int(stat_of(&rig, "f").st_mode & 07777, 06755);
        }
        if (has_xattrs)
                eq_int(getxattr(rig_path(&rig, "f"), "user.mark", value, sizeof(value)), 3);
        eq_int(count_temps(&rig, ""), 0);
}

/* user::rw- user:4242:rw- group::r-- mask::rw- other::--- */
static const char acl[] = "\2\0\0\0"
                          "\1\0\6\0\377\377\377\377"
                          "\2\0\6\0\222\20\0\0"
                          "\4\0\4\0\377\377\377\377"
                          "\20\0\6\0\377\377\377\377"
                          "\40\0\0\0\377\377\377\377";

TEST(acl_of_a_replaced_file_is_kept_and_none_comes_from_the_directory)
{
        _rig_ struct rig rig = rig_new();
        char now[128];
        const char *access = "system.posix_acl_access", *inherited = "system.posix_acl_default";

        eq_int(put(&rig, "with", S("old")), 0);
        eq_int(put(&rig, "without", S("old")), 0);
        if (setxattr(rig_path(&rig, "with"), access, acl, sizeof(acl) - 1, 0) < 0)
                rig_skip(&rig); /* the file system has no ACLs */
        eq_int(setxattr(rig.root, inherited, acl, sizeof(acl) - 1, 0), 0);

        eq_int(put(&rig, "with", S("new")), 0);
        eq_int(put(&rig, "without", S("new")), 0);
        eq_int(put(&rig, "fresh", S("new")), 0);
        ok(holds(&rig, "with", S("new")) && holds(&rig, "without", S("new")));
        eq_int(getxattr(rig_path(&rig, "with"), access, now, sizeof(now)), sizeof(acl) - 1);
        ok(memcmp(now, acl, sizeof(acl) - 1) == 0);
        eq_int(getxattr(rig_path(&rig, "without"), access, now, sizeof(now)), -1);
        ok(getxattr(rig_path(&rig, "fresh"), access, now, sizeof(now)) > 0);
}

TEST(file_with_several_names_is_written_in_place)
{
        _rig_ struct rig rig = rig_new();

        rig_file(&rig, "f", S("old content"));
        eq_int(link(rig_path(&rig, "f"), rig_path(&rig, "g")), 0);
        eq_int(put(&rig, "f", S("new")), 0);
        ok(holds(&rig, "g", S("new")));
        eq_int(put(&rig, "g", S("much longer than before")), 0);
        ok(holds(&rig, "f", S("much longer than before")));
        eq_int(put(&rig, "g", S("")), 0);
        ok(holds(&rig, "f", S("")));
}

TEST(links_stay_links)
{
        _rig_ struct rig rig = rig_new();

        rig_directory(&rig, "d");
        rig_file(&rig, "f", S("old"));
        rig_link(&rig, "l", "f");
        ino_t before = stat_of(&rig, "f").st_ino;
        eq_int(put(&rig, "l", S("new")), 0);
        ok(S_ISLNK(stat_of(&rig, "l").st_mode));
        ok(holds(&rig, "f", S("new")));
        ok(stat_of(&rig, "f").st_ino == before);

        /* The first link leads to a second link, whose target does not exist yet. */
        rig_link(&rig, "m", "n");
        rig_link(&rig, "n", "d/../d/fresh");
        eq_int(put(&rig, "m", S("made")), 0);
        ok(holds(&rig, "d/fresh", S("made")));
        ok(S_ISLNK(stat_of(&rig, "m").st_mode) && S_ISLNK(stat_of(&rig, "n").st_mode));

        rig_link(&rig, "loop", "loop");
        eq_int(put(&rig, "loop", S("x")), -ELOOP);
        rig_link(&rig, "lost", "none/below");
        eq_int(put(&rig, "lost", S("x")), -ENOENT);
}

TEST(without_following_links_are_refused)
{
        _rig_ struct rig rig = rig_new();
        const struct write_options o = { .is_atomic = true };

        rig_directory(&rig, "d");
        rig_link(&rig, "ld", "d");
        rig_link(&rig, "broken", "nowhere");
        eq_int(put_with(rig_path(&rig, "broken"), S("x"), o), -ELOOP);
        eq_int(put_with(rig_path(&rig, "ld/f"), S("x"), o), -ENOTDIR);
        eq_int(put_with(rig_path(&rig, "d"), S("x"), o), -EISDIR);
        eq_int(put_with("/dev/null", S("x"), o), -EINVAL);
        eq_str(err.text, "path is not a regular file");
        eq_int(put_with("/", S("x"), o), -EINVAL);
        eq_str(err.text, "path must name an entry");
        eq_int(put_with(rig_path(&rig, "d/f"), S("x"), o), 0);
        ok(holds(&rig, "d/f", S("x")));
}

TEST(refusal_to_open_is_the_answer)
{
        _rig_ struct rig rig = rig_new();

        rig_directory(&rig, "d");
        rig_file(&rig, "f", S("x"));
        eq_int(put(&rig, "d", S("x")), -EISDIR);
        eq_str(err.text, "Is a directory (os error 21)");
        eq_int(put(&rig, "f/below", S("x")), -ENOTDIR);
        eq_int(put(&rig, "none/f", S("x")), -ENOENT);
        eq_int(put_with("/", S("x"), plain), -EISDIR);

        char name[300];
        memset(name, 'n', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        eq_int(put(&rig, name, S("x")), -ENAMETOOLONG);

        /* A program that is running cannot be written. */
        _buf_ struct buf self = BUF_INIT(64 << 20);
        eq_int(fd_read_file("/bin/sleep", 64 << 20, &self), 0);
        rig_file(&rig, "sleep", buf_slice(&self));
        eq_int(chmod(rig_path(&rig, "sleep"), 0755), 0);
        int gate[2];
        eq_int(pipe2(gate, O_CLOEXEC), 0);
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                execl(rig_path(&rig, "sleep"), "sleep", "60", (char *)NULL);
                _exit(1);
        }
        fd_close(gate[1]);
        char byte;
        eq_int(read(gate[0], &byte, 1), 0); /* the end of the file says that the child has called exec */
        fd_close(gate[0]);
        eq_int(put(&rig, "sleep", S("x")), -ETXTBSY);
        eq_int(kill(pid, SIGKILL), 0);
        eq_int(waitpid(pid, NULL, 0), pid);
}

TEST(fifos_sockets_and_devices_never_make_it_wait)
{
        _rig_ struct rig rig = rig_new();
        static char much[1 << 20];

        signal(SIGPIPE, SIG_IGN);
        rig_fifo(&rig, "fifo");
        eq_int(put(&rig, "fifo", S("x")), -ENXIO);
        {
                char got[4];
                _close_ int reader = open(rig_path(&rig, "fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
                eq_int(put(&rig, "fifo", S("abc")), 0);
                eq_int(read(reader, got, sizeof(got)), 3);
                eq_int(put(&rig, "fifo", slice_from(much, sizeof(much))), -EAGAIN);
        }
        ok(S_ISFIFO(stat_of(&rig, "fifo").st_mode));

        eq_int(put_with("/dev/null", S("x"), plain), 0);
        eq_int(put_with("/dev/full", S("x"), plain), -ENOSPC);
        eq_int(put_with("/dev/full", S(""), plain), 0);

        struct sockaddr_un address = { .sun_family = AF_UNIX };
        snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", rig_path(&rig, "sock"));
        _close_ int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        eq_int(bind(sock, (struct sockaddr *)&address, sizeof(address)), 0);
        eq_int(put(&rig, "sock", S("x")), -ENXIO);
}

TEST(parents_are_made_when_asked)
{
        _rig_ struct rig rig = rig_new();
        struct write_options o = plain;

        o.create_parents = true;
        eq_int(put_with(rig_path(&rig, "a/b/c"), S("x"), o), 0);
        ok(holds(&rig, "a/b/c", S("x")));
        eq_int(put_with(rig_path(&rig, "a/b/c/d"), S("x"), o), -ENOTDIR);
}

/* ---- Conditional writes */

/* What put_if has found in place of the expected file. */
static struct fs_meta current;
static bool exists;

static int put_if(const struct rig *rig, const char *name, struct write_options o)
{
        struct writer *w;

        err = ERR_INIT;
        o.is_atomic = true;
        o.follow = true;
        o.size = 3;
        int r = fsop_write_begin(rig_path(rig, name), &o, &w, &current, &exists, &err);
        if (r < 0)
                return r;
        eq_int(fsop_write_data(w, S("new"), &err), 0);
        return fsop_write_commit(w, NULL, &current, &exists, &err);
}

static struct write_options matching(const struct rig *rig, const char *name)
{
        struct write_options o = { .match = MATCH_DIGEST };
        _close_ int fd = open(rig_path(rig, name), O_RDONLY | O_CLOEXEC);
        must(fsop_digest_fd(fd, o.digest) == 0);
        return o;
}

TEST(mismatch_is_told_and_writes_nothing)
{
        _rig_ struct rig rig = rig_new();

        rig_file(&rig, "f", S("old"));
        rig_file(&rig, "other", S("else"));
        eq_int(put_if(&rig, "f", (struct write_options){ .match = MATCH_ABSENT }), -ESTALE);
        eq_int(err.os_errno, 0);
        ok(strncmp(err.text, "conflict: ", 10) == 0);
        ok(exists);
        eq_u64(current.size, 3);
        eq_int(put_if(&rig, "f", matching(&rig, "other")), -ESTALE);
        ok(exists);
        eq_int(put_if(&rig, "none", matching(&rig, "other")), -ESTALE);
        ok(!exists);
        eq_int(put_if(&rig, "no/parent", matching(&rig, "other")), -ESTALE);
        ok(!exists);
        eq_int(put_if(&rig, "f", (struct write_options){ .match = MATCH_STAT, .match_size = 3 }), -ESTALE);
        ok(holds(&rig, "f", S("old")));
        eq_int(count_temps(&rig, ""), 0);

        rig_directory(&rig, "d");
        eq_int(put_if(&rig, "d", (struct write_options){ .match = MATCH_ABSENT }), -ESTALE);
        ok(exists && current.is_directory);
}

TEST(match_writes)
{
        _rig_ struct rig rig = rig_new();

        eq_int(put_if(&rig, "f", (struct write_options){ .match = MATCH_ABSENT }), 0);
        rig_file(&rig, "f", S("old"));
        eq_int(put_if(&rig, "f", matching(&rig, "f")), 0);
        ok(holds(&rig, "f", S("new")));

        struct stat st = stat_of(&rig, "f");
        struct write_options o = { .match = MATCH_STAT, .match_size = 3 };
        o.match_modified_ms = st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
        eq_int(put_if(&rig, "f", o), 0);

        /* A file with two names is written in place, under the same condition. */
        eq_int(link(rig_path(&rig, "f"), rig_path(&rig, "g")), 0);
        rig_file(&rig, "other", S("else"));
        eq_int(put_if(&rig, "g", matching(&rig, "other")), -ESTALE);
        eq_int(put_if(&rig, "g", matching(&rig, "f")), 0);
}

TEST(change_between_begin_and_commit_is_a_mismatch)
{
        _rig_ struct rig rig = rig_new();
        struct write_options o;
        struct writer *w;

        err = ERR_INIT;
        rig_file(&rig, "f", S("old"));
        o = matching(&rig, "f");
        o.is_atomic = o.follow = true;
        eq_int(fsop_write_begin(rig_path(&rig, "f"), &o, &w, NULL, NULL, &err), 0);
        eq_int(fsop_write_data(w, S("mine"), &err), 0);
        rig_file(&rig, "f", S("theirs"));
        eq_int(fsop_write_commit(w, NULL, &current, &exists, &err), -ESTALE);
        ok(exists);
        eq_u64(current.size, 6);
        ok(holds(&rig, "f", S("theirs")));

        o = (struct write_options){ .match = MATCH_ABSENT, .is_atomic = true, .follow = true };
        eq_int(fsop_write_begin(rig_path(&rig, "g"), &o, &w, NULL, NULL, &err), 0);
        eq_int(fsop_write_data(w, S("mine"), &err), 0);
        rig_file(&rig, "g", S("theirs"));
        eq_int(fsop_write_commit(w, NULL, &current, &exists, &err), -ESTALE);
        ok(exists);
        ok(holds(&rig, "g", S("theirs")));

        /* The content is the same, but the name has become a link meanwhile. */
        o = matching(&rig, "f");
        o.is_atomic = o.follow = true;
        eq_int(fsop_write_begin(rig_path(&rig, "f"), &o, &w, NULL, NULL, &err), 0);
        eq_int(fsop_write_data(w, S("mine"), &err), 0);
        eq_int(rename(rig_path(&rig, "f"), rig_path(&rig, "moved")), 0);
        rig_link(&rig, "f", "moved");
        eq_int(fsop_write_commit(w, NULL, &current, &exists, &err), -ESTALE);
        ok(exists && current.is_symlink);
        ok(holds(&rig, "moved", S("theirs")));
        eq_int(count_temps(&rig, ""), 0);
}

struct contest {
        const char *path;
        atomic_uint wins, conflicts;
};

static void *contend(void *arg)
{
        struct contest *c = arg;
        struct write_options o = { .match = MATCH_ABSENT, .is_atomic = true, .follow = true, .size = 1 };
        struct writer *w;
        struct err e = ERR_INIT;

        int r = fsop_write_begin(c->path, &o, &w, NULL, NULL, &e);
        if (r == 0) {
                must(fsop_write_data(w, S("x"), &e) == 0);
                r = fsop_write_commit(w, NULL, NULL, NULL, &e);
        }
        must(r == 0 || r == -ESTALE);
        atomic_fetch_add(r == 0 ? &c->wins : &c->conflicts, 1);
        return NULL;
}

TEST(of_many_that_want_an_absent_file_one_wins)
{
        _rig_ struct rig rig = rig_new();

        for (int round = 0; round < 20; round++) {
                char name[16];
                pthread_t threads[8];
                snprintf(name, sizeof(name), "f%d", round);
                struct contest c = { .path = rig_path(&rig, name) };

                for (size_t i = 0; i < ARRAY_LEN(threads); i++)
                        eq_int(pthread_create(&threads[i], NULL, contend, &c), 0);
                for (size_t i = 0; i < ARRAY_LEN(threads); i++)
                        eq_int(pthread_join(threads[i], NULL), 0);
                eq_int(atomic_load(&c.wins), 1);
                eq_int(atomic_load(&c.conflicts), 7);
        }
        eq_int(count_temps(&rig, ""), 0);
}

/* ---- Failed and aborted writes */

TEST(aborted_write_leaves_the_old_file_and_nothing_else)
{
        _rig_ struct rig rig = rig_new();
        struct writer *w;

        err = ERR_INIT;
        rig_file(&rig, "f", S("old"));
        rig_file(&rig, "g", S("old"));
        eq_int(link(rig_path(&rig, "g"), rig_path(&rig, "h")), 0);
        struct stat before = stat_of(&rig, "g");
        struct write_options o = plain;
        o.size = 1 << 20;

        eq_int(fsop_write_begin(rig_path(&rig, "f"), &o, &w, NULL, NULL, &err), 0);
        eq_int(fsop_write_data(w, S("half"), &err), 0);
        ok(!fsop_write_abort(w));
        ok(holds(&rig, "f", S("old")));

        eq_int(fsop_write_begin(rig_path(&rig, "g"), &o, &w, NULL, NULL, &err), 0); /* writes in place */
        ok(holds(&rig, "g", S("old")));
        fsop_write_abort(w);
        struct stat after = stat_of(&rig, "g");
        ok(holds(&rig, "g", S("old")));
        eq_int(after.st_blocks, before.st_blocks);
        eq_int(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);

        o.is_atomic = false;
        eq_int(fsop_write_begin(rig_path(&rig, "new"), &o, &w, NULL, NULL, &err), 0);
        eq_int(fsop_write_data(w, S("half"), &err), 0);
        fsop_write_abort(w);
        eq_int(access(rig_path(&rig, "new"), F_OK), -1);
        eq_int(count_temps(&rig, ""), 0);
        ok(!fsop_write_abort(NULL));
}

static void full_disk(const struct rig *rig)
{
        static char large[2 << 20], third[300 << 10];

        memset(large, 'L', sizeof(large));
        memset(third, 'T', sizeof(third));
        rig_tmpfs(rig, "m", "size=1m");
        must(put(rig, "m/f", S("old")) == 0);
        must(put(rig, "m/a", S("old")) == 0);
        must(link(rig_path(rig, "m/a"), rig_path(rig, "m/b")) == 0);

        must(put(rig, "m/f", slice_from(large, sizeof(large))) == -ENOSPC);
        must(holds(rig, "m/f", S("old")));
        must(put(rig, "m/new", slice_from(large, sizeof(large))) == -ENOSPC);
        must(access(rig_path(rig, "m/new"), F_OK) < 0);
        must(put(rig, "m/b", slice_from(large, sizeof(large))) == -ENOSPC); /* two names: writes in place */
        must(holds(rig, "m/a", S("old")));
        struct write_options o = plain;
        o.is_atomic = false;
        must(put_with(rig_path(rig, "m/f"), slice_from(large, sizeof(large)), o) == -ENOSPC);
        must(holds(rig, "m/f", S("old")));
        must(count_temps(rig, "m") == 0);

        /* Failed writes have left nothing: three thirds fit, and on the full disk a file of the same size replaces another. */
        must(put(rig, "m/1", slice_from(third, sizeof(third))) == 0);
        must(put(rig, "m/2", slice_from(third, sizeof(third))) == 0);
        must(put(rig, "m/3", slice_from(third, sizeof(third))) == 0);
        memset(third, 'U', sizeof(third));
        must(put(rig, "m/2", slice_from(third, sizeof(third))) == 0);
        must(holds(rig, "m/2", slice_from(third, sizeof(third))));
        must(count_temps(rig, "m") == 0);
}

TEST(full_disk_leaves_the_old_file_and_no_temporary_one)
{
        _rig_ struct rig rig = rig_new();
        rig_in_namespace(&rig, full_disk);
}

static void mounted_file(const struct rig *rig)
{
        rig_file(rig, "f", S("f"));
        rig_file(rig, "g", S("g"));
        must(mount(rig_path(rig, "g"), rig_path(rig, "f"), "", MS_BIND, NULL) == 0);
        must(put(rig, "f", S("written")) == 0);
        must(holds(rig, "g", S("written")));
        must(umount(rig_path(rig, "f")) == 0);
        must(holds(rig, "f", S("f")));

        /* Nothing can be made beside a file that is mounted in a read-only directory. */
        rig_tmpfs(rig, "ro", "size=1m");
        rig_file(rig, "ro/f", S("x"));
        must(mount(rig_path(rig, "g"), rig_path(rig, "ro/f"), "", MS_BIND, NULL) == 0);
        must(mount("none", rig_path(rig, "ro"), "", MS_REMOUNT | MS_RDONLY, NULL) == 0);
        must(put(rig, "ro/f", S("again")) == 0);
        must(holds(rig, "g", S("again")));
        must(put(rig, "ro/new", S("x")) == -EROFS);
        must(count_temps(rig, "") == 0);
}

TEST(file_that_is_a_mount_point_is_written_in_place)
{
        _rig_ struct rig rig = rig_new();
        rig_in_namespace(&rig, mounted_file);
}

/* ---- Writes without privileges */

static void as_nobody(const struct rig *rig, void (*fn)(const struct rig *rig))
{
        if (geteuid() != 0)
                rig_skip(rig);
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                must(setgroups(0, NULL) == 0 && setresgid(65534, 65534, 65534) == 0);
                must(setresuid(65534, 65534, 65534) == 0);
                fn(rig);
                _exit(0);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(status, 0);
}

static void write_foreign(const struct rig *rig)
{
        must(put(rig, "open/foreign", S("new")) == 0);
        must(put(rig, "closed/f", S("new")) == 0);
        must(put(rig, "closed/new", S("new")) == -EACCES);
        must(put(rig, "open/secret", S("new")) == -EACCES);
        must(put(rig, "open/mine", S("new")) == 0);
        must(put(rig, "open/set", S("new")) == 0);
        must(put(rig, "open/shared/new", S("new")) == 0);
}

TEST(unprivileged_server_keeps_what_it_could_not_give_back)
{
        _rig_ struct rig rig = rig_new();
        static const struct {
                const char *name;
                mode_t mode;
                uid_t owner;
        } files[] = {
                { "open/foreign", 0666, 0 },  { "open/secret", 0600, 0 },  { "open/mine", 0640, 65534 },
                { "open/set", 04755, 65534 }, { "closed/f", 0666, 65534 },
        };
        ino_t inodes[ARRAY_LEN(files)];

        if (geteuid() != 0)
                rig_skip(&rig);
        eq_int(chmod(rig.root, 0755), 0);
        rig_directory(&rig, "open");
        rig_directory(&rig, "closed");
        rig_directory(&rig, "open/shared");
        eq_int(chmod(rig_path(&rig, "open"), 0777), 0);
        eq_int(chown(rig_path(&rig, "open/shared"), 0, 1234), 0);
        eq_int(chmod(rig_path(&rig, "open/shared"), 02777), 0);
        for (size_t i = 0; i < ARRAY_LEN(files); i++) {
                rig_file(&rig, files[i].name, S("old content"));
                eq_int(chown(rig_path(&rig, files[i].name), files[i].owner, files[i].owner), 0);
                eq_int(chmod(rig_path(&rig, files[i].name), files[i].mode), 0);
                inodes[i] = stat_of(&rig, files[i].name).st_ino;
        }

        as_nobody(&rig, write_foreign);
        ok(holds(&rig, "open/foreign", S("new")) && holds(&rig, "closed/f", S("new")));
        ok(holds(&rig, "open/secret", S("old content")));
        ok(holds(&rig, "open/mine", S("new")) && holds(&rig, "open/set", S("new")));
        ok(stat_of(&rig, "open/foreign").st_ino == inodes[0]);
        eq_int(stat_of(&rig, "open/foreign").st_uid, 0);
        ok(stat_of(&rig, "open/mine").st_ino != inodes[2]);
        eq_int(stat_of(&rig, "open/mine").st_mode & 07777, 0640);
        eq_int(stat_of(&rig, "open/set").st_mode & 07777, 0755); /* every write removes the set-id bits */
        eq_int(stat_of(&rig, "open/shared/new").st_gid, 1234);
        eq_int(count_temps(&rig, "open") + count_temps(&rig, "closed"), 0);
}

/* ---- Readers during a write, and killed writers */

struct poll {
        const char *path;
        atomic_bool stop;
        atomic_uint looks, broken;
};

static void *poll_file(void *arg)
{
        struct poll *p = arg;
        char content[4096 + 1];

        while (!atomic_load(&p->stop)) {
                _close_ int fd = open(p->path, O_RDONLY | O_CLOEXEC);
                ssize_t n = fd >= 0 ? read(fd, content, sizeof(content)) : -1;
                bool is_whole = n == 4096 || n == 1000;
                for (ssize_t i = 1; i < n; i++)
                        is_whole = is_whole && content[i] == content[0];
                if (!is_whole)
                        atomic_fetch_add(&p->broken, 1);
                atomic_fetch_add(&p->looks, 1);
        }
        return NULL;
}

TEST(reader_sees_whole_versions_only)
{
        _rig_ struct rig rig = rig_new();
        struct poll p = { .path = rig_path(&rig, "f") };
        char content[4096];
        pthread_t thread;

        memset(content, 'a', sizeof(content));
        eq_int(put(&rig, "f", slice_from(content, sizeof(content))), 0);
        eq_int(pthread_create(&thread, NULL, poll_file, &p), 0);
        for (int i = 0; i < 1000 || atomic_load(&p.looks) < 100; i++) {
                memset(content, 'a' + i % 26, sizeof(content));
                eq_int(put_with(p.path, slice_from(content, i % 2 ? 4096 : 1000), plain), 0);
        }
        atomic_store(&p.stop, true);
        eq_int(pthread_join(thread, NULL), 0);
        eq_int(atomic_load(&p.broken), 0);
        eq_int(count_temps(&rig, ""), 0);
}

TEST(temporary_file_of_a_killed_writer_goes_with_the_next_start)
{
        _rig_ struct rig rig = rig_new();
        struct write_options o = plain;

        err = ERR_INIT;
        rig_directory(&rig, "d");
        rig_link(&rig, "ld", "d");
        rig_file(&rig, "d/f", S("old"));
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                struct writer *w;
                must(journal_open(rig_path(&rig, "state"), &o.journal, &err) == 0);
                must(fsop_write_begin(rig_path(&rig, "ld/f"), &o, &w, NULL, NULL, &err) == 0);
                must(fsop_write_data(w, S("half"), &err) == 0);
                raise(SIGKILL);
        }
        eq_int(waitpid(pid, NULL, 0), pid);
        eq_int(count_temps(&rig, "d"), 1);
        ok(holds(&rig, "d/f", S("old")));

        eq_int(journal_open(rig_path(&rig, "state"), &o.journal, &err), 0);
        journal_sweep(o.journal, NULL, NULL);
        eq_int(count_temps(&rig, "d"), 0);
        eq_int(put_with(rig_path(&rig, "d/f"), S("new"), o), 0);
        journal_close(o.journal);
        ok(holds(&rig, "d/f", S("new")));
        eq_int(rmdir(rig_path(&rig, "state")), 0); /* nothing was pending */
}

TEST(parent_that_is_swapped_does_not_lead_the_write_astray)
{
        _rig_ struct rig rig = rig_new();
        struct writer *w;

        err = ERR_INIT;
        rig_directory(&rig, "d");
        rig_directory(&rig, "other");
        rig_file(&rig, "other/f", S("kept"));
        eq_int(fsop_write_begin(rig_path(&rig, "d/f"), &plain, &w, NULL, NULL, &err), 0);
        eq_int(fsop_write_data(w, S("new"), &err), 0);
        eq_int(rename(rig_path(&rig, "d"), rig_path(&rig, "moved")), 0);
        rig_link(&rig, "d", "other");
        eq_int(fsop_write_commit(w, NULL, NULL, NULL, &err), 0);
        ok(holds(&rig, "other/f", S("kept")));
        ok(holds(&rig, "moved/f", S("new")));
}
