/* Tests of door/duct. */
#include "door/duct.h"

#include "base/fd.h"
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

/* Two sockets with a pair of ducts between their far ends, which a thread runs. */
struct rig {
        int left, right;             /* what the test holds */
        int inner_left, inner_right; /* what the ducts hold */
        struct duct there, back;
        int result;
        pthread_t thread;
};

static void *run(void *arg)
{
        struct rig *r = arg;
        r->result = duct_pair_run(&r->there, &r->back);
        return NULL;
}

static void rig_begin(struct rig *r)
{
        int left[2], right[2];
        (void)signal(SIGPIPE, SIG_IGN);
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, left), 0);
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, right), 0);
        *r = (struct rig){
                .left = left[0], .inner_left = left[1], .inner_right = right[0], .right = right[1]
        };
        duct_init(&r->there, r->inner_left, r->inner_right);
        duct_init(&r->back, r->inner_right, r->inner_left);
}

static void rig_start(struct rig *r)
{
        eq_int(pthread_create(&r->thread, NULL, run, r), 0);
}

static void rig_end(struct rig *r)
{
        eq_int(pthread_join(r->thread, NULL), 0);
        duct_release(&r->there);
        duct_release(&r->back);
        fd_close(r->left);
        fd_close(r->right);
        fd_close(r->inner_left);
        fd_close(r->inner_right);
}

static void expect(int fd, struct slice text)
{
        char got[64];
        size_t n = 0;
        while (n < text.n) {
                ssize_t r = read(fd, got + n, text.n - n);
                ok(r > 0);
                n += (size_t)r;
        }
        eq_slice(slice_from(got, n), text);
}

static void expect_end(int fd)
{
        char c;
        eq_int(read(fd, &c, 1), 0);
}

TEST(bytes_pass_both_ways_and_the_end_of_one_side_is_passed_on)
{
        struct rig r;
        rig_begin(&r);
        rig_start(&r);
        eq_int(fd_write_all(r.left, S("there")), 0);
        expect(r.right, S("there"));
        eq_int(shutdown(r.left, SHUT_WR), 0);
        expect_end(r.right);
        eq_int(fd_write_all(r.right, S("back")), 0);
        expect(r.left, S("back"));
        r.right = fd_close(r.right);
        expect_end(r.left);
        rig_end(&r);
        eq_int(r.result, 0);
}

TEST(what_was_sent_before_the_end_arrives)
{
        struct rig r;
        rig_begin(&r);
        eq_int(fd_write_all(r.right, S("last words")), 0);
        r.right = fd_close(r.right);
        rig_start(&r);
        expect(r.left, S("last words"));
        expect_end(r.left);
        rig_end(&r);
        eq_int(r.result, 0);
}

TEST(a_side_that_is_gone_ends_both_ways)
{
        struct rig r;
        rig_begin(&r);
        rig_start(&r);
        r.left = fd_close(r.left);
        expect_end(r.right);
        rig_end(&r);
        eq_int(r.result, 0);
}

/* Four megabytes, of which nobody reads any for a while. */
static void *write_much(void *arg)
{
        char piece[4096] = { 'x' };
        int fd = *(int *)arg;
        for (int i = 0; i < 1024; i++)
                if (fd_write_all(fd, slice_from(piece, sizeof(piece))) < 0)
                        return arg;
        (void)shutdown(fd, SHUT_WR);
        return NULL;
}

static size_t count(int fd)
{
        char piece[4096];
        size_t n = 0;
        for (ssize_t r; (r = read(fd, piece, sizeof(piece))) > 0;)
                n += (size_t)r;
        return n;
}

TEST(one_way_that_is_full_does_not_hold_the_other_up)
{
        struct rig r;
        pthread_t writer;
        rig_begin(&r);
        rig_start(&r);
        eq_int(pthread_create(&writer, NULL, write_much, &r.left), 0);
        eq_int(fd_write_all(r.right, S("back")), 0);
        expect(r.left, S("back"));
        eq_u64(count(r.right), 1024 * 4096);
        void *failed;
        eq_int(pthread_join(writer, &failed), 0);
        ok(!failed);
        r.right = fd_close(r.right);
        rig_end(&r);
        eq_int(r.result, 0);
}

static int twice(UNUSED void *arg, char *bytes, size_t n, struct buf *out)
{
        int result = buf_append(out, slice_from(bytes, n));
        return result == 0 && memchr(bytes, '.', n) ? -EPROTO : buf_append(out, slice_from(bytes, n));
}

TEST(a_turn_changes_the_bytes_and_can_end_the_duct)
{
        struct rig r;
        rig_begin(&r);
        r.back.turn = twice;
        rig_start(&r);
        eq_int(fd_write_all(r.right, S("ab")), 0);
        expect(r.left, S("abab"));
        eq_int(fd_write_all(r.right, S(".")), 0);
        expect(r.left, S("."));
        expect_end(r.left);
        rig_end(&r);
        eq_int(r.result, 0);
}

TEST(an_end_that_is_kept_is_not_passed_on)
{
        struct rig r;
        rig_begin(&r);
        r.back.is_end_kept = true;
        rig_start(&r);
        eq_int(fd_write_all(r.left, S("there")), 0);
        expect(r.right, S("there"));
        r.right = fd_close(r.right);
        eq_int(pthread_join(r.thread, NULL), 0);
        ok(r.there.is_cut && !r.back.is_cut);
        char byte;
        eq_int(recv(r.left, &byte, 1, MSG_DONTWAIT), -1); /* not 0, the end */
        eq_int(errno, EAGAIN);
        duct_release(&r.there);
        duct_release(&r.back);
        fd_close(r.left);
        fd_close(r.inner_left);
        fd_close(r.inner_right);
}
