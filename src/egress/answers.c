/* answers: writes refusals, errors and the answer to CONNECT. */
#include "egress/answers.h"

#include "netrule/reason.h"
#include "wire/jsonw.h"

#include <stdio.h>
#include <time.h>

#define BODY_MAX 4096

/* The text changes once a second. */
static const char *date_now(void)
{
        static char text[64];
        static time_t written;
        time_t now = time(NULL);
        struct tm tm;
        if (now != written && gmtime_r(&now, &tm)) {
                (void)strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm);
                written = now;
        }
        return text;
}

static int write_text(struct buf *out, unsigned status, const char *phrase, const char *fields,
                      struct slice text)
{
        int r = buf_printf(out, "HTTP/1.1 %u %s\r\n%scontent-length: %zu\r\ndate: %s\r\n\r\n", status, phrase,
                           fields, text.n, date_now());
        return r ? r : buf_append(out, text);
}

static const char *phrase_of(unsigned status)
{
        switch (status) {
        case 400:
                return "Bad Request";
        case 408:
                return "Request Timeout";
        case 403:
                return "Forbidden";
        case 431:
                return "Request Header Fields Too Large";
        case 501:
                return "Not Implemented";
        default:
                return "Bad Gateway";
        }
}

static int write_refusal(struct buf *out, const struct net_answer *answer, const char *type,
                         const char *close, struct slice body)
{
        char fields[256];
        (void)snprintf(fields, sizeof(fields), "%s%s%s%s%s", type, answer->header ? "x-proxy-error: " : "",
                       answer->header ? answer->header : "", answer->header ? "\r\n" : "", close);
        return write_text(out, (unsigned)answer->status, phrase_of((unsigned)answer->status), fields, body);
}

int answers_refuse_http(struct buf *out, const struct answers_refusal *refusal)
{
        struct net_answer answer = net_answer_for(refusal->reason);
        _buf_ struct buf body = BUF_INIT(BODY_MAX);
        struct jsonw w;
        jsonw_begin(&w, &body);
        jsonw_object(&w);
        jsonw_member_str(&w, "status", "blocked");
        jsonw_member_string(&w, "host", refusal->host);
        jsonw_member_string(&w, "reason", refusal->reason);
        jsonw_member_string(&w, "decision", refusal->decision);
        jsonw_member_string(&w, "source", refusal->source);
        jsonw_member_string(&w, "protocol", refusal->protocol);
        jsonw_member_u64(&w, "port", refusal->port);
        jsonw_member_str(&w, "message", answer.text);
        jsonw_object_end(&w);
        int r = jsonw_end(&w);
        if (r < 0)
                return r;
        return write_refusal(out, &answer, "content-type: application/json\r\n", "connection: close\r\n",
                             buf_slice(&body));
}

int answers_refuse_connect(struct buf *out, const struct answers_refusal *refusal)
{
        struct net_answer answer = net_answer_for(refusal->reason);
        return write_refusal(out, &answer, "content-type: text/plain\r\n", "", slice_from_str(answer.text));
}

int answers_error(struct buf *out, unsigned status, struct slice text)
{
        return write_text(out, status, phrase_of(status),
                          text.n > 0 ? "content-type: text/plain\r\nconnection: close\r\n"
                                     : "connection: close\r\n",
                          text);
}

int answers_connected(struct buf *out)
{
        return buf_printf(out, "HTTP/1.1 200 OK\r\ndate: %s\r\n\r\n", date_now());
}
