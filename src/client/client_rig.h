/* client_rig: for unit tests of the client. The test itself plays the server, on a connection whose messages are lines. */
#pragma once

#include "client/client.h"

#include "base/fd.h"
#include "unit.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

/* Makes a client that is ready, and whose server has all capabilities of Farhand's; *ret_server is the server's end of the
 * connection. The client has a URL, so that it can recover. */
static inline struct farhand *played_client(int *ret_server)
{
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        int pair[2];
        options.url = "unix:/nonexistent/socket";
        struct farhand *f = farhand_new(&options, NULL);
        ok(f && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
        f->retry_at_ms = 0;
        transport_open_child(&f->transport, pair[0], 0);
        *ret_server = pair[1];
        eq_int(farhand_step(f, NULL), 0);
        static const char hello[] =
                "{\"id\":0,\"result\":{\"sessionId\":\"s\",\"environmentInfo\":{\"capabilities\":{"
                "\"processControlV1\":true,\"fsControlV1\":true,\"fileWriteStreaming\":true,\"fsBatchV1\":"
                "true,"
                "\"fsAccessV1\":true,\"shellSnapshotV2\":true}}}}\n";
        eq_int(send(pair[1], hello, strlen(hello), 0), (ssize_t)strlen(hello));
        eq_int(farhand_step(f, NULL), 0);
        eq_int(farhand_step(f, NULL), 0);
        eq_int(farhand_get_state(f), FARHAND_READY);
        char sink[4096];
        ok(recv(pair[1], sink, sizeof(sink), MSG_DONTWAIT) > 0);
        return f;
}

static inline void played_say(struct farhand *f, int server, const char *text)
{
        eq_int(send(server, text, strlen(text), 0), (ssize_t)strlen(text));
        (void)farhand_step(f, NULL);
}

/* A server that answers one request after another, for functions that make several and wait for each. */
struct played_script {
        int server;
        const char *answers[8]; /* ends with NULL; each has its line end */
        pthread_t thread;
        char sent[65536]; /* what the client has sent, as far as there is room */
};

static inline void *played_script_run(void *arg)
{
        struct played_script *s = arg;
        size_t n = 0;
        for (size_t i = 0; s->answers[i];) {
                char got[4096];
                struct pollfd waiting = { .fd = s->server, .events = POLLIN };
                ssize_t some =
                        poll(&waiting, 1, -1) == 1 ? recv(s->server, got, sizeof(got), MSG_DONTWAIT) : -1;
                if (some <= 0)
                        break;
                size_t fits = MIN((size_t)some, sizeof(s->sent) - 1 - n);
                memcpy(s->sent + n, got, fits);
                n += fits;
                if (got[some - 1] == '\n') /* the client waits for the answer before it sends more */
                        (void)!send(s->server, s->answers[i], strlen(s->answers[i]), 0), i++;
        }
        return NULL;
}

static inline void played_script_begin(struct played_script *s)
{
        eq_int(pthread_create(&s->thread, NULL, played_script_run, s), 0);
}

/* Waits until all answers are sent. */
static inline void played_script_end(struct played_script *s)
{
        eq_int(pthread_join(s->thread, NULL), 0);
}

/* Sends what a function that waits will read as soon as it has asked. */
static inline void played_queue(int server, const char *text)
{
        eq_int(send(server, text, strlen(text), 0), (ssize_t)strlen(text));
}

/* Takes all capabilities from the server of the client, as the client knows it, but processControlV1 if that is wanted. */
static inline void played_lose_capabilities(struct farhand *f, bool with_process_control)
{
        free(f->info);
        f->info = strdup(with_process_control
                                 ? "{\"environmentInfo\":{\"capabilities\":{\"processControlV1\":true}}}"
                                 : "{}");
        ok(f->info);
        f->has_process_control = with_process_control;
}

static inline const char *played_sent(struct farhand *f, int server)
{
        static char text[65536];
        (void)farhand_step(f, NULL);
        ssize_t n = recv(server, text, sizeof(text) - 1, MSG_DONTWAIT);
        text[n > 0 ? n : 0] = '\0';
        return text;
}

/* Cuts the connection, and gives the client a new one at once, without its own attempts to connect. Reads what the client sends in
 * the new handshake. */
static inline void played_cut(struct farhand *f, int *server)
{
        int pair[2];
        fd_close(*server);
        (void)farhand_step(f, NULL);
        eq_int(farhand_get_state(f), FARHAND_RECOVERING);
        transport_close(&f->transport, 0);
        ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
        f->retry_at_ms = 0;
        f->is_initializing = false;
        transport_open_child(&f->transport, pair[0], 0);
        *server = pair[1];
        (void)farhand_step(f, NULL);
        (void)played_sent(f, *server);
}

static inline void played_resume(struct farhand *f, int server)
{
        played_say(f, server,
                   "{\"id\":0,\"result\":{\"sessionId\":\"s\",\"environmentInfo\":{\"capabilities\":{"
                   "\"processControlV1\":true}}}}\n");
        (void)farhand_step(f, NULL);
        eq_int(farhand_get_state(f), FARHAND_READY);
}
