/* task_network_told: what the client of a command is told about its connections, and what the log says: network/policyDecision.
 *
 * While nobody reads, equal decisions are kept as one with a count, and told later; beyond a bounded number of different ones the rest is
 * only counted.
 */
#include "base/log.h"
#include "base/mem.h"
#include "core/server.h"
#include "netrule/reason.h"
#include "session/task_network_internal.h"

#include <time.h>

#define TIME_BYTES 40

static struct task_network *network_of(struct gate_network *gate)
{
        return container_of(gate, struct task_network, gate);
}

static void decision_free(struct task_network *n, struct network_decision *d)
{
        list_remove(&d->link);
        n->decision_count--;
        free(d->reason);
        free(d->host);
        free(d->method);
        free(d->client);
        free(d);
}

void network_decisions_drop(struct task_network *n)
{
        struct network_decision *d;
        while ((d = list_first(&n->decisions, struct network_decision, link)))
                decision_free(n, d);
}

static void write_time(struct jsonw *w, uint64_t unix_ms)
{
        char text[TIME_BYTES] = "1970-01-01T00:00:00";
        struct tm tm;
        time_t seconds = (time_t)(unix_ms / 1000);
        if (unix_ms < (uint64_t)INT64_MAX && gmtime_r(&seconds, &tm) && tm.tm_year < 8100)
                (void)strftime(text, sizeof(text) - 8, "%Y-%m-%dT%H:%M:%S", &tm);
        size_t n = strlen(text);
        (void)snprintf(text + n, sizeof(text) - n, ".%03uZ", (unsigned)(unix_ms % 1000));
        jsonw_member_str(w, "timestamp", text);
}

static void tell(struct task_network *n, struct client *c, const struct network_decision *d)
{
        struct slice id = task_id(n->task);
        size_t hint = jsonw_string_max(id) + 6 * (strlen(d->host) + strlen(d->reason)) + 512;
        struct jsonw w;
        conn_notify_begin(c->conn, "network/policyDecision", hint, &w);
        jsonw_member_string(&w, "processId", id);
        write_time(&w, d->time_ms);
        jsonw_member_str(&w, "scope", d->is_guard ? "non_domain" : "domain");
        jsonw_member_str(&w, "decision", net_action_word((enum net_action)d->action));
        jsonw_member_str(&w, "source", net_source_word((enum net_source)d->source));
        jsonw_member_str(&w, "reason", d->reason);
        jsonw_member_str(&w, "protocol", net_protocol_word((enum net_protocol)d->protocol));
        jsonw_member_str(&w, "host", d->host);
        jsonw_member_u64(&w, "port", d->port);
        if (d->has_method)
                jsonw_member_str(&w, "method", d->method);
        jsonw_member_str(&w, "client", d->client);
        jsonw_member_bool(&w, "policyOverride", d->is_override);
        if (d->count > 1)
                jsonw_member_u64(&w, "count", d->count);
        if (n->omitted > 0)
                jsonw_member_u64(&w, "omitted", n->omitted);
        n->omitted = 0;
        conn_notify_end(c->conn, &w);
}

void network_tell_waiting(struct task_network *n)
{
        struct network_decision *d;
        struct client *c;
        while ((d = list_first(&n->decisions, struct network_decision, link)) && (c = network_reader(n))) {
                list_remove(&d->link); /* telling may end the connection */
                tell(n, c, d);
                decision_free(n, d);
        }
}

/* Are these equal but for their number, their time and the address of the command's end? */
static bool is_same(const struct network_decision *d, const struct egressmsg_decided *m)
{
        return d->action == m->action && d->source == m->source && d->protocol == m->protocol &&
               d->port == m->port && d->is_guard == m->is_guard && d->is_override == m->is_override &&
               d->has_method == m->has_method && slice_eq(slice_from_str(d->host), m->host) &&
               slice_eq(slice_from_str(d->reason), m->reason) &&
               slice_eq(slice_from_str(d->method), m->method);
}

static void keep(struct task_network *n, const struct egressmsg_decided *m)
{
        struct network_decision *d;
        list_each (d, &n->decisions, link)
                if (is_same(d, m)) {
                        d->count += m->count;
                        return;
                }
        if (n->decision_count >= LIMIT_NET_DECISIONS) {
                n->omitted += m->count;
                return;
        }
        d = mem_new(struct network_decision);
        d->count = m->count;
        d->time_ms = m->time_ms;
        d->action = m->action;
        d->source = m->source;
        d->protocol = m->protocol;
        d->is_guard = m->is_guard;
        d->is_override = m->is_override;
        d->has_method = m->has_method;
        d->port = m->port;
        d->reason = slice_dup(m->reason);
        d->host = slice_dup(m->host);
        d->method = slice_dup(m->method);
        d->client = slice_dup(m->client);
        list_append(&n->decisions, &d->link);
        n->decision_count++;
}

void network_decided(struct gate_network *gate, const struct egressmsg_decided *m)
{
        struct task_network *n = network_of(gate);
        if (m->action == NET_ALLOW)
                n->allowed += m->count;
        else
                n->denied += m->count;
        keep(n, m);
        network_tell_waiting(n);
}

void network_ended(struct gate_network *gate, const struct egressmsg_ended *m)
{
        const struct task_network *n = network_of(gate);
        log_info("network connection",
                 "session=%.13s proc=%s execution=%s protocol=%s host=%s port=%u address=%s action=%s "
                 "rule=%s reason=%s "
                 "up=%llu down=%llu duration_ms=%u",
                 n->task->session->id, log_quote(task_id(n->task)),
                 log_quote(slice_from_str(n->execution_id)),
                 net_protocol_word((enum net_protocol)m->protocol), log_quote(m->host), m->port,
                 log_quote(m->address), net_action_word((enum net_action)m->action), log_quote(m->rule),
                 log_quote(m->reason), (unsigned long long)m->bytes_up, (unsigned long long)m->bytes_down,
                 m->took_ms);
}
