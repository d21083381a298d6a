/* client_rig: for unit tests of the client. The test itself plays the server, on a connection whose messages are lines. */
#pragma once

#include "client/client_internal.h"

#include "base/fd.h"
#include "unit.h"

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
                "\"processControlV1\":true,\"fsControlV1\":true,\"fileWriteStreaming\":true}}}}\n";
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
