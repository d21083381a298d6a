/* transfer: runs HTTP requests with libcurl and turns their responses into messages for the server. */
#include "net/transfer.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "net/link.h"
#include "net/redirect.h"

#include <errno.h>

#define BUFFER_BYTES (64L * KIB) /* what libcurl reads at once */
#define DRAIN_BYTES (64 * KIB)   /* a longer body of a redirect is not read, and its connection is closed */
#define IDLE_CONNECTIONS 32L     /* how many connections are kept for later requests */
#define CONNECT_MS 60000L        /* one attempt to reach a server */
#define URL_SHOWN_BYTES 1024     /* how much of a URL an error text shows */
/* The most header lines of one response, including interim responses (1xx) and trailers: libcurl keeps them all in memory. */
#define LINES_MAX (4 * LIMIT_HTTP_HEADERS)
#define LINES_MAX_BYTES (2 * LIMIT_HTTP_HEAD_BYTES)

struct transfer {
        struct transfers *owner;
        struct list link; /* transfers::all */
        uint32_t id;
        struct arena arena; /* holds the request and its hops */
        struct hop hop;     /* the request that runs now */
        struct hop next;    /* where a redirect leads */
        struct buf body;
        uint64_t body_bytes; /* the size of the body that the server announced */
        bool follows;
        unsigned redirects;
        uint64_t deadline_ms; /* in the time of clock_mono_ms; UINT64_MAX: none */

        CURL *easy;
        bool is_running;          /* `easy` is in the multi handle */
        struct curl_slist *lines; /* the headers of the request, as libcurl wants them */
        uint64_t credit;
        bool is_paused;
        size_t lines_seen, lines_bytes; /* header lines of the present response so far, with trailers */
        struct buf head;                /* the header lines of the present response */
        bool is_head_too_long;
        bool has_head;       /* the head of the final response was seen */
        bool is_redirecting; /* this response is not for the client */
        size_t drained;      /* how many bytes of the body of a redirect were read */
        const char *refusal; /* why this code ends the transfer; in the arena or a literal */
        char error[CURL_ERROR_SIZE];
};

/* --- messages to the server --------------------------------------------------------------------------------------- */

static struct transfer *transfer_free(struct transfer *t)
{
        if (t->is_running)
                (void)curl_multi_remove_handle(t->owner->multi, t->easy);
        curl_easy_cleanup(t->easy);
        curl_slist_free_all(t->lines);
        buf_release(&t->body);
        buf_release(&t->head);
        arena_release(&t->arena);
        list_remove(&t->link);
        t->owner->count--;
        free(t);
        return NULL;
}

/* Sends END and frees the transfer. `text` NULL: the transfer succeeded. */
static void finish(struct transfer *t, const char *text)
{
        struct netmsg_end end = { .outcome = text ? NETMSG_FAILED : NETMSG_DONE,
                                  .text = slice_from_str(text ? text : "") };
        must(netmsg_end_write(&t->owner->link->out, t->id, &end) == 0);
        transfer_free(t);
}

static const char *failure_text(struct transfer *t, CURLcode code)
{
        if (t->refusal)
                return t->refusal;
        const char *why = t->error[0] ? t->error : curl_easy_strerror(code);
        if (t->has_head)
                return arena_printf(&t->arena, "error decoding response body: %s", why);
        struct slice url = weburl_text(&t->arena, &t->hop.url);
        return arena_printf(&t->arena, "error sending request for url (%.*s): %s",
                            (int)MIN(url.n, (size_t)URL_SHOWN_BYTES), url.p, why);
}

#define HEADERS_TOO_LONG "the headers of the response are too long"

/* --- reading the response ----------------------------------------------------------------------------------------- */

/* Appends the next line of a folded value in place, in `text`: copying the value for each of a thousand lines would take a thousand
 * times the memory of the head. */
static void add_to_value(char *text, struct http_header *last, struct slice more)
{
        char *end = text + (last->value.p - text) + last->value.n; /* always before `more` */
        *end = ' ';
        memmove(end + 1, more.p, more.n);
        last->value.n += 1 + more.n;
}

/* Adds a line "Name: value" to the head. A line that begins with a blank continues the value of the line before (RFC 9112, 5.2). A
 * line without a colon is left out. */
static void add_header_line(char *text, struct netmsg_head *head, struct slice line)
{
        if (line.n > 0 && (line.p[0] == ' ' || line.p[0] == '\t')) {
                if (head->header_count)
                        add_to_value(text, &head->headers[head->header_count - 1], slice_trim(line));
                return;
        }
        struct slice value = line, name = slice_split(&value, ':');
        if (value.p && name.n > 0)
                head->headers[head->header_count++] =
                        (struct http_header){ .name = slice_trim(name), .value = slice_trim(value) };
}

/* Parses the header lines so far. Returns 0, or -EMSGSIZE when there are too many or they are too long. */
static int collect_headers(struct transfer *t, struct netmsg_head *head)
{
        size_t count = 0;
        char *text = arena_dup(&t->arena, buf_slice(&t->head));
        struct slice rest = slice_from(text, t->head.n);
        for (size_t i = 0; i < rest.n; i++)
                count += rest.p[i] == '\n';
        if (t->is_head_too_long || count > LIMIT_HTTP_HEADERS)
                return -EMSGSIZE;
        head->headers = arena_alloc(&t->arena, MAX(count, (size_t)1) * sizeof(*head->headers));
        while (rest.p && head->header_count < count)
                add_header_line(text, head, slice_split(&rest, '\n'));
        buf_release(&t->head);
        return 0;
}

/* Handles the complete head of a response. Returns false when the transfer must end with t->refusal. */
static bool on_head(struct transfer *t, long status)
{
        struct netmsg_head head = { .status = (uint16_t)status };
        if (status > 999 || collect_headers(t, &head) < 0) {
                t->refusal = HEADERS_TOO_LONG;
                return false;
        }
        if (t->follows) {
                enum redirect r = redirect_next(&t->arena, &t->hop, &head, &t->next, &t->refusal);
                if (r == REDIRECT_REFUSED)
                        return false;
                if (r == REDIRECT_FOLLOW && ++t->redirects > LIMIT_HTTP_REDIRECTS) {
                        t->refusal = "too many redirects";
                        return false;
                }
                t->is_redirecting = r == REDIRECT_FOLLOW;
                if (t->is_redirecting)
                        return true;
        }
        t->has_head = true;
        must(netmsg_head_write(&t->owner->link->out, t->id, &head) == 0);
        return true;
}

/* Called by libcurl for each line of a head. A status line begins a head, an empty line ends it. Trailers come the same way, after
 * the body. The header API of libcurl is not used, because it leaves out headers without a value. */
static size_t on_header_line(char *bytes, size_t size, size_t n, void *arg)
{
        struct transfer *t = arg;
        n *= size;
        t->lines_bytes += n;
        if (++t->lines_seen > LINES_MAX || t->lines_bytes > LINES_MAX_BYTES) {
                t->refusal = HEADERS_TOO_LONG;
                return 0;
        }
        if (t->has_head || t->is_redirecting)
                return n;
        struct slice line = slice_from(bytes, n);
        while (line.n > 0 && (line.p[line.n - 1] == '\n' || line.p[line.n - 1] == '\r'))
                line.n--;
        if (slice_starts(line, S("HTTP/"))) {
                buf_release(&t->head);
                t->is_head_too_long = false;
                return n;
        }
        if (line.n > 0) {
                t->is_head_too_long |= slice_has_nul(line) || buf_append(&t->head, line) < 0 ||
                                       buf_append_char(&t->head, '\n') < 0;
                return n;
        }
        long status = 0;
        (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
        if (status < 200)
                return n;
        return on_head(t, status) ? n : 0;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
        struct transfer *t = arg;
        n *= size;
        if (t->is_redirecting) {
                t->drained += n;
                return t->drained <= DRAIN_BYTES ? n : 0;
        }
        if (n == 0 || !t->has_head)
                return n;
        if (n > t->credit) {
                t->is_paused = true;
                return CURL_WRITEFUNC_PAUSE;
        }
        t->credit -= n;
        must(netmsg_bytes_write(&t->owner->link->out, NETMSG_DATA, t->id, slice_from(bytes, n)) == 0);
        return n;
}

/* --- making the request ------------------------------------------------------------------------------------------- */

static void add_line(struct transfer *t, const char *line)
{
        struct curl_slist *lines = curl_slist_append(t->lines, line);
        must(lines);
        t->lines = lines;
}

/* Gives libcurl the headers in its syntax: "name: value"; "name;" for a header without a value; "name:" removes a header that
 * libcurl would add. */
static void set_headers(struct transfer *t)
{
        curl_slist_free_all(TAKE(t->lines));
        for (size_t i = 0; i < t->hop.header_count; i++) {
                const struct http_header *h = &t->hop.headers[i];
                /* libcurl sets the length of the body. */
                if (slice_eq(h->name, S("content-length")) || slice_eq(h->name, S("transfer-encoding")))
                        continue;
                if (slice_trim(h->value).n == 0)
                        add_line(t, arena_printf(&t->arena, "%.*s;", SLICE(h->name)));
                else
                        add_line(t, arena_printf(&t->arena, "%.*s: %.*s", SLICE(h->name), SLICE(h->value)));
        }
        if (!http_has_header(t->hop.headers, t->hop.header_count, S("content-type")))
                add_line(t, "content-type:");
        if (!http_has_header(t->hop.headers, t->hop.header_count, S("expect")))
                add_line(t, "expect:");
        (void)curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->lines);
        /* The headers of the request are not sent to a proxy. */
        (void)curl_easy_setopt(t->easy, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
}

static void set_method(struct transfer *t)
{
        const char *method = arena_dup(&t->arena, t->hop.method);
        if (t->hop.has_body && t->body.n > 0) {
                (void)curl_easy_setopt(t->easy, CURLOPT_POST, 1L);
                (void)curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->body.n);
                (void)curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, t->body.p);
        } else {
                (void)curl_easy_setopt(t->easy, CURLOPT_HTTPGET, 1L);
        }
        if (slice_eq(t->hop.method, S("HEAD")))
                (void)curl_easy_setopt(t->easy, CURLOPT_NOBODY, 1L);
        (void)curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, method);
}

static void set_options(struct transfer *t)
{
        CURL *easy = t->easy;
        (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, t);
        (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t->error);
        (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT,
                               1L); /* a cancelled transfer does not wait for its name to be resolved */
        (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
        (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
        (void)curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
        (void)curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
        (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
        (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header_line);
        (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, t);
        (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
        (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
        if (t->owner->ca_file)
                (void)curl_easy_setopt(easy, CURLOPT_CAINFO, t->owner->ca_file);
        if (t->owner->ca_dir)
                (void)curl_easy_setopt(easy, CURLOPT_CAPATH, t->owner->ca_dir);
}

/* Sends the request of t->hop. May free t. */
static void start_hop(struct transfer *t)
{
        long left_ms = 0; /* no limit */
        if (t->deadline_ms != UINT64_MAX) {
                uint64_t now_ms = clock_mono_ms();
                if (now_ms >= t->deadline_ms) {
                        t->error[0] = 0;
                        finish(t, failure_text(t, CURLE_OPERATION_TIMEDOUT));
                        return;
                }
                left_ms = (long)MIN(t->deadline_ms - now_ms, (uint64_t)INT32_MAX);
        }
        t->has_head = t->is_redirecting = t->is_paused = false;
        t->is_head_too_long = false;
        t->lines_seen = t->lines_bytes = 0;
        t->drained = 0;
        t->error[0] = 0;
        curl_easy_reset(t->easy);
        set_options(t);
        set_method(t);
        set_headers(t);
        (void)curl_easy_setopt(t->easy, CURLOPT_URL, weburl_text(&t->arena, &t->hop.url).p);
        (void)curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS, left_ms);
        if (curl_multi_add_handle(t->owner->multi, t->easy) != CURLM_OK) {
                finish(t, "out of memory");
                return;
        }
        t->is_running = true;
}

static void on_done(struct transfer *t, CURLcode code)
{
        (void)curl_multi_remove_handle(t->owner->multi, t->easy);
        t->is_running = false;
        if (t->is_redirecting && !t->refusal) {
                t->hop = t->next; /* also when the body of the redirect broke off or was too long */
                start_hop(t);
        } else if (code == CURLE_OK && t->has_head) {
                finish(t, NULL);
        } else {
                finish(t, failure_text(t, code));
        }
}

/* --- messages from the server ------------------------------------------------------------------------------------- */

static struct transfer *find(struct transfers *ts, uint32_t id)
{
        struct transfer *t;
        list_each (t, &ts->all, link) {
                if (t->id == id)
                        return t;
        }
        return NULL;
}

static void copy_hop(struct transfer *t, const struct netmsg_request *m)
{
        struct hop *hop = &t->hop;
        hop->method = slice_from(arena_dup(&t->arena, m->method), m->method.n);
        hop->has_body = true;
        hop->headers = arena_alloc(&t->arena, (m->header_count + 1) * sizeof(*hop->headers));
        hop->header_count = m->header_count;
        for (size_t i = 0; i < m->header_count; i++) {
                struct slice name = m->headers[i].name, value = m->headers[i].value;
                hop->headers[i].name = slice_from(arena_dup(&t->arena, name), name.n);
                hop->headers[i].value = slice_from(arena_dup(&t->arena, value), value.n);
        }
        hop->private_names = slice_from(arena_dup(&t->arena, m->private_names), m->private_names.n);
}

static int take_request(struct transfers *ts, const struct netmsg *msg)
{
        _arena_ struct arena a = ARENA_INIT;
        struct netmsg_request m;
        if (ts->count >= LIMIT_HTTP_REQUESTS * 2 || find(ts, msg->id) ||
            netmsg_request_decode(&a, msg->payload, &m) < 0 || m.body_bytes > LIMIT_HTTP_BODIES_BYTES)
                return -EPROTO;
        struct transfer *t = mem_new(struct transfer);
        t->owner = ts;
        t->id = msg->id;
        list_append(&ts->all, &t->link);
        ts->count++;
        buf_init(&t->body, (size_t)m.body_bytes);
        buf_init(&t->head, LIMIT_HTTP_HEAD_BYTES);
        t->body_bytes = m.body_bytes;
        t->follows = m.follows;
        t->credit = m.credit;
        t->deadline_ms = UINT64_MAX;
        if (m.timeout_ms != NETMSG_NO_TIMEOUT && ckd_add(&t->deadline_ms, clock_mono_ms(), m.timeout_ms))
                t->deadline_ms = UINT64_MAX;
        t->easy = curl_easy_init();
        must(t->easy);
        copy_hop(t, &m);
        if (slice_has_nul(m.url) || weburl_parse(&t->arena, m.url, NULL, &t->hop.url, NULL) != WEBURL_OK)
                return -EPROTO;
        if (m.body_bytes == 0)
                start_hop(t);
        return 0;
}

static int take_body(struct transfer *t, struct slice bytes)
{
        if (t->body.n == t->body_bytes || buf_append(&t->body, bytes) < 0)
                return -EPROTO; /* the body is longer than announced */
        if (t->body.n == t->body_bytes)
                start_hop(t);
        return 0;
}

static int take_credit(struct transfer *t, struct slice payload)
{
        uint32_t bytes;
        if (netmsg_credit_decode(payload, &bytes) < 0 || t->credit + bytes > LIMIT_HTTP_WINDOW_BYTES)
                return -EPROTO;
        t->credit += bytes;
        if (t->is_paused) {
                t->is_paused = false;
                (void)curl_easy_pause(t->easy, CURLPAUSE_CONT); /* on_body may pause it again at once */
        }
        return 0;
}

int transfers_take(struct transfers *ts, const struct netmsg *m)
{
        if (m->type == NETMSG_REQUEST)
                return take_request(ts, m);
        if (m->type == NETMSG_PING)
                return netmsg_pong_write(&ts->link->out);
        struct transfer *t = find(ts, m->id);
        switch (m->type) {
        case NETMSG_BODY:
                return t ? take_body(t, m->payload) : 0;
        case NETMSG_CREDIT:
                return t ? take_credit(t, m->payload) : 0;
        case NETMSG_CANCEL:
                if (t)
                        transfer_free(t);
                return 0;
        default:
                return -EPROTO;
        }
}

/* --- running and ending transfers --------------------------------------------------------------------------------- */

void transfers_perform(struct transfers *ts)
{
        int running, left;
        (void)curl_multi_perform(ts->multi, &running);
        CURLMsg *msg;
        while ((msg = curl_multi_info_read(ts->multi, &left))) {
                if (msg->msg != CURLMSG_DONE)
                        continue;
                CURLcode code = msg->data.result; /* copied: the message is freed with its handle */
                struct transfer *t = NULL;
                (void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &t);
                must(t);
                on_done(t, code);
        }
}

int transfers_init(struct transfers *ts, struct link *link)
{
        *ts = (struct transfers){ .link = link };
        list_init(&ts->all);
        ts->multi = curl_multi_init();
        if (!ts->multi)
                return -ENOMEM;
        /* Each request has a connection of its own: a paused stream would hold up others on the same connection. */
        (void)curl_multi_setopt(ts->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
        (void)curl_multi_setopt(ts->multi, CURLMOPT_MAXCONNECTS, IDLE_CONNECTIONS);
        ts->ca_file = getenv("SSL_CERT_FILE");
        ts->ca_dir = getenv("SSL_CERT_DIR");
        return 0;
}

void transfers_release(struct transfers *ts)
{
        struct transfer *t;
        while ((t = list_first(&ts->all, struct transfer, link)))
                transfer_free(t);
        curl_multi_cleanup(ts->multi);
}
