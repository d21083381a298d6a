/* watch_test: watched descriptors, with and without room in epoll. */
#include "base/fd.h"
#include "loop/loop_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int refusal; /* the errno with which epoll_ctl refuses to add a descriptor; 0: it does not refuse */

/* Replaces the function of libc. */
int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
        if (op == EPOLL_CTL_ADD && refusal) {
                errno = refusal;
                return -1;
        }
        return (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
}

/* Makes two tests of one behaviour, which must be the same with and without room in epoll. */
#define TEST_BOTH(name)                   \
        static void name##_both(void);    \
        TEST(name)                        \
        {                                 \
                refusal = 0;              \
                name##_both();            \
        }                                 \
        TEST(name##_though_epoll_is_full) \
        {                                 \
                refusal = ENOSPC;         \
                name##_both();            \
                refusal = 0;              \
        }                                 \
        static void name##_both(void)

TEST_BOTH(a_pipe_is_readable_when_it_holds_something_and_at_its_end)
{
        struct rig rig;
        struct end end;
        int fds[2];
        char c;
        rig_open(&rig);
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        end_open(&end, &rig, fds[0], 0, on_ready);

        eq_int(write(fds[1], "x", 1), 1);
        turn(&rig);
        eq_int(end.calls, 0); /* nothing is watched before watch_set */

        watch_set(end.watch, WATCH_READ);
        turn(&rig);
        eq_int(end.calls, 1);
        eq_int(end.seen, WATCH_READ);
        turn(&rig);
        eq_int(end.calls, 2); /* still unread */

        eq_int(read(fds[0], &c, 1), 1);
        turn(&rig);
        eq_int(end.calls, 2);

        fd_close(fds[1]);
        turn(&rig);
        eq_int(end.calls, 3);
        ok(end.seen & WATCH_READ);

        watch_free(end.watch);
        rig_close(&rig);
        fd_close(fds[0]);
}

TEST_BOTH(a_paused_watch_is_silent_and_goes_on)
{
        struct rig rig;
        struct end end;
        int fds[2];
        rig_open(&rig);
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        eq_int(write(fds[1], "x", 1), 1);
        end_open(&end, &rig, fds[0], 0, on_ready);

        watch_set(end.watch, WATCH_READ);
        watch_set(end.watch, 0);
        watch_set(end.watch, 0);
        turn(&rig);
        eq_int(end.calls, 0);
        watch_set(end.watch, WATCH_READ);
        watch_set(end.watch, WATCH_READ);
        turn(&rig);
        eq_int(end.calls, 1);

        watch_free(end.watch);
        rig_close(&rig);
        fd_close(fds[0]);
        fd_close(fds[1]);
}

TEST_BOTH(only_the_events_asked_for_are_told)
{
        struct rig rig;
        struct end end;
        int fds[2];
        rig_open(&rig);
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        eq_int(write(fds[1], "x", 1), 1);
        end_open(&end, &rig, fds[0], 0, on_ready);

        watch_set(end.watch, WATCH_WRITE);
        turn(&rig);
        eq_int(end.seen, WATCH_WRITE);
        watch_set(end.watch, WATCH_READ);
        turn(&rig);
        eq_int(end.seen, WATCH_READ);
        watch_set(end.watch, WATCH_READ | WATCH_WRITE);
        turn(&rig);
        eq_int(end.seen, WATCH_READ | WATCH_WRITE);
        eq_int(end.calls, 3);

        watch_free(end.watch);
        rig_close(&rig);
        fd_close(fds[0]);
        fd_close(fds[1]);
}

TEST_BOTH(an_error_condition_counts_as_ready_and_may_be_watched_again)
{
        struct rig rig;
        struct end end;
        int fds[2];
        rig_open(&rig);
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        end_open(&end, &rig, fds[1], 0, on_ready);
        fd_close(fds[0]); /* no process will ever read */

        for (int i = 1; i <= 3; i++) {
                watch_set(end.watch, WATCH_WRITE);
                turn(&rig);
                eq_int(end.calls, i);
                eq_int(end.seen, WATCH_WRITE);
        }

        watch_free(end.watch);
        rig_close(&rig);
        fd_close(fds[1]);
}

static void is_always_ready(int fd)
{
        struct rig rig;
        struct end end;
        rig_open(&rig);
        end_open(&end, &rig, fd, 0, on_ready);

        turn(&rig);
        eq_int(end.calls, 0);
        watch_set(end.watch, WATCH_READ);
        turn(&rig);
        turn(&rig);
        eq_int(end.calls, 2);
        eq_int(end.seen, WATCH_READ);
        watch_set(end.watch, WATCH_READ | WATCH_WRITE);
        turn(&rig);
        eq_int(end.seen, WATCH_READ | WATCH_WRITE);
        watch_set(end.watch, 0);
        turn(&rig);
        eq_int(end.calls, 3);

        watch_free(end.watch);
        rig_close(&rig);
}

TEST(a_regular_file_is_always_ready)
{
        char path[] = "/tmp/loop_test.XXXXXX";
        _close_ int fd = mkostemp(path, O_CLOEXEC);
        ok(fd >= 0);
        eq_int(unlink(path), 0);
        is_always_ready(fd);
}

TEST(the_null_device_is_always_ready)
{
        _close_ int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        ok(fd >= 0);
        is_always_ready(fd);
}

static void on_ready_free(void *arg, UNUSED unsigned events)
{
        struct end *end = arg;
        end->calls++;
        end->watch = watch_free(end->watch);
        ok(end->watch == NULL);
}

TEST_BOTH(a_watch_may_be_freed_in_its_own_callback)
{
        struct rig rig;
        int fds[2];
        _close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        rig_open(&rig);
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        eq_int(write(fds[1], "x", 1), 1);
        struct end polled, always;
        end_open(&polled, &rig, fds[0], WATCH_READ, on_ready_free);
        refusal = 0;
        end_open(&always, &rig, null, WATCH_READ, on_ready_free);

        turn(&rig);
        turn(&rig);
        turn(&rig);
        eq_int(polled.calls, 1);
        eq_int(always.calls, 1);
        ok(watch_free(NULL) == NULL);

        rig_close(&rig);
        fd_close(fds[0]);
        fd_close(fds[1]);
}

/* Two watches that are both ready; the callback of each frees both. */
struct couple {
        struct rig rig;
        int first[2], second[2];
        struct watch *watches[2];
        int calls;
};

static void on_ready_free_both(void *arg, UNUSED unsigned events)
{
        struct couple *c = arg;
        c->calls++;
        for (int i = 0; i < 2; i++)
                c->watches[i] = watch_free(c->watches[i]);
}

/* The first callback frees the other watch, which must not be called then. */
static void check_couple(int first_refusal, int second_refusal)
{
        struct couple c = { 0 };
        rig_open(&c.rig);
        eq_int(pipe2(c.first, O_CLOEXEC), 0);
        eq_int(pipe2(c.second, O_CLOEXEC), 0);
        eq_int(write(c.first[1], "x", 1), 1);
        eq_int(write(c.second[1], "x", 1), 1);
        refusal = first_refusal;
        eq_int(watch_new(&c.rig.loop, c.first[0], WATCH_READ, on_ready_free_both, &c, &c.watches[0]), 0);
        refusal = second_refusal;
        eq_int(watch_new(&c.rig.loop, c.second[0], WATCH_READ, on_ready_free_both, &c, &c.watches[1]), 0);
        refusal = 0;

        turn(&c.rig);
        turn(&c.rig);
        eq_int(c.calls, 1);

        rig_close(&c.rig);
        for (int i = 0; i < 2; i++) {
                fd_close(c.first[i]);
                fd_close(c.second[i]);
        }
}

TEST(a_watch_freed_by_another_callback_of_the_turn_is_silent)
{
        check_couple(0, 0);
        check_couple(ENOSPC, ENOSPC);
        check_couple(0, ENOMEM); /* one is registered, the other is not */
}

TEST_BOTH(a_number_that_is_used_again_gets_a_watch_of_its_own)
{
        struct rig rig;
        struct end old, new;
        int fds[2];
        rig_open(&rig);
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        end_open(&old, &rig, fds[0], 0, on_ready);
        watch_set(old.watch, WATCH_READ);
        turn(&rig);

        /* The number of the descriptor is used again in the turn in which the old watch was freed. */
        int number = fds[0];
        watch_free(old.watch);
        fd_close(fds[0]);
        fd_close(fds[1]);
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        eq_int(fds[0], number);
        end_open(&new, &rig, fds[0], 0, on_ready);
        watch_set(new.watch, WATCH_READ);
        turn(&rig);
        eq_int(new.calls, 0); /* an always-ready watch would have called */
        eq_int(write(fds[1], "x", 1), 1);
        turn(&rig);
        eq_int(new.calls, 1);
        eq_int(old.calls, 0);

        watch_free(new.watch);
        rig_close(&rig);
        fd_close(fds[0]);
        fd_close(fds[1]);
}

/* --- when the loop sleeps and when it wakes ----------------------------------------------------------------------- */

static int turns;

static void on_turn_end(UNUSED void *arg)
{
        turns++;
}

static void on_over(void *arg)
{
        struct rig *rig = arg;
        loop_stop(&rig->loop);
}

/* Runs the loop for `ms`. Returns the number of turns that it has made. */
static int count_turns(struct rig *rig, uint64_t ms)
{
        struct timer *over = timer_new(&rig->loop, on_over, rig);
        timer_start(over, ms);
        turns = 0;
        loop_on_turn_end(&rig->loop, on_turn_end, NULL);
        loop_run(&rig->loop);
        timer_free(over);
        return turns;
}

/* The kernel reports errors and hang-ups whether they were asked for or not. */
TEST_BOTH(the_loop_sleeps_though_what_is_paused_has_hung_up)
{
        struct rig rig;
        struct end read_end, write_end;
        int in[2], out[2];
        rig_open(&rig);
        eq_int(pipe2(in, O_CLOEXEC), 0);
        eq_int(pipe2(out, O_CLOEXEC), 0);
        end_open(&read_end, &rig, in[0], WATCH_READ, on_ready);
        end_open(&write_end, &rig, out[1], 0, on_ready);
        watch_set(read_end.watch, 0);
        fd_close(in[1]);
        fd_close(out[0]);

        ok(count_turns(&rig, 20) <= 5);
        eq_int(read_end.calls + write_end.calls, 0);
        watch_set(read_end.watch, WATCH_READ);
        watch_set(write_end.watch, WATCH_WRITE);
        turn(&rig);
        eq_int(read_end.calls, 1);
        eq_int(write_end.calls, 1);

        watch_free(read_end.watch);
        watch_free(write_end.watch);
        rig_close(&rig);
        fd_close(in[0]);
        fd_close(out[1]);
}

TEST_BOTH(the_loop_sleeps_until_something_is_ready)
{
        struct rig rig;
        struct end idle, end;
        int fds[2], other[2];
        rig_open(&rig);
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        eq_int(pipe2(other, O_CLOEXEC), 0);
        end_open(&idle, &rig, other[0], WATCH_READ, on_ready);
        end_open(&end, &rig, fds[0], WATCH_READ, on_ready_stop);

        ok(count_turns(&rig, 20) <= 5);
        eq_int(write(fds[1], "x", 1), 1);
        loop_run(&rig.loop);
        eq_int(end.calls, 1);
        eq_int(idle.calls, 0);

        watch_free(idle.watch);
        watch_free(end.watch);
        rig_close(&rig);
        for (int i = 0; i < 2; i++) {
                fd_close(fds[i]);
                fd_close(other[i]);
        }
}

/* --- no room in epoll --------------------------------------------------------------------------------------------- */

TEST(what_is_registered_and_what_is_not_are_told_in_the_same_turn)
{
        struct rig rig;
        struct end in, out;
        int fds[2];
        rig_open(&rig);
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        end_open(&in, &rig, fds[0], WATCH_READ, on_ready);
        refusal = ENOMEM;
        end_open(&out, &rig, fds[1], WATCH_WRITE, on_ready);
        refusal = 0;
        eq_u64(rig.loop.unregistered_count, 1);

        eq_int(write(fds[1], "x", 1), 1);
        turn(&rig);
        eq_int(in.calls, 1);
        eq_int(out.calls, 1);

        watch_free(in.watch);
        watch_free(out.watch);
        eq_u64(rig.loop.unregistered_count, 0);
        rig_close(&rig);
        fd_close(fds[0]);
        fd_close(fds[1]);
}

TEST(what_is_not_registered_is_tried_again_now_and_then)
{
        struct rig rig;
        struct end ends[3];
        int fds[3][2];
        rig_open(&rig);
        refusal = ENOSPC;
        for (int i = 0; i < 3; i++) {
                eq_int(pipe2(fds[i], O_CLOEXEC), 0);
                end_open(&ends[i], &rig, fds[i][0], i ? WATCH_READ : 0, on_ready);
        }
        rig.loop.register_at_ms = 0; /* unregistered watches are offered to epoll in the next turn */
        turn(&rig);
        eq_u64(rig.loop.unregistered_count, 3);

        refusal = 0;
        turn(&rig); /* the descriptors are not offered again so soon */
        eq_u64(rig.loop.unregistered_count, 3);
        rig.loop.register_at_ms = 0;
        turn(&rig);
        eq_u64(rig.loop.unregistered_count, 0);

        for (int i = 0; i < 3; i++)
                eq_int(write(fds[i][1], "x", 1), 1);
        turn(&rig);
        for (int i = 0; i < 3; i++) {
                eq_int(ends[i].calls, i ? 1 : 0); /* the first watch is paused */
                watch_free(ends[i].watch);
                fd_close(fds[i][0]);
                fd_close(fds[i][1]);
        }
        rig_close(&rig);
}

/* The kernel refuses to poll more descriptors than the process may have; with no memory it refuses too. */
TEST(when_poll_itself_fails_all_count_as_ready_and_the_loop_does_not_spin)
{
        skip_in_valgrind("does not pass on the limit on descriptors");
        struct rig rig;
        struct end end, resting;
        struct rlimit limit, one;
        int fds[2], other[2];
        rig_open(&rig);
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        eq_int(pipe2(other, O_CLOEXEC), 0);
        refusal = ENOSPC;
        end_open(&end, &rig, fds[0], WATCH_READ, on_ready);
        end_open(&resting, &rig, other[0], 0, on_ready);
        refusal = 0;

        eq_int(getrlimit(RLIMIT_NOFILE, &limit), 0);
        one = limit;
        one.rlim_cur = 1;
        eq_int(setrlimit(RLIMIT_NOFILE, &one), 0);
        ok(count_turns(&rig, 50) <= 10);
        eq_int(setrlimit(RLIMIT_NOFILE, &limit), 0);
        ok(end.calls > 0);
        eq_int(end.seen, WATCH_READ);
        eq_int(resting.calls, 0);

        watch_free(end.watch);
        watch_free(resting.watch);
        rig_close(&rig);
        for (int i = 0; i < 2; i++) {
                fd_close(fds[i]);
                fd_close(other[i]);
        }
}

TEST(every_other_refusal_is_the_callers)
{
        struct rig rig;
        struct end end;
        struct watch *w = NULL;
        int fds[2];
        rig_open(&rig);
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        end_open(&end, &rig, fds[0], WATCH_READ, on_ready);

        eq_int(watch_new(&rig.loop, fds[0], WATCH_READ, on_ready, &end, &w), -EEXIST);
        eq_int(watch_new(&rig.loop, -1, WATCH_READ, on_ready, &end, &w), -EBADF);
        refusal = EINVAL;
        eq_int(watch_new(&rig.loop, fds[1], WATCH_WRITE, on_ready, &end, &w), -EINVAL);
        refusal = 0;
        ok(w == NULL);
        eq_int(write(fds[1], "x", 1), 1);
        turn(&rig);
        eq_int(end.calls, 1);

        watch_free(end.watch);
        rig_close(&rig);
        fd_close(fds[0]);
        fd_close(fds[1]);
}
