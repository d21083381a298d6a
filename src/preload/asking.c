/* asking: writes the question twice, first to count its bytes and then to send them, and looks at the answer (asking.h).
 *
 * All texts are sent as base64, which needs no look at what they are. */
#include "preload/asking.h"

#include "base/base64.h"
#include "base/limits.h"
#include "intercept/escalate_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HELD_BYTES 2048
#define RAW_BYTES 384 /* of a text, encoded at once: a multiple of three */

static const char *const ours[] = ESCALATE_VARIABLES;

struct writer {
        int shared, stream;
        int theirs; /* the broker's end of the stream; -1: the broker has it */
        bool is_counting, has_failed;
        size_t total;
        size_t held;
        char bytes[HELD_BYTES];
};

/* ---- what is written ---- */

static void close_raw(int fd)
{
        (void)syscall(SYS_close, fd);
}

/* Sends one byte and the broker's end of the stream. */
static bool give(struct writer *w)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int))];
                struct cmsghdr align;
        } control = { 0 };
        char zero = 0;
        struct iovec part = { &zero, 1 };
        struct msghdr m = { .msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes) };
        struct cmsghdr *head = CMSG_FIRSTHDR(&m);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &w->theirs, sizeof(int));
        long n;
        do
                n = syscall(SYS_sendmsg, w->shared, &m, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        close_raw(w->theirs);
        w->theirs = -1;
        return n >= 0;
}

/* The broker gets the stream when the first bytes are in it: then it has a short question at its first look. */
static void flush(struct writer *w)
{
        size_t done = 0;
        while (!w->has_failed && (done < w->held || w->theirs >= 0)) {
                int flags = MSG_NOSIGNAL | (w->theirs >= 0 ? MSG_DONTWAIT : 0);
                long n = done < w->held ? syscall(SYS_sendto, w->stream, w->bytes + done, w->held - done,
                                                  flags, NULL, 0)
                                        : 0;
                if (n > 0)
                        done += (size_t)n;
                else if (n < 0 && errno != EINTR && errno != EAGAIN)
                        w->has_failed = true;
                if (!w->has_failed && w->theirs >= 0)
                        w->has_failed = !give(w);
        }
        w->held = 0;
}

static void put(struct writer *w, const char *p, size_t n)
{
        w->total += n;
        while (!w->is_counting && n > 0) {
                size_t some = MIN(n, sizeof(w->bytes) - w->held);
                memcpy(w->bytes + w->held, p, some);
                w->held += some;
                p += some;
                n -= some;
                if (w->held == sizeof(w->bytes))
                        flush(w);
        }
}

static void put_str(struct writer *w, const char *text)
{
        put(w, text, strlen(text));
}

/* Writes a text that comes in two parts. */
static void put_base64(struct writer *w, const char *first, size_t first_n, const char *rest, size_t rest_n)
{
        char raw[RAW_BYTES], text[RAW_BYTES / 3 * 4];
        put_str(w, "\"");
        if (w->is_counting)
                w->total += base64_encoded_size(first_n + rest_n);
        while (!w->is_counting && first_n + rest_n > 0) {
                size_t a = MIN(first_n, sizeof(raw)), b = MIN(rest_n, sizeof(raw) - a);
                memcpy(raw, first, a);
                memcpy(raw + a, rest, b);
                put(w, text, base64_encode(text, raw, a + b));
                first += a;
                first_n -= a;
                rest += b;
                rest_n -= b;
        }
        put_str(w, "\"");
}

static void put_text(struct writer *w, const char *text)
{
        put_base64(w, text, strlen(text), "", 0);
}

const char *asking_value(const char *entry, const char *name)
{
        size_t n = strlen(name);
        return strncmp(entry, name, n) == 0 && entry[n] == '=' ? entry + n + 1 : NULL;
}

const char *asking_behind(const char *list, const char *library)
{
        size_t n = strlen(library);
        if (strncmp(list, library, n) != 0 || (list[n] && list[n] != ':'))
                return NULL;
        return list + n + (list[n] == ':');
}

/* Writes a variable as the program has it without this library. */
static void put_variable(struct writer *w, const struct asking *a, const char *entry, const char **comma)
{
        for (size_t i = 0; i < ARRAY_LEN(ours); i++)
                if (asking_value(entry, ours[i]))
                        return;
        const char *list = asking_value(entry, "LD_PRELOAD"),
                   *rest = list ? asking_behind(list, a->library) : NULL;
        if (rest && !*rest)
                return;
        put_str(w, *comma);
        *comma = ",";
        if (rest)
                put_base64(w, entry, (size_t)(list - entry), rest, strlen(rest));
        else
                put_text(w, entry);
}

/* The directory is not said: our broker looks itself. */
static void put_question(struct writer *w, const struct asking *a)
{
        const char *comma = "";
        put_str(w, "{\"file\":\"\",\"fileBase64\":");
        put_text(w, a->file);
        put_str(w, ",\"workdir\":\"/\",\"argv\":[],\"argvBase64\":[");
        if (!a->argv || !a->argv[0])
                put_text(w, ""); /* the kernel passes an empty argument when there is none */
        for (size_t i = 0; a->argv && a->argv[i]; i++, comma = ",") {
                put_str(w, comma);
                put_text(w, a->argv[i]);
        }
        put_str(w, "],\"env\":{},\"envBase64\":[");
        comma = "";
        for (size_t i = 0; a->env && a->env[i]; i++)
                put_variable(w, a, a->env[i], &comma);
        put_str(w, "]}");
}

/* Another thread may change the texts between the two times. Then the frame has another length than it says, and is of no use. */
static bool write_question(struct writer *w, const struct asking *a)
{
        char length[4];
        w->is_counting = true;
        put_question(w, a);
        size_t n = w->total;
        if (n > LIMIT_ESCALATE_ASKED_BYTES)
                return false;
        for (size_t i = 0; i < sizeof(length); i++)
                length[i] = (char)(n >> (8 * i) & 0xff);
        w->is_counting = false;
        put(w, length, sizeof(length));
        w->total = 0;
        put_question(w, a);
        flush(w);
        return !w->has_failed && w->total == n;
}

/* ---- the answer ---- */

/* The broker sends each answer by one call, so that one look finds all of it. */
static enum asked look(int stream)
{
        static const char run[] = ESCALATE_RUN_FRAME, escalate[] = ESCALATE_ESCALATE_FRAME;
        char text[sizeof(escalate) - 1];
        long n;
        do
                n = syscall(SYS_recvfrom, stream, text, sizeof(text), MSG_PEEK, NULL, NULL);
        while (n < 0 && errno == EINTR);
        if (n <= 0)
                return ASKED_NOBODY;
        if (n == (long)sizeof(run) - 1 && memcmp(text, run, sizeof(run) - 1) == 0)
                return ASKED_RUN;
        return n == (long)sizeof(text) && memcmp(text, escalate, sizeof(text)) == 0 ? ASKED_ESCALATE
                                                                                    : ASKED_OTHER;
}

enum asked asking_ask(const struct asking *a, int *ret_stream)
{
        int pair[2];
        if (syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return ASKED_NOBODY;
        struct writer w = { .shared = a->shared, .stream = pair[0], .theirs = pair[1] };
        enum asked r = write_question(&w, a) ? look(pair[0]) : ASKED_NOBODY;
        if (w.theirs >= 0)
                close_raw(w.theirs);
        if (r == ASKED_OTHER || r == ASKED_ESCALATE)
                *ret_stream = pair[0];
        else
                close_raw(pair[0]);
        return r;
}
