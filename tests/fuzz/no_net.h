/* no_net: an HTTP helper that sends nothing, for harnesses that drive the real server with hostile requests: everything
 * that src/server/net_helper.c offers, so that the linker does not take it. The harness decides the result of each call. */
#pragma once

#include "base/limits.h"
#include "base/mem.h"
#include "core/req.h"
#include "server/net_helper.h"

#define CALLS_MAX 10

struct net_helper {
        struct net_call *calls[CALLS_MAX];
        uint64_t bodies_bytes;
};

static struct net_helper *net_get(struct server *s)
{
        if (!s->net)
                s->net = mem_new(struct net_helper);
        return s->net;
}

struct net_helper *net_helper_free(struct net_helper *h)
{
        for (size_t i = 0; h && i < CALLS_MAX; i++)
                must(!h->calls[i]);
        must(!h || h->bodies_bytes == 0);
        free(h);
        return NULL;
}

int net_call_start(struct server *s, struct net_call *call, const struct net_call_events *events,
                   struct netmsg_request *m, UNUSED struct slice body, UNUSED struct arena *kept,
                   struct err *err)
{
        struct net_helper *h = net_get(s);
        must(m->method.n > 0 && m->url.n > 0);
        for (size_t i = 0; i < CALLS_MAX; i++) {
                if (h->calls[i])
                        continue;
                *call = (struct net_call){ .helper = h, .events = events, .credit = LIMIT_HTTP_WINDOW_BYTES };
                h->calls[i] = call;
                return 0;
        }
        return req_limit(err, "http requests of all connections", CALLS_MAX);
}

void net_call_cancel(struct net_call *call)
{
        for (size_t i = 0; call->helper && i < CALLS_MAX; i++)
                if (call->helper->calls[i] == call)
                        call->helper->calls[i] = NULL;
        call->helper = NULL;
}

void net_call_credit(struct net_call *call, size_t bytes)
{
        if (!call->helper)
                return;
        call->credit += bytes;
        must(call->credit <= LIMIT_HTTP_WINDOW_BYTES);
}

bool net_reserve(struct server *s, uint64_t bytes)
{
        struct net_helper *h = net_get(s);
        if (bytes > LIMIT_HTTP_BODIES_BYTES - h->bodies_bytes)
                return false;
        h->bodies_bytes += bytes;
        return true;
}

void net_unreserve(struct server *s, uint64_t bytes)
{
        struct net_helper *h = net_get(s);
        must(bytes <= h->bodies_bytes);
        h->bodies_bytes -= bytes;
}

static struct net_call *net_call_at(struct server *s, size_t n)
{
        return s->net && n < CALLS_MAX ? s->net->calls[n] : NULL;
}

static void net_call_head(struct net_call *call, uint16_t status, struct slice value)
{
        struct http_header headers[] = { { S("X-Name"), value }, { S("date"), S("now") } };
        struct netmsg_head head = { .status = status,
                                    .headers = headers,
                                    .header_count = ARRAY_LEN(headers) };
        if (call->has_head)
                return;
        call->has_head = true;
        call->events->head(call, &head);
}

static void net_call_data(struct net_call *call, struct slice bytes)
{
        if (!call->has_head || bytes.n == 0 || bytes.n > call->credit)
                return;
        call->credit -= bytes.n;
        call->events->data(call, bytes);
}

static void net_call_end(struct net_call *call, struct slice failure)
{
        bool has_failed = failure.n > 0 || !call->has_head;
        struct netmsg_end end = { .outcome = has_failed ? NETMSG_FAILED : NETMSG_DONE, .text = failure };
        net_call_cancel(call);
        call->events->end(call, &end);
}
