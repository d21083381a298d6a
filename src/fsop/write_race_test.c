/* write_race_test: writes that run beside other changes: names that move, links and second names of one file, and failures. */
#include "fsop/edit.h"
#include "fsop/rig_mount_internal.h"
#include "fsop/write.h"

#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

static struct err err;

static const struct write_options plain = { .is_atomic = true, .follow = true };

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

static struct writer *begin(const struct rig *rig, const char *name, struct write_options o)
{
        struct writer *w;

        err = ERR_INIT;
        eq_int(fsop_write_begin(rig_path(rig, name), &o, &w, NULL, NULL, &err), 0);
        return w;
}

TEST(a_file_that_moved_away_is_not_written_under_its_new_name)
{
        _rig_ struct rig rig = rig_new();

        rig_file(&rig, "f", S("old"));
        struct writer *w = begin(&rig, "f", plain);
        eq_int(fsop_write_data(w, S("new content"), &err), 0);
        eq_int(rename(rig_path(&rig, "f"), rig_path(&rig, "moved")), 0);
        rig_directory(&rig, "f"); /* so that the rename fails */
        eq_int(fsop_write_commit(w, NULL, NULL, NULL, &err), -EISDIR);
        ok(holds(&rig, "moved", S("old")));
}

static void copy_onto_mount(const struct rig *rig)
{
        rig_file(rig, "from", S("program"));
        rig_file(rig, "to", S("old"));
        rig_file(rig, "mounted", S("old"));
        must(chmod(rig_path(rig, "from"), 0755) == 0);
        must(mount(rig_path(rig, "mounted"), rig_path(rig, "to"), "", MS_BIND, NULL) == 0);
        err = ERR_INIT;
        must(fsop_copy(rig_path(rig, "from"), rig_path(rig, "to"), false, NULL, &err) == 0);
        must(holds(rig, "mounted", S("program")));
        must((stat_of(rig, "mounted").st_mode & 07777) == 0755);
}

TEST(copy_onto_a_mount_point_has_the_bits_of_the_source)
{
        _rig_ struct rig rig = rig_new();
        rig_in_namespace(&rig, copy_onto_mount);
}

static void write_without_fowner(const struct rig *rig)
{
        struct writer *w;

        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct caps[2];
        must(syscall(SYS_capget, &header, caps) == 0);
        caps[0].effective &= ~(1u << CAP_FOWNER);
        must(syscall(SYS_capset, &header, caps) == 0);

        err = ERR_INIT;
        must(fsop_write_begin(rig_path(rig, "f"), &plain, &w, NULL, NULL, &err) == 0);
        must(fsop_write_data(w, S("new"), &err) == 0);
        must(fsop_write_commit(w, NULL, NULL, NULL, &err) == 0);
        must(holds(rig, "f", S("new")));
        must(stat_of(rig, "f").st_uid == 65534 && (stat_of(rig, "f").st_mode & 07777) == 0666);
}

TEST(root_of_a_container_writes_what_it_may_give_away_but_not_change)
{
        _rig_ struct rig rig = rig_new();

        if (geteuid() != 0)
                rig_skip(&rig);
        rig_file(&rig, "f", S("old"));
        eq_int(chmod(rig_path(&rig, "f"), 0666), 0);
        eq_int(chown(rig_path(&rig, "f"), 65534, 65534), 0);
        rig_in_namespace(&rig, write_without_fowner);
}

/* ---- Failed writes */

static void fill_empty(const struct rig *rig)
{
        static char large[2 << 20];
        struct writer *w;
        struct write_options o = plain;

        rig_tmpfs(rig, "m", "size=1m");
        rig_file(rig, "m/f", S(""));
        must(link(rig_path(rig, "m/f"), rig_path(rig, "m/g")) == 0);
        o.size = sizeof(large);
        err = ERR_INIT;
        int r = fsop_write_begin(rig_path(rig, "m/f"), &o, &w, NULL, NULL, &err);
        if (r == 0) {
                r = fsop_write_data(w, slice_from(large, sizeof(large)), &err);
                must(fsop_write_abort(w) == NULL);
        }
        must(r == -ENOSPC);
        must(stat_of(rig, "m/f").st_size == 0);
}

TEST(empty_file_is_empty_again_when_its_content_does_not_fit)
{
        _rig_ struct rig rig = rig_new();
        rig_in_namespace(&rig, fill_empty);
}

TEST(copy_of_a_sparse_file_onto_itself_takes_no_room)
{
        _rig_ struct rig rig = rig_new();

        rig_file(&rig, "f", S("x"));
        eq_int(truncate(rig_path(&rig, "f"), 64 << 20), 0);
        eq_int(link(rig_path(&rig, "f"), rig_path(&rig, "g")), 0);
        rig_link(&rig, "l", "f");
        struct stat before = stat_of(&rig, "f");
        if (before.st_blocks > 1000)
                rig_skip(&rig); /* the file system has no holes */
        err = ERR_INIT;
        eq_int(fsop_copy(rig_path(&rig, "f"), rig_path(&rig, "g"), false, NULL, &err), 0);
        eq_int(fsop_copy(rig_path(&rig, "f"), rig_path(&rig, "l"), false, NULL, &err), 0);
        eq_int(stat_of(&rig, "f").st_blocks, before.st_blocks);
}

/* A thread that renames `from` to `to` as soon as `inotify` reports that `to` was made. */
struct usurper {
        int inotify;
        const char *from, *to;
};

static void *usurp(void *arg)
{
        struct usurper *u = arg;
        char event[sizeof(struct inotify_event) + NAME_MAX + 1];

        must(read(u->inotify, event, sizeof(event)) > 0);
        must(rename(u->from, u->to) == 0);
        return NULL;
}

static void copy_and_lose_the_name(const struct rig *rig)
{
        static char chunk[1 << 20];
        pthread_t thread;

        rig_tmpfs(rig, "s", "size=64m");
        rig_tmpfs(rig, "m", "size=32m");
        rig_directory(rig, "s/t");
        rig_directory(rig, "m/t");
        rig_file(rig, "m/other", S("other"));
        _close_ int fd = open(rig_path(rig, "s/t/large"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        for (int i = 0; i < 48; i++)
                must(fd_write_all(fd, slice_from(chunk, sizeof(chunk))) == 0);

        struct usurper u = { inotify_init1(IN_CLOEXEC), rig_path(rig, "m/other"),
                             rig_path(rig, "m/t/large") };
        must(u.inotify >= 0 && inotify_add_watch(u.inotify, rig_path(rig, "m/t"), IN_CREATE) >= 0);
        must(pthread_create(&thread, NULL, usurp, &u) == 0);
        err = ERR_INIT;
        must(fsop_copy(rig_path(rig, "s/t"), rig_path(rig, "m/t"), true, NULL, &err) == -ENOSPC);
        must(pthread_join(thread, NULL) == 0);
        must(holds(rig, "m/t/large", S("other")));
}

TEST(copy_that_fails_takes_away_its_own_file_only)
{
        _rig_ struct rig rig = rig_new();
        rig_in_namespace(&rig, copy_and_lose_the_name);
}

TEST(labels_of_the_security_modules_are_kept)
{
        _rig_ struct rig rig = rig_new();
        char value[8];

        rig_file(&rig, "f", S("old"));
        if (setxattr(rig_path(&rig, "f"), "security.farhand", "label", 5, 0) < 0)
                rig_skip(&rig); /* only root may set the label, and not on every file system */
        struct writer *w = begin(&rig, "f", plain);
        eq_int(fsop_write_commit(w, NULL, NULL, NULL, &err), 0);
        eq_int(getxattr(rig_path(&rig, "f"), "security.farhand", value, sizeof(value)), 5);
}

/* ---- One file under several names */

struct rival {
        const char *path;
        struct write_options options;
        int result;
};

static void *write_rival(void *arg)
{
        struct rival *r = arg;
        struct writer *w;
        struct err e = ERR_INIT;

        r->result = fsop_write_begin(r->path, &r->options, &w, NULL, NULL, &e);
        if (r->result == 0) {
                must(fsop_write_data(w, S("rival"), &e) == 0);
                r->result = fsop_write_commit(w, NULL, NULL, NULL, &e);
        }
        return NULL;
}

/* Writes one file through two names at once, both times on the condition that the file is unchanged: only one may succeed. */
static void contend(const struct rig *rig, const char *mine, const char *others)
{
        struct stat st;
        pthread_t thread;
        struct timespec soon;

        must(stat(rig_path(rig, mine), &st) == 0);
        struct write_options o = plain;
        o.match = MATCH_STAT;
        o.match_size = (uint64_t)st.st_size;
        o.match_modified_ms = st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
        struct rival rival = { .path = rig_path(rig, others), .options = o };

        struct writer *w = begin(rig, mine, o);
        eq_int(pthread_create(&thread, NULL, write_rival, &rival), 0);
        /* Gives the rival a second to write too early, which the locks must prevent. No event says that it waits. */
        clock_gettime(CLOCK_REALTIME, &soon);
        soon.tv_sec += 1;
        bool has_ended = pthread_timedjoin_np(thread, NULL, &soon) == 0;
        eq_int(fsop_write_data(w, S("mine"), &err), 0);
        int result = fsop_write_commit(w, NULL, NULL, NULL, &err);
        if (!has_ended)
                eq_int(pthread_join(thread, NULL), 0);

        ok((result == 0) != (rival.result == 0));
        ok(holds(rig, mine, result == 0 ? S("mine") : S("rival")));
        ok(holds(rig, others, result == 0 ? S("mine") : S("rival")));
}

TEST(conditions_are_kept_through_a_link)
{
        _rig_ struct rig rig = rig_new();

        rig_file(&rig, "f", S("as it was"));
        rig_link(&rig, "l", "f");
        contend(&rig, "l", "f");
}

TEST(conditions_are_kept_through_a_second_name)
{
        _rig_ struct rig rig = rig_new();

        rig_file(&rig, "f", S("as it was"));
        eq_int(link(rig_path(&rig, "f"), rig_path(&rig, "g")), 0);
        contend(&rig, "f", "g");
}

struct renaming {
        const char *from, *to;
        atomic_bool is_done;
};

static void *rename_rival(void *arg)
{
        struct renaming *r = arg;
        struct err e = ERR_INIT;

        must(fsop_rename(r->from, r->to, true, true, &e) == 0);
        atomic_store(&r->is_done, true);
        return NULL;
}

TEST(rename_waits_for_a_write_to_its_destination)
{
        _rig_ struct rig rig = rig_new();
        pthread_t thread;
        struct timespec soon;

        rig_file(&rig, "f", S("old"));
        rig_file(&rig, "other", S("other"));
        struct renaming renaming = { .from = rig_path(&rig, "other"), .to = rig_path(&rig, "f") };
        struct write_options o = plain;
        o.is_atomic = false; /* the writer holds the lock of the name from its beginning */
        struct writer *w = begin(&rig, "f", o);
        eq_int(pthread_create(&thread, NULL, rename_rival, &renaming), 0);
        clock_gettime(CLOCK_REALTIME, &soon);
        soon.tv_sec += 1;
        eq_int(pthread_timedjoin_np(thread, NULL, &soon), ETIMEDOUT);
        eq_int(fsop_write_commit(w, NULL, NULL, NULL, &err), 0);
        eq_int(pthread_join(thread, NULL), 0);
        ok(holds(&rig, "f", S("other")));
}

TEST(what_is_appended_while_a_file_is_written_in_place_does_not_stay)
{
        _rig_ struct rig rig = rig_new();

        rig_file(&rig, "f", S("old"));
        eq_int(link(rig_path(&rig, "f"), rig_path(&rig, "g")), 0);
        struct writer *w = begin(&rig, "f", plain);
        rig_file(&rig, "g", S("old and more"));
        eq_int(fsop_write_data(w, S("new"), &err), 0);
        eq_int(fsop_write_commit(w, NULL, NULL, NULL, &err), 0);
        ok(holds(&rig, "f", S("new")));
}
