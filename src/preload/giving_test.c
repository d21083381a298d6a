#include "preload/giving.h"

#include "base/arena.h"
#include "base/fd.h"
#include "intercept/wrapped.h"
#include "unit.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static bool has_number(const struct wrapped *w, int number)
{
        for (size_t i = 0; i < w->fd_count; i++)
                if (w->fds[i].number == number)
                        return true;
        return false;
}

TEST(descriptors_that_are_inherited_come_over_with_numbers_and_umask)
{
        _arena_ struct arena arena = ARENA_INIT;
        int pair[2], signo = 0, shared = open("/dev/null", O_RDONLY), kept = fcntl(shared, F_DUPFD, 700),
                     own = open("/dev/null", O_RDONLY | O_CLOEXEC);

        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        struct wrapped *w = wrapped_new(pair[1]);
        mode_t before = umask(027);
        ok(giving_give(pair[0], shared));
        eq_int(umask(before), 027);
        eq_int(wrapped_read(w), 0);
        eq_int(wrapped_more(w, &arena, &signo), 1);
        eq_int(signo, 0);
        eq_int(w->umask, 027);
        ok(w->fd_count > 0 && has_number(w, kept));
        ok(!has_number(w, shared) && !has_number(w, own) && !has_number(w, pair[0]));
        wrapped_free(w);
        fd_close(pair[0]);
        fd_close(shared);
        fd_close(kept);
        fd_close(own);
}

TEST(more_descriptors_than_one_message_takes_are_not_given)
{
        int pair[2], first = open("/dev/null", O_RDONLY), fds[ESCALATE_MORE_FDS];
        char byte;

        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
                fds[i] = dup(first);
        ok(!giving_give(pair[0], -1));
        eq_int(read(pair[1], &byte, 1), -1);
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
                fd_close(fds[i]);
        fd_close(first);
        fd_close(pair[0]);
        fd_close(pair[1]);
}

TEST(numbers_are_written_in_full)
{
        static const unsigned numbers[] = { 0, 7, 10, 198, INT_MAX };
        static const char *const texts[] = { "0", "7", "10", "198", "2147483647" };
        char text[16];

        for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
                char *end = giving_number(text, numbers[i]);
                eq_str(text, texts[i]);
                ok(end == text + strlen(text));
        }
}
