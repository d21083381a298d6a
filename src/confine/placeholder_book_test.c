/* placeholder_book_test: tests which placeholders the journal names at any moment, and which ones the next server removes. */
#include "unit.h"

#include "base/arena.h"
#include "base/fd.h"
#include "base/limits.h"
#include "confine/placeholder_book.h"
#include "sandbox/placeholder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct rig {
        struct arena arena;
        char root[PATH_MAX];
        struct placeholder_book book;
        struct journal *journal;
        struct preparer preparer;
        struct placeholder_locks locks;
};

/* A command: its entries in the book, and the image in which its keeper notes the state of its placeholders. */
struct held {
        struct placeholder_entries entries;
        struct image *image;
};

static int remove_one(const char *path, UNUSED const struct stat *st, UNUSED int flag, UNUSED struct FTW *f)
{
        return remove(path);
}

static const struct placeholder_locks *found;

static int find(struct placeholder_locks *ret, UNUSED struct err *err)
{
        *ret = *found;
        return 0;
}

static struct journal *journal_in(struct rig *d)
{
        struct err err = ERR_INIT;
        struct journal *j;
        const char *state = arena_printf(&d->arena, "%s/state", d->root);
        if (journal_open(state, &j, &err) < 0)
                fail_msg("%s", err.text);
        return j;
}

static void rig_open(struct rig *d)
{
        *d = (struct rig){ .arena = ARENA_INIT };
        char template[] = "/tmp/farhand-book-XXXXXX";
        ok(mkdtemp(template) != NULL && realpath(template, d->root) != NULL);
        placeholder_book_init(&d->book);
        d->journal = journal_in(d);
        struct err err = ERR_INIT;
        eq_int(placeholder_locks_open(arena_printf(&d->arena, "%s/state", d->root), &d->locks, &err), 0);
        found = &d->locks;
        preparer_init(&d->preparer, BACKEND_NAMESPACES);
        preparer_set_locks_find(&d->preparer, find);
}

static void rig_close(struct rig *d)
{
        d->journal = journal_close(d->journal);
        eq_u64(map_count(&d->book.entries), 0);
        placeholder_book_release(&d->book);
        preparer_release(&d->preparer);
        (void)nftw(d->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        arena_release(&d->arena);
}

static const char *at(struct rig *d, const char *name)
{
        return arena_printf(&d->arena, "%s/%s", d->root, name);
}

static bool exists(struct rig *d, const char *name)
{
        struct stat st;
        return lstat(at(d, name), &st) == 0;
}

/* Makes placeholders as keepers do. */
static void put_placeholder(struct rig *d, const char *name)
{
        eq_int(mkdir(at(d, name), 0755), 0);
        eq_int(chmod(at(d, name), S_ISVTX | 0555), 0);
}

static struct held enter_plan(struct rig *d, const struct plan *plan)
{
        static const struct seccomp_filter no_filter;
        struct held h;
        placeholder_book_enter(&d->book, d->journal, plan, &h.entries);
        eq_u64(h.entries.count, plan->placeholder_count);
        int fd = image_make(plan, &(struct image_extra){ .filter = &no_filter, .locks = &d->locks });
        ok(fd >= 0);
        h.image = image_map(fd);
        ok(h.image != NULL);
        close(fd);
        return h;
}

static struct held enter(struct rig *d, const char *const *names)
{
        struct plan_placeholder placeholders[8];
        struct plan_op ops[8] = { 0 };
        struct plan plan = { .placeholders = placeholders, .ops = ops };
        struct stat st;
        eq_int(stat(d->root, &st), 0);
        for (; names[plan.placeholder_count]; plan.placeholder_count++) {
                struct slice path = slice_from_str(at(d, names[plan.placeholder_count]));
                ops[plan.op_count++] = (struct plan_op){ .path = path };
                placeholders[plan.placeholder_count] = (struct plan_placeholder){
                        .path = path, .op = plan.placeholder_count, .dev = st.st_dev, .ino = st.st_ino
                };
        }
        return enter_plan(d, &plan);
}
#define ENTER(d, ...) enter(d, (const char *const[]){ __VA_ARGS__, NULL })

/* Removes the entries of a command from the book, as if its keeper had left all its placeholders in this state. */
static void strike_as(struct rig *d, struct held *h, enum placeholder_state state)
{
        for (size_t n = 0; n < h->image->placeholder_count; n++)
                ((struct image_placeholder *)(uintptr_t)placeholders_at(h->image, n))->state = state;
        placeholder_book_strike(&d->book, d->journal, &h->entries, h->image);
        eq_u64(h->entries.count, 0);
        ok(h->entries.list == NULL);
        image_unmap(h->image);
}

static void strike(struct rig *d, struct held *h)
{
        strike_as(d, h, PLACEHOLDER_GONE);
}

static void sweep(struct rig *d)
{
        journal_sweep(d->journal, placeholder_book_sweep, &d->preparer);
}

/* Simulates that the server dies and another server starts. */
static void start_again(struct rig *d, void (*life)(struct rig *))
{
        d->journal = journal_close(d->journal);
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                d->journal = journal_in(d);
                life(d);
                (void)raise(SIGKILL);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        ok(WIFSIGNALED(status));
        d->journal = journal_in(d);
        sweep(d);
}

/* Valgrind has no openat2, without which no placeholder is removed. */
static bool is_usable(void)
{
        if (!unit_is_valgrind())
                return true;
        print_message("skipped: valgrind does not know openat2\n");
        return false;
}

static void life_with_two(struct rig *d)
{
        (void)ENTER(d, "a", "b");
        put_placeholder(d, "a");
        put_placeholder(d, "b");
        put_placeholder(d, "c");
}

TEST(the_next_server_removes_the_placeholders_of_one_that_was_killed)
{
        if (!is_usable())
                skip();
        struct rig d;
        rig_open(&d);
        start_again(&d, life_with_two);
        ok(!exists(&d, "a") && !exists(&d, "b"));
        ok(exists(&d, "c")); /* the journal does not name it */
        rig_close(&d);
}

static void life_that_strikes(struct rig *d)
{
        struct held one = ENTER(d, "a", "b"), two = ENTER(d, "b");
        strike(d, &one);
        (void)two;
        put_placeholder(d, "a");
        put_placeholder(d, "b");
}

TEST(struck_placeholders_are_not_swept_and_shared_ones_are)
{
        if (!is_usable())
                skip();
        struct rig d;
        rig_open(&d);
        start_again(&d, life_that_strikes);
        ok(exists(&d, "a"));
        ok(!exists(&d, "b"));
        rig_close(&d);
}

static void life_with_users_things(struct rig *d)
{
        (void)ENTER(d, "directory", "file", "full", "link", "held");
        eq_int(mkdir(at(d, "directory"), 0755), 0);
        UNUSED _close_ int fd = open(at(d, "file"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        eq_int(mkdir(at(d, "full"), 0755), 0);
        eq_int(mkdir(at(d, "full/x"), 0755), 0);
        eq_int(chmod(at(d, "full"), S_ISVTX | 0555), 0);
        put_placeholder(d, "target");
        eq_int(symlink("target", at(d, "link")), 0);
}

TEST(a_sweep_leaves_files_that_a_user_has_made_meanwhile)
{
        if (!is_usable())
                skip();
        struct rig d;
        rig_open(&d);
        /* A command of another server is running. Both servers have named its placeholder in their journals. */
        put_placeholder(&d, "held");
        struct stat st;
        eq_int(stat(d.root, &st), 0);
        _close_ int held = placeholder_lock_open(d.locks.path);
        eq_int(placeholder_lock_share(held, placeholder_lock_byte(&d.locks, st.st_dev, st.st_ino, S("held"))),
               0);
        start_again(&d, life_with_users_things);
        static const char *const names[] = { "directory", "file", "full/x", "link", "target", "held" };
        for (size_t n = 0; n < ARRAY_LEN(names); n++)
                ok(exists(&d, names[n]));
        held = fd_close(held);
        sweep(&d); /* the placeholder has stayed in the journal */
        ok(!exists(&d, "held"));
        rig_close(&d);
}

/* ---- placeholders that could not be removed ---- */

/* Adds a second user of the placeholder and returns its descriptor: until that is closed the placeholder cannot be removed. */
static int use(struct rig *d, const char *name)
{
        struct stat st;
        eq_int(stat(d->root, &st), 0);
        int fd = placeholder_lock_open(d->locks.path);
        ok(fd >= 0);
        eq_int(placeholder_lock_share(fd, placeholder_lock_byte(&d->locks, st.st_dev, st.st_ino,
                                                                slice_from_str(name))),
               0);
        return fd;
}

static void retry(struct rig *d)
{
        placeholder_book_retry(&d->book, d->journal, &d->preparer);
}

TEST(a_stuck_placeholder_is_tried_until_it_is_gone)
{
        if (!is_usable())
                skip();
        struct rig d;
        rig_open(&d);
        struct held h = ENTER(&d, "a", "b");
        put_placeholder(&d, "a");
        put_placeholder(&d, "b");
        int user = use(&d, "b");
        strike_as(&d, &h, PLACEHOLDER_STUCK);
        eq_u64(placeholder_book_stuck(&d.book), 2);
        retry(&d);
        ok(!exists(&d, "a") && exists(&d, "b"));
        eq_u64(placeholder_book_stuck(&d.book), 1);
        eq_u64(map_count(&d.book.entries), 1);
        user = fd_close(user);
        retry(&d);
        ok(!exists(&d, "b"));
        eq_u64(placeholder_book_stuck(&d.book), 0);
        retry(&d);
        rig_close(&d);
}

TEST(a_stuck_placeholder_that_a_command_uses_again_is_removed_by_that_command)
{
        if (!is_usable())
                skip();
        struct rig d;
        rig_open(&d);
        struct held one = ENTER(&d, "a");
        put_placeholder(&d, "a");
        strike_as(&d, &one, PLACEHOLDER_STUCK);
        struct held two = ENTER(&d, "a"), three = ENTER(&d, "a");
        retry(&d);
        ok(exists(&d, "a"));
        strike_as(&d, &two, PLACEHOLDER_OTHERS);
        eq_u64(placeholder_book_stuck(&d.book), 1);
        strike(&d, &three);
        eq_u64(placeholder_book_stuck(&d.book), 0);
        rig_close(&d);
}

static void life_that_is_stuck(struct rig *d)
{
        struct held h = ENTER(d, "a");
        put_placeholder(d, "a");
        strike_as(d, &h, PLACEHOLDER_STUCK);
}

TEST(the_next_server_removes_stuck_placeholders)
{
        if (!is_usable())
                skip();
        struct rig d;
        rig_open(&d);
        start_again(&d, life_that_is_stuck);
        ok(!exists(&d, "a"));
        rig_close(&d);
}

TEST(so_many_are_tried_again_and_no_more)
{
        if (!is_usable())
                skip();
        struct rig d;
        rig_open(&d);
        for (size_t n = 0; n < LIMIT_STUCK_PLACEHOLDERS + 8; n++) {
                struct held h = ENTER(&d, arena_printf(&d.arena, "n%zu", n));
                strike_as(&d, &h, PLACEHOLDER_STUCK);
        }
        eq_u64(placeholder_book_stuck(&d.book), LIMIT_STUCK_PLACEHOLDERS);
        eq_u64(map_count(&d.book.entries), LIMIT_STUCK_PLACEHOLDERS);
        retry(&d);
        eq_u64(placeholder_book_stuck(&d.book), 0);
        rig_close(&d);
}

/* ---- entries of the book ---- */

TEST(commands_that_share_a_placeholder_share_its_entry)
{
        struct rig d;
        rig_open(&d);
        struct held one = ENTER(&d, "a", "b"), two = ENTER(&d, "b", "c"), three = ENTER(&d, "b");
        eq_u64(map_count(&d.book.entries), 3);
        ok(one.entries.list[1] == two.entries.list[0] && two.entries.list[0] == three.entries.list[0]);
        strike(&d, &two);
        eq_u64(map_count(&d.book.entries), 2);
        strike(&d, &one);
        eq_u64(map_count(&d.book.entries), 1);
        strike(&d, &three);
        eq_u64(map_count(&d.book.entries), 0);
        rig_close(&d);
}

TEST(a_sandbox_without_placeholders_has_no_entries)
{
        struct rig d;
        rig_open(&d);
        struct held h = enter(&d, (const char *const[]){ NULL });
        ok(h.entries.list == NULL);
        placeholder_book_strike(&d.book, d.journal, &h.entries, h.image);
        strike(&d, &h); /* a second call does nothing */
        rig_close(&d);
}

TEST(a_closed_book_leaves_no_journal)
{
        struct rig d;
        rig_open(&d);
        struct held h = ENTER(&d, "a", "b");
        strike(&d, &h);
        d.journal = journal_close(d.journal);
        eq_int(unlink(d.locks.path), 0);
        eq_int(rmdir(at(&d, "state")), 0); /* the directory is empty */
        rig_close(&d);
}

TEST(without_a_journal_and_with_a_full_journal_the_book_goes_on)
{
        struct rig d;
        rig_open(&d);
        struct journal *j = d.journal;
        d.journal = NULL;
        struct held h = ENTER(&d, "a", "b");
        eq_u64(map_count(&d.book.entries), 2);
        strike(&d, &h);
        d.journal = j;

        struct held many[JOURNAL_SLOTS + 8];
        for (size_t n = 0; n < ARRAY_LEN(many); n++)
                many[n] = ENTER(&d, arena_printf(&d.arena, "n%zu", n));
        for (size_t n = 0; n < ARRAY_LEN(many); n++)
                strike(&d, &many[n]);
        /* The slots of the journal are free again. */
        int slot = journal_add(d.journal, d.root, "x");
        ok(slot >= 0);
        journal_remove(d.journal, slot);
        rig_close(&d);
}

static void life_at_the_root(struct rig *d)
{
        struct plan_placeholder placeholder = { .path = S("/farhand-is-not-here") };
        struct plan_op op = { .path = placeholder.path };
        const struct plan plan = {
                .placeholders = &placeholder, .placeholder_count = 1, .ops = &op, .op_count = 1
        };
        (void)enter_plan(d, &plan);
}

TEST(a_placeholder_at_the_root_can_be_written_down)
{
        struct rig d;
        rig_open(&d);
        start_again(&d, life_at_the_root);
        rig_close(&d);
}

static void *enter_often(void *arg)
{
        struct rig *d = arg;
        struct plan_placeholder placeholders[] = { { .path = S("/none/a") },
                                                   { .path = S("/none/b"), .op = 1 } };
        struct plan_op ops[] = { { .path = placeholders[0].path }, { .path = placeholders[1].path } };
        const struct plan plan = { .placeholders = placeholders,
                                   .placeholder_count = ARRAY_LEN(placeholders),
                                   .ops = ops,
                                   .op_count = ARRAY_LEN(ops) };
        for (int n = 0; n < 1000; n++) {
                struct held h = enter_plan(d, &plan);
                strike(d, &h);
        }
        return NULL;
}

TEST(threads_enter_and_strike_the_same_placeholders)
{
        struct rig d;
        rig_open(&d);
        pthread_t threads[4];
        for (size_t n = 0; n < ARRAY_LEN(threads); n++)
                eq_int(pthread_create(&threads[n], NULL, enter_often, &d), 0);
        for (size_t n = 0; n < ARRAY_LEN(threads); n++)
                eq_int(pthread_join(threads[n], NULL), 0);
        rig_close(&d);
}
