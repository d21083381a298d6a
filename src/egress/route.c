/* route: takes a request from its target to a connection. */
#include "egress/route.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <netinet/in.h>

static void finish(struct route *r, enum route_result result)
{
        r->done(r, result);
}

static void decide(struct route *r, enum net_action action, enum net_source source, struct slice reason)
{
        r->action = action;
        r->source = source;
        r->reason = reason;
}

static void report(const struct route *r, enum net_action action, enum net_source source, struct slice reason,
                   bool is_guard)
{
        struct decision d = {
                .action = action,
                .source = source,
                .is_guard = is_guard,
                .is_override = r->is_override && action == NET_ALLOW,
                .target = &r->target,
                .reason = reason,
                .client = slice_from_str(r->client),
        };
        if (!r->is_reported)
                network_decided(r->network, &d);
}

static struct slice word(enum net_reason reason)
{
        return slice_from_str(net_reason_word(reason));
}

static void refuse(struct route *r, enum net_action action, enum net_source source, struct slice reason,
                   bool is_guard)
{
        decide(r, action, source, reason);
        report(r, action, source, reason, is_guard);
        finish(r, ROUTE_REFUSED);
}

/* --- the connection ----------------------------------------------------------------------------------------------- */

static void fail(struct route *r, int why)
{
        r->why = why;
        finish(r, ROUTE_FAILED);
}

/* The kernel says to whom the socket is connected: that must be somebody who was checked. */
static bool is_right_peer(struct route *r)
{
        socklen_t size = sizeof(r->peer);
        return getpeername(r->fd, (struct sockaddr *)&r->peer, &size) == 0 &&
               net_address_is_allowed(&r->network->policy, &r->verdict, &r->target, &r->peer);
}

static void on_dialled(void *arg, int fd, int why)
{
        struct route *r = arg;
        r->dial = NULL;
        r->fd = fd;
        if (fd < 0) {
                fail(r, why);
        } else if (!r->is_upstream && !is_right_peer(r)) {
                r->fd = fd_close(r->fd);
                fail(r, -EACCES);
        } else {
                finish(r, ROUTE_REACHED);
        }
}

static void dial_checked(struct route *r, const struct sockaddr_storage *addresses, size_t count)
{
        /* The dial may end at once, and its owner with it: what it returns then is NULL, and r->dial is NULL already. */
        struct dial *d = dial_start(&r->network->egress->loop, addresses, count, on_dialled, r);
        if (d)
                r->dial = d;
}

static void on_upstream_found(void *arg, const struct sockaddr_storage *addresses, size_t count)
{
        struct route *r = arg;
        r->lookup = NULL;
        if (count == 0)
                fail(r, -EHOSTUNREACH);
        else
                dial_checked(r, addresses, count);
}

/* The administrator names the upstream proxy, so it may be anywhere. */
static void dial_upstream(struct route *r, const struct upstream *u)
{
        struct sockaddr_storage address;
        r->is_upstream = true;
        if (!u->is_usable)
                fail(r, -EPROTONOSUPPORT);
        else if (resolver_literal(slice_eq(u->host, S("localhost")) ? S("127.0.0.1") : u->host, u->port,
                                  &address))
                dial_checked(r, &address, 1);
        else
                r->lookup = resolver_lookup(r->network->egress->resolver, r->network->looker, u->host,
                                            u->port, on_upstream_found, r);
}

static void refuse_address(struct route *r, bool is_found)
{
        enum net_reason reason =
                !is_found && r->network->policy.is_strict ? NET_DNS_FAILURE : NET_NOT_ALLOWED_LOCAL;
        r->is_override = false;
        refuse(r, NET_DENY, NET_BASELINE, word(reason), false);
}

/* All addresses of a name must be allowed: a name that also leads elsewhere is not the one that was meant. */
static void check_addresses(struct route *r, const struct sockaddr_storage *addresses, size_t count)
{
        const struct net_policy *p = &r->network->policy;
        bool is_allowed = count > 0;
        for (size_t i = 0; i < count && is_allowed; i++)
                is_allowed = net_address_is_allowed(p, &r->verdict, &r->target, &addresses[i]);
        if (!is_allowed) {
                refuse_address(r, count > 0);
                return;
        }
        report(r, r->action, r->source, r->reason, false);
        struct upstream u = upstream_for(p, &r->target);
        if (u.is_set)
                dial_upstream(r, &u);
        else
                dial_checked(r, addresses, count);
}

static void on_found(void *arg, const struct sockaddr_storage *addresses, size_t count)
{
        struct route *r = arg;
        r->lookup = NULL;
        check_addresses(r, addresses, count);
}

static void resolve(struct route *r)
{
        struct sockaddr_storage found[2];
        const struct net_target *t = &r->target;
        if (r->peer.ss_family && net_address_is_allowed(&r->network->policy, &r->verdict, t, &r->peer)) {
                r->is_reused = true;
                report(r, r->action, r->source, r->reason, false);
                finish(r, ROUTE_REACHED);
        } else if (resolver_literal(t->host, t->port, &found[0])) {
                check_addresses(r, found, 1);
        } else if (slice_eq(t->host, S("localhost"))) {
                must(resolver_literal(S("127.0.0.1"), t->port, &found[0]));
                must(resolver_literal(S("::1"), t->port, &found[1]));
                check_addresses(r, found, 2);
        } else {
                r->lookup = resolver_lookup(r->network->egress->resolver, r->network->looker, t->host,
                                            t->port, on_found, r);
        }
}

void route_redial(struct route *r)
{
        r->is_reported = true;
        r->is_reused = false;
        r->peer.ss_family = 0;
        resolve(r);
}

/* --- the decision ------------------------------------------------------------------------------------------------- */

static void take_answer(struct route *r, const struct answer *a)
{
        free(r->reason_text);
        r->reason_text = slice_dup(a->reason.n > 0 ? a->reason : word(NET_POLICY_DENIED));
        if (a->action != NET_ALLOW) {
                refuse(r, a->action, NET_DECIDER, slice_from_str(r->reason_text), false);
                return;
        }
        /* The policy may have changed while the question was open. */
        struct net_verdict v = net_judge(&r->network->policy, &r->target);
        if (v.action == NET_DENY) {
                refuse(r, NET_DENY, v.source, word(v.reason), v.is_guard);
                return;
        }
        r->verdict = v;
        r->is_override = true;
        decide(r, NET_ALLOW, NET_DECIDER, word(NET_NOT_ALLOWED));
        if (net_judge_mode(&r->network->policy, &r->target, &v)) {
                report(r, NET_ALLOW, NET_DECIDER, r->reason, false);
                refuse(r, NET_DENY, v.source, word(v.reason), true);
                return;
        }
        r->verdict.action = NET_ALLOW;
        resolve(r);
}

static void on_answer(struct waiter *w, const struct answer *a)
{
        take_answer(container_of(w, struct route, waiter), a);
}

static void ask(struct route *r)
{
        struct answer a;
        if (questions_recall(r->network, &r->target, &a)) {
                take_answer(r, &a);
                return;
        }
        r->waiter.fn = on_answer;
        if (questions_ask(r->network, &r->target, &r->waiter) < 0)
                refuse(r, NET_DENY, NET_BASELINE, word(NET_NOT_ALLOWED), false);
}

void route_start(struct route *r, struct network *n, const struct net_target *target)
{
        r->network = n;
        r->fd = -1;
        r->target = *target;
        r->host = slice_dup(target->host);
        r->method = slice_dup(target->method);
        r->target.host = slice_from_str(r->host);
        r->target.method = slice_from_str(r->method);
        r->started_ms = clock_mono_ms();
        r->time_ms = (uint64_t)clock_unix_ms();
        r->verdict = net_judge(&n->policy, &r->target);
        decide(r, r->verdict.action, r->verdict.source, word(r->verdict.reason));
        if (r->verdict.action == NET_ASK) {
                ask(r);
        } else if (r->verdict.action == NET_DENY) {
                if (r->verdict.follows_allow)
                        report(r, NET_ALLOW, NET_BASELINE, word(NET_REASON_ALLOW), false);
                refuse(r, NET_DENY, r->source, r->reason, r->verdict.is_guard);
        } else {
                resolve(r);
        }
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static void address_text(const struct route *r, char ret[NET_ADDRESS_TEXT_BYTES])
{
        struct net_address a;
        ret[0] = 0;
        if (r->peer.ss_family && net_address_of(&r->peer, &a))
                net_address_text(&a, ret);
}

void route_release(struct route *r)
{
        if (!r->network)
                return;
        question_leave(r->network, &r->waiter);
        r->lookup = lookup_cancel(r->lookup);
        r->dial = dial_free(r->dial);
        r->fd = fd_close(r->fd);
        char address[NET_ADDRESS_TEXT_BYTES];
        address_text(r, address);
        const struct net_policy *p = &r->network->policy;
        size_t rule = r->verdict.rule;
        struct ending e = {
                .action = r->action,
                .target = &r->target,
                .address = slice_from_str(address),
                .rule = rule < p->rule_count ? p->rules[rule].host : S(""),
                .reason = r->reason,
                .bytes_up = r->bytes_up,
                .bytes_down = r->bytes_down,
                .time_ms = r->time_ms,
                .took_ms = (uint32_t)MIN(clock_mono_ms() - r->started_ms, (uint64_t)UINT32_MAX),
        };
        network_ended(r->network, &e);
        free(r->host);
        free(r->method);
        free(r->reason_text);
        *r = (struct route){ .fd = -1 };
}

bool route_rejudge(struct route *r)
{
        const struct net_policy *p = &r->network->policy;
        bool is_asking = r->waiter.question != NULL;
        r->verdict = net_judge(p, &r->target);
        if (r->verdict.action == NET_ASK && (r->is_override || is_asking))
                r->verdict.action = NET_ALLOW;
        bool is_allowed =
                r->verdict.action == NET_ALLOW &&
                (!r->peer.ss_family || net_address_is_allowed(p, &r->verdict, &r->target, &r->peer));
        if (!is_allowed)
                r->reason = word(r->verdict.action == NET_DENY ? r->verdict.reason : NET_NOT_ALLOWED);
        return is_allowed;
}
