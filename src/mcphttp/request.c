/* request: checks the headers that the transport gives a meaning. */
#include "mcphttp/request.h"

#include "base/authority.h"

#include <arpa/inet.h>
#include <errno.h>

static bool refuse(struct refusal_answer *ret, int status, const char *text, const char *extra)
{
        *ret = (struct refusal_answer){ status, text, extra };
        return false;
}

/* ---- host and origin ---- */

static bool is_address(struct slice host)
{
        char text[INET6_ADDRSTRLEN];
        struct in6_addr room;
        if (host.n == 0 || host.n >= sizeof(text))
                return false;
        memcpy(text, host.p, host.n);
        text[host.n] = '\0';
        return inet_pton(AF_INET, text, &room) == 1 || inet_pton(AF_INET6, text, &room) == 1;
}

static bool is_good_host(struct slice value, const struct request_rules *rules)
{
        struct authority a;
        if (value.n == 0 || authority_of(value).n != value.n || authority_parse(value, &a) || a.has_user)
                return false;
        if (is_address(a.host) || slice_eq_nocase(a.host, S("localhost")))
                return true;
        for (size_t i = 0; i < rules->host_count; i++)
                if (slice_eq_nocase(a.host, slice_from_str(rules->hosts[i])))
                        return true;
        return false;
}

/* Returns whether an origin is the host of the request, by either scheme: a proxy in front of us may speak TLS. */
static bool is_same_host(struct slice origin, struct slice host)
{
        struct slice scheme = slice_starts(origin, S("https://")) ? S("https://") : S("http://");
        return slice_starts(origin, scheme) &&
               slice_eq_nocase(slice_from(origin.p + scheme.n, origin.n - scheme.n), host);
}

bool mcp_request_is_for_us(const struct http_request *r, const struct request_rules *rules,
                           struct refusal_answer *ret_refusal)
{
        struct slice host = http_header_find(r, S("host")), origin = http_header_find(r, S("origin"));
        if (!host.p)
                return refuse(ret_refusal, 400, "the request has no Host header", NULL);
        if (!is_good_host(host, rules))
                return refuse(
                        ret_refusal, 403,
                        "the Host header names neither an address nor a host that is allowed (--allow-host)",
                        NULL);
        if (origin.p && (http_header_count(r, S("origin")) > 1 || !is_same_host(origin, host)))
                return refuse(ret_refusal, 403, "web pages are not allowed", NULL);
        if (!slice_eq(r->path, slice_from_str(rules->path)))
                return refuse(ret_refusal, 404, "there is nothing here", NULL);
        return true;
}

/* ---- media types ---- */

static bool is_excluded(struct slice params)
{
        while (params.p) {
                struct slice one = slice_trim(slice_split(&params, ';'));
                if (one.n < 3 || !slice_eq_nocase(slice_from(one.p, 2), S("q=")) || one.p[2] != '0')
                        continue;
                size_t i = 3;
                while (i < one.n && (one.p[i] == '.' || one.p[i] == '0'))
                        i++;
                return i == one.n;
        }
        return false;
}

/* Returns whether an Accept header names the media type "GROUP/NAME", or all of its group, or all. */
static bool accepts(const struct http_request *r, struct slice type, struct slice group)
{
        for (size_t i = 0; i < r->header_count; i++) {
                struct slice rest = r->headers[i].value;
                if (!slice_eq_nocase(r->headers[i].name, S("accept")))
                        continue;
                while (rest.p) {
                        struct slice params = slice_split(&rest, ',');
                        struct slice range = slice_trim(slice_split(&params, ';'));
                        if ((slice_eq_nocase(range, type) || slice_eq_nocase(range, group) ||
                             slice_eq(range, S("*/*"))) &&
                            !is_excluded(params))
                                return true;
                }
        }
        return false;
}

static bool is_json(const struct http_request *r)
{
        struct slice value = http_header_find(r, S("content-type"));
        return value.p && http_header_count(r, S("content-type")) == 1 &&
               slice_eq_nocase(slice_trim(slice_split(&value, ';')), S("application/json"));
}

/* ---- the methods ---- */

static bool find_once(const struct http_request *r, struct slice name, struct slice *ret)
{
        *ret = http_header_find(r, name);
        return http_header_count(r, name) <= 1;
}

static bool read_post(const struct http_request *r, struct refusal_answer *ret_refusal)
{
        if (!accepts(r, S("application/json"), S("application/*")) ||
            !accepts(r, S("text/event-stream"), S("text/*")))
                return refuse(ret_refusal, 406,
                              "the client must accept both application/json and text/event-stream", NULL);
        if (!is_json(r))
                return refuse(ret_refusal, 415, "the body must be application/json", NULL);
        return true;
}

static bool read_method(const struct http_request *r, struct mcp_request *ret,
                        struct refusal_answer *ret_refusal)
{
        if (slice_eq(r->method, S("POST"))) {
                ret->kind = REQUEST_POST;
                return read_post(r, ret_refusal);
        }
        if (slice_eq(r->method, S("GET"))) {
                ret->kind = REQUEST_GET;
                return accepts(r, S("text/event-stream"), S("text/*")) ||
                       refuse(ret_refusal, 406, "the client must accept text/event-stream", NULL);
        }
        ret->kind = REQUEST_DELETE;
        return slice_eq(r->method, S("DELETE")) ||
               refuse(ret_refusal, 405, "the method must be POST, GET or DELETE",
                      "allow: GET, POST, DELETE\r\n");
}

bool mcp_request_read(const struct http_request *r, const struct request_rules *rules,
                      struct mcp_request *ret, struct refusal_answer *ret_refusal)
{
        struct slice version;
        if (!read_method(r, ret, ret_refusal))
                return false;
        if (!find_once(r, S("mcp-session-id"), &ret->session) || ret->session.n > MCP_SESSION_ID_MAX)
                return refuse(ret_refusal, 400, "the Mcp-Session-Id header is not that of a session", NULL);
        if (!find_once(r, S("last-event-id"), &ret->last_event))
                return refuse(ret_refusal, 400, "there is more than one Last-Event-ID header", NULL);
        if (!find_once(r, S("mcp-protocol-version"), &version) ||
            (version.p && ret->session.p && !rules->knows_version(version)))
                return refuse(ret_refusal, 400,
                              "the MCP-Protocol-Version header names no version that is spoken here", NULL);
        if (!ret->session.p && ret->kind != REQUEST_POST)
                return refuse(ret_refusal, 400, "the request has no Mcp-Session-Id header", NULL);
        return true;
}

bool event_id_read(struct slice text, uint64_t *ret_stream, uint64_t *ret_number)
{
        struct slice stream = slice_split(&text, '-');
        return text.p && slice_to_u64(stream, UINT64_MAX - 1, ret_stream) == 0 &&
               slice_to_u64(text, UINT64_MAX - 1, ret_number) == 0;
}
