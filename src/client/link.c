/* link: a connection whose bytes are left to the caller: a client that goes no further than opening its transport. */
#include "client/client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "client/error.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>

struct farhand_link {
        struct farhand *client; /* only its transport is used: farhand_step is never called with it */
};

/* Waits until the transport can take its next step, and takes it. A far machine that needs the program is sent it. */
static int go_on(struct farhand *f, uint64_t *end, struct err *err)
{
        struct transport *t = &f->transport;
        uint64_t now = clock_mono_ms();
        if (now >= *end)
                return err_set(err, 0, -ETIMEDOUT, "the server did not answer in time");
        uint32_t wanted = transport_events(t);
        struct pollfd asked = {
                .fd = transport_poll_fd(t),
                .events = (short)((wanted & EPOLLIN ? POLLIN : 0) | (wanted & EPOLLOUT ? POLLOUT : 0)),
        };
        int n = poll(&asked, 1, (int)MIN(*end - now, (uint64_t)INT32_MAX));
        if (n < 0 && errno != EINTR && errno != EAGAIN)
                return err_set(err, 0, -errno, "poll: %s", errno_text(errno));
        int r = n > 0 ? transport_on_ready(t, err) : 0;
        if (r < 0 || !t->needs_program)
                return r;
        *end = clock_mono_ms() + SSH_PUT_TIMEOUT_MS;
        return client_send_program(f, err);
}

static int open_transport(struct farhand *f, struct err *err)
{
        unsigned timeout_ms = f->options.connect_timeout_ms;
        bool is_ssh = f->has_endpoint && f->endpoint.kind == ENDPOINT_SSH;
        uint64_t end = clock_mono_ms() + (timeout_ms ? timeout_ms : is_ssh ? RECOVER_MS : CONNECT_TIMEOUT_MS);
        f->is_link = true;
        int r = client_open(f, err);
        while (r == 0 && f->transport.state != TRANSPORT_OPEN)
                r = go_on(f, &end, err);
        return r;
}

struct farhand_link *farhand_link_open(const struct farhand_options *options, struct farhand_error *ret_error)
{
        struct err err = ERR_INIT;
        struct farhand *f = farhand_new(options, ret_error);
        if (!f)
                return NULL;
        if (open_transport(f, &err) < 0) {
                error_from_err(ret_error, &err);
                farhand_free(f);
                return NULL;
        }
        struct farhand_link *link = mem_new(struct farhand_link);
        link->client = f;
        return link;
}

int farhand_link_fd(const struct farhand_link *link)
{
        return link->client->transport.fd;
}

bool farhand_link_is_lines(const struct farhand_link *link)
{
        return link->client->transport.is_lines;
}

size_t farhand_link_early(const struct farhand_link *link, const char **ret)
{
        const struct transport *t = &link->client->transport;
        *ret = t->in.p + t->in_at;
        return t->in.n - t->in_at;
}

void farhand_link_free(struct farhand_link *link)
{
        if (!link)
                return;
        farhand_free(link->client);
        free(link);
}
