/* What the journal says of stubs at any moment, and what the next server makes of it. */
#include "unit.h"

#include "base/arena.h"
#include "base/fd.h"
#include "server/stub_book.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct desk {
        struct arena arena;
        char root[PATH_MAX];
        struct stub_book book;
        struct journal *journal;
};

static int remove_one(const char *path, UNUSED const struct stat *st, UNUSED int flag, UNUSED struct FTW *f)
{
        return remove(path);
}

static struct journal *journal_in(struct desk *d)
{
        struct err err = ERR_INIT;
        struct journal *j;
        const char *state = arena_printf(&d->arena, "%s/state", d->root);
        if (journal_open(state, &j, &err) < 0)
                fail_msg("%s", err.text);
        return j;
}

static void desk_open(struct desk *d)
{
        *d = (struct desk){ .arena = ARENA_INIT };
        char template[] = "/tmp/farhand-book-XXXXXX";
        ok(mkdtemp(template) != NULL && realpath(template, d->root) != NULL);
        stub_book_init(&d->book);
        d->journal = journal_in(d);
}

static void desk_close(struct desk *d)
{
        d->journal = journal_close(d->journal);
        eq_u64(map_count(&d->book.entries), 0);
        stub_book_release(&d->book);
        (void)nftw(d->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        arena_release(&d->arena);
}

static const char *at(struct desk *d, const char *name)
{
        return arena_printf(&d->arena, "%s/%s", d->root, name);
}

static bool exists(struct desk *d, const char *name)
{
        struct stat st;
        return lstat(at(d, name), &st) == 0;
}

/* As keepers make them. */
static void put_stub(struct desk *d, const char *name)
{
        eq_int(mkdir(at(d, name), 0755), 0);
        eq_int(chmod(at(d, name), S_ISVTX | 0555), 0);
}

static struct stub_entries enter(struct desk *d, const char *const *names)
{
        struct plan_stub stubs[8];
        struct plan plan = { .stubs = stubs };
        struct stub_entries e;
        for (; names[plan.stub_count]; plan.stub_count++)
                stubs[plan.stub_count] =
                        (struct plan_stub){ .path = slice_from_str(at(d, names[plan.stub_count])) };
        stub_book_enter(&d->book, d->journal, &plan, &e);
        eq_u64(e.count, plan.stub_count);
        return e;
}
#define ENTER(d, ...) enter(d, (const char *const[]){ __VA_ARGS__, NULL })

static void strike(struct desk *d, struct stub_entries *e)
{
        stub_book_strike(&d->book, d->journal, e);
        eq_u64(e->count, 0);
        ok(e->list == NULL);
}

/* The server dies here, and another one starts. */
static void start_again(struct desk *d, void (*life)(struct desk *))
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
        journal_sweep(d->journal, stub_book_sweep);
}

/* Valgrind answers for openat2, without which no stub is removed, that there is none. */
static bool is_usable(void)
{
        const char *preload = getenv("LD_PRELOAD");
        if (!preload || !strstr(preload, "vgpreload"))
                return true;
        print_message("skipped: valgrind does not know openat2\n");
        return false;
}

static void life_with_two(struct desk *d)
{
        (void)ENTER(d, "a", "b");
        put_stub(d, "a");
        put_stub(d, "b");
        put_stub(d, "c");
}

TEST(the_next_server_removes_the_stubs_of_one_that_was_killed)
{
        if (!is_usable())
                skip();
        struct desk d;
        desk_open(&d);
        start_again(&d, life_with_two);
        ok(!exists(&d, "a") && !exists(&d, "b"));
        ok(exists(&d, "c")); /* nobody wrote that down */
        desk_close(&d);
}

static void life_that_strikes(struct desk *d)
{
        struct stub_entries one = ENTER(d, "a", "b"), two = ENTER(d, "b");
        strike(d, &one);
        (void)two;
        put_stub(d, "a");
        put_stub(d, "b");
}

TEST(what_was_struck_is_not_swept_and_what_others_share_is)
{
        if (!is_usable())
                skip();
        struct desk d;
        desk_open(&d);
        start_again(&d, life_that_strikes);
        ok(exists(&d, "a"));
        ok(!exists(&d, "b"));
        desk_close(&d);
}

static void life_with_users_things(struct desk *d)
{
        (void)ENTER(d, "directory", "file", "full", "link", "held");
        eq_int(mkdir(at(d, "directory"), 0755), 0);
        UNUSED _close_ int fd = open(at(d, "file"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        eq_int(mkdir(at(d, "full"), 0755), 0);
        eq_int(mkdir(at(d, "full/x"), 0755), 0);
        eq_int(chmod(at(d, "full"), S_ISVTX | 0555), 0);
        put_stub(d, "target");
        eq_int(symlink("target", at(d, "link")), 0);
}

TEST(a_sweep_leaves_what_a_user_has_made_meanwhile)
{
        if (!is_usable())
                skip();
        struct desk d;
        desk_open(&d);
        /* Another server's command lives, with a stub that both wrote down. */
        put_stub(&d, "held");
        _close_ int held = open(at(&d, "held"), O_RDONLY | O_CLOEXEC);
        eq_int(flock(held, LOCK_SH), 0);
        start_again(&d, life_with_users_things);
        static const char *const names[] = { "directory", "file", "full/x", "link", "target", "held" };
        for (size_t n = 0; n < ARRAY_LEN(names); n++)
                ok(exists(&d, names[n]));
        desk_close(&d);
}

TEST(commands_that_share_a_stub_share_its_entry)
{
        struct desk d;
        desk_open(&d);
        struct stub_entries one = ENTER(&d, "a", "b"), two = ENTER(&d, "b", "c"), three = ENTER(&d, "b");
        eq_u64(map_count(&d.book.entries), 3);
        ok(one.list[1] == two.list[0] && two.list[0] == three.list[0]);
        strike(&d, &two);
        eq_u64(map_count(&d.book.entries), 2);
        strike(&d, &one);
        eq_u64(map_count(&d.book.entries), 1);
        strike(&d, &three);
        eq_u64(map_count(&d.book.entries), 0);
        desk_close(&d);
}

TEST(a_sandbox_without_stubs_has_no_entries)
{
        struct desk d;
        desk_open(&d);
        struct stub_entries e = enter(&d, (const char *const[]){ NULL });
        ok(e.list == NULL);
        strike(&d, &e);
        strike(&d, &e); /* once more does nothing */
        desk_close(&d);
}

TEST(a_closed_book_leaves_no_journal)
{
        struct desk d;
        desk_open(&d);
        struct stub_entries e = ENTER(&d, "a", "b");
        strike(&d, &e);
        d.journal = journal_close(d.journal);
        eq_int(rmdir(at(&d, "state")), 0); /* empty */
        desk_close(&d);
}

TEST(without_a_journal_and_with_a_full_one_the_book_goes_on)
{
        struct desk d;
        desk_open(&d);
        struct journal *j = d.journal;
        d.journal = NULL;
        struct stub_entries e = ENTER(&d, "a", "b");
        eq_u64(map_count(&d.book.entries), 2);
        strike(&d, &e);
        d.journal = j;

        struct stub_entries many[JOURNAL_SLOTS + 8];
        for (size_t n = 0; n < ARRAY_LEN(many); n++)
                many[n] = ENTER(&d, arena_printf(&d.arena, "n%zu", n));
        for (size_t n = 0; n < ARRAY_LEN(many); n++)
                strike(&d, &many[n]);
        /* The slots have come back. */
        int slot = journal_add(d.journal, d.root, "x");
        ok(slot >= 0);
        journal_remove(d.journal, slot);
        desk_close(&d);
}

static void life_at_the_root(struct desk *d)
{
        struct plan_stub stub = { .path = S("/farhand-is-not-here") };
        const struct plan plan = { .stubs = &stub, .stub_count = 1 };
        struct stub_entries e;
        stub_book_enter(&d->book, d->journal, &plan, &e);
}

TEST(a_stub_at_the_root_can_be_written_down)
{
        struct desk d;
        desk_open(&d);
        start_again(&d, life_at_the_root);
        desk_close(&d);
}

static void *enter_often(void *arg)
{
        struct desk *d = arg;
        struct plan_stub stubs[] = { { .path = S("/none/a") }, { .path = S("/none/b") } };
        const struct plan plan = { .stubs = stubs, .stub_count = ARRAY_LEN(stubs) };
        for (int n = 0; n < 1000; n++) {
                struct stub_entries e;
                stub_book_enter(&d->book, d->journal, &plan, &e);
                stub_book_strike(&d->book, d->journal, &e);
        }
        return NULL;
}

TEST(threads_enter_and_strike_the_same_stubs)
{
        struct desk d;
        desk_open(&d);
        pthread_t threads[4];
        for (size_t n = 0; n < ARRAY_LEN(threads); n++)
                eq_int(pthread_create(&threads[n], NULL, enter_often, &d), 0);
        for (size_t n = 0; n < ARRAY_LEN(threads); n++)
                eq_int(pthread_join(threads[n], NULL), 0);
        desk_close(&d);
}
