#include "preload/asking.h"

#include "base/arena.h"
#include "base/fd.h"
#include "base/limits.h"
#include "intercept/wrapped.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* A broker that takes one question, and gives one answer. */
struct rig {
        int shared, broker;
        const struct escalate_answer *answer; /* NULL: it goes away */
        struct arena arena;
        struct escalate_request request;
        bool has_request;
        pthread_t thread;
};

static void *serve(void *arg)
{
        struct rig *rig = arg;
        int stream, r;
        do
                stream = wrapped_accept(rig->broker);
        while (stream == -EAGAIN);
        if (stream < 0)
                return NULL;
        struct wrapped *w = wrapped_new(stream);
        while ((r = wrapped_request(w, &rig->arena, &rig->request)) == 0)
                if (wrapped_read(w) < 0)
                        break;
        rig->has_request = r == 1;
        if (rig->answer)
                (void)wrapped_answer(w, rig->answer->action, rig->answer->reason);
        wrapped_free(w);
        return NULL;
}

static void rig_begin(struct rig *rig, const struct escalate_answer *answer)
{
        int pair[2];
        *rig = (struct rig){ .answer = answer, .arena = ARENA_INIT };
        eq_int(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        rig->shared = pair[0];
        rig->broker = pair[1];
        eq_int(pthread_create(&rig->thread, NULL, serve, rig), 0);
}

static char *const *list_of(const char *const *texts)
{
        return (char *const *)(uintptr_t)texts;
}

static enum asked rig_ask(struct rig *rig, const char *const *argv, const char *const *env, int *ret_stream)
{
        const struct asking a = { rig->shared, "/bin/x", list_of(argv), list_of(env), "/lib/p.so" };
        return asking_ask(&a, ret_stream);
}

static void rig_join(struct rig *rig)
{
        eq_int(pthread_join(rig->thread, NULL), 0);
}

static void rig_end(struct rig *rig)
{
        arena_release(&rig->arena);
        fd_close(rig->shared);
        fd_close(rig->broker);
}

static const struct escalate_answer may_run = { .action = ESCALATE_RUN };
static const struct escalate_answer denied = { .action = ESCALATE_DENY, .reason = { "because", 7 } };

static size_t fd_count(void)
{
        size_t n = 0;
        for (int fd = 0; fd < 256; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

TEST(the_question_has_all_texts_byte_by_byte)
{
        const char *const argv[] = { "x", "", "\xff\xfe\"\n", "three", NULL };
        const char *const env[] = { "A=1", "\xc3=2", "A=twice", "without", NULL };
        struct rig rig;
        int stream;

        rig_begin(&rig, &may_run);
        eq_int(rig_ask(&rig, argv, env, &stream), ASKED_RUN);
        rig_join(&rig);
        ok(rig.has_request);
        eq_slice(rig.request.file, S("/bin/x"));
        eq_u64(rig.request.argc, 4);
        for (size_t i = 0; i < 4; i++)
                eq_slice(rig.request.argv[i], slice_from_str(argv[i]));
        eq_u64(rig.request.env_count, 4);
        for (size_t i = 0; i < 4; i++)
                eq_slice(rig.request.env[i], slice_from_str(env[i]));
        rig_end(&rig);
}

TEST(the_question_has_no_variable_of_the_protocol_and_not_the_library)
{
        const char *const env[] = { "FARHAND_EXEC_PRELOAD=all:/lib/p.so:/w",
                                    "CODEX_ESCALATE_SOCKET=198",
                                    "EXEC_WRAPPER=/w",
                                    "FARHAND_EXEC_STREAM=7",
                                    "LD_PRELOAD=/lib/p.so:/lib/q.so",
                                    "LD_PRELOAD=/lib/p.so",
                                    "LD_PRELOAD=/lib/p.so.1",
                                    "LD_PRELOADED=/lib/p.so",
                                    NULL };
        static const char *const wanted[] = { "LD_PRELOAD=/lib/q.so", "LD_PRELOAD=/lib/p.so.1",
                                              "LD_PRELOADED=/lib/p.so" };
        struct rig rig;
        int stream;

        rig_begin(&rig, &may_run);
        eq_int(rig_ask(&rig, NULL, env, &stream), ASKED_RUN);
        rig_join(&rig);
        ok(rig.has_request);
        eq_u64(rig.request.argc, 1);
        eq_slice(rig.request.argv[0], S(""));
        eq_u64(rig.request.env_count, ARRAY_LEN(wanted));
        for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
                eq_slice(rig.request.env[i], slice_from_str(wanted[i]));
        rig_end(&rig);
}

TEST(texts_of_every_length_around_a_piece_come_over_whole)
{
        enum { COUNT = 24 };
        char *argv[COUNT + 2] = { 0 };
        struct rig rig;
        int stream;

        for (size_t i = 0; i < COUNT; i++) {
                size_t n = (i < 12 ? 384U : 2048U) - 6 + i % 12;
                argv[i] = malloc(n + 1);
                memset(argv[i], 'a' + (int)i, n);
                argv[i][n] = '\0';
        }
        argv[COUNT] = malloc(2000001); /* more than the socket takes at once */
        memset(argv[COUNT], 'z', 2000000);
        argv[COUNT][2000000] = '\0';
        rig_begin(&rig, &may_run);
        eq_int(rig_ask(&rig, (const char *const *)argv, NULL, &stream), ASKED_RUN);
        rig_join(&rig);
        ok(rig.has_request);
        eq_u64(rig.request.argc, COUNT + 1);
        for (size_t i = 0; i <= COUNT; i++) {
                eq_slice(rig.request.argv[i], slice_from_str(argv[i]));
                free(argv[i]);
        }
        rig_end(&rig);
}

TEST(another_answer_than_run_is_left_on_the_stream)
{
        const char *const argv[] = { "x", NULL };
        struct rig rig;
        int stream = -1;
        char text[256];

        rig_begin(&rig, &denied);
        eq_int(rig_ask(&rig, argv, NULL, &stream), ASKED_OTHER);
        rig_join(&rig);
        ok(fcntl(stream, F_GETFD) & FD_CLOEXEC);
        ssize_t n = read(stream, text, sizeof(text) - 1);
        ok(n > 4);
        text[n] = '\0';
        ok(strstr(text + 4, "because") != NULL);
        fd_close(stream);
        rig_end(&rig);
}

TEST(escalation_is_left_on_the_stream_too)
{
        static const struct escalate_answer escalated = { .action = ESCALATE_ESCALATE };
        const char *const argv[] = { "x", NULL };
        struct rig rig;
        int stream = -1;
        char text[256];

        rig_begin(&rig, &escalated);
        eq_int(rig_ask(&rig, argv, NULL, &stream), ASKED_ESCALATE);
        rig_join(&rig);
        ok(read(stream, text, sizeof(text)) > 4);
        fd_close(stream);
        rig_end(&rig);
}

TEST(a_broker_that_goes_away_has_decided_nothing)
{
        const char *const argv[] = { "x", NULL };
        struct rig rig;
        int stream;

        rig_begin(&rig, NULL);
        eq_int(rig_ask(&rig, argv, NULL, &stream), ASKED_NOBODY);
        rig_join(&rig);
        rig_end(&rig);
}

TEST(without_a_socket_nobody_is_asked_and_nothing_stays_open)
{
        const char *const argv[] = { "x", NULL };
        struct asking a = { -1, "/bin/x", list_of(argv), NULL, "/lib/p.so" };
        int stream, pair[2];
        size_t before = fd_count();

        eq_int(asking_ask(&a, &stream), ASKED_NOBODY);
        eq_int(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
        fd_close(pair[1]);
        a.shared = pair[0];
        eq_int(asking_ask(&a, &stream), ASKED_NOBODY); /* and no SIGPIPE */
        fd_close(pair[0]);
        eq_u64(fd_count(), before);
}
