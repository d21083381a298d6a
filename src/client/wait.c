/* wait: the public functions that wait for a result, for programs without an event loop of their own. */
#include "client/client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "client/error.h"

#include <errno.h>
#include <poll.h>

uint64_t client_wait_end(int timeout_ms)
{
        return timeout_ms < 0 ? UINT64_MAX : clock_mono_ms() + (uint64_t)timeout_ms;
}

int client_wait_until(struct farhand *f, uint64_t end, struct farhand_error *ret_error)
{
        uint64_t now = clock_mono_ms();
        int timeout = farhand_timeout_ms(f);
        if (end != UINT64_MAX) {
                uint64_t left = end > now ? end - now : 0;
                timeout =
                        timeout < 0 ? (int)MIN(left, (uint64_t)INT32_MAX) : (int)MIN((uint64_t)timeout, left);
        }
        int n = poll(&(struct pollfd){ .fd = f->epoll, .events = POLLIN }, 1, timeout);
        if (n < 0 && errno != EINTR && errno != EAGAIN && errno != ENOMEM)
                return error_set(ret_error, -errno, "poll: %s", errno_text(errno));
        int r = farhand_step(f, ret_error);
        return r < 0 ? r : clock_mono_ms() < end;
}

int client_wait_for(struct farhand *f, const bool *is_there, uint64_t end, const char *what,
                    struct farhand_error *ret_error)
{
        while (!*is_there) {
                int r = client_wait_until(f, end, ret_error);
                if (*is_there)
                        break;
                if (r < 0)
                        return r;
                if (r == 0)
                        return error_set(ret_error, -ETIMEDOUT, "%s was not answered in time", what);
        }
        return 0;
}

int farhand_wait(struct farhand *f, int timeout_ms, struct farhand_error *ret_error)
{
        int r = client_wait_until(f, client_wait_end(timeout_ms), ret_error);
        return r < 0 ? r : 0;
}

struct farhand *farhand_connect(const struct farhand_options *options, struct farhand_error *ret_error)
{
        struct farhand *f = farhand_new(options, ret_error);
        /* This loop needs no time limit, because connecting and the handshake have theirs. */
        while (f && f->state == FARHAND_CONNECTING) {
                if (client_wait_until(f, UINT64_MAX, ret_error) < 0) {
                        farhand_free(f);
                        return NULL;
                }
        }
        return f;
}

/* ---- calls ---- */

struct answer {
        bool is_there;
        char *result;
        struct farhand_error error;
};

static void on_answer(UNUSED struct farhand *f, void *arg, const char *result,
                      const struct farhand_error *error)
{
        struct answer *answer = arg;
        answer->is_there = true;
        answer->result = mem_strdup(result);
        if (error)
                answer->error = *error;
}

int farhand_call_wait(struct farhand *f, const char *method, const char *params, unsigned flags,
                      int timeout_ms, char **ret_result, struct farhand_error *ret_error)
{
        struct answer answer = { 0 };
        uint64_t end = client_wait_end(timeout_ms);
        int r = farhand_call(f, method, params, flags, on_answer, &answer, ret_error);
        if (r == 0)
                r = client_wait_for(f, &answer.is_there, end, method, ret_error);
        if (r < 0) {
                calls_forget(f, (any_function)on_answer, &answer);
                return r;
        }
        if (!answer.result)
                return error_copy(ret_error, &answer.error);
        *ret_result = answer.result;
        return 0;
}

/* ---- processes ---- */

static int result_of(const struct farhand_process *p, struct farhand_exit *ret_exit,
                     struct farhand_error *ret_error)
{
        if (p->has_failed)
                return error_copy(ret_error, &p->failure);
        if (ret_exit)
                *ret_exit = p->exit;
        return 0;
}

int farhand_process_wait(struct farhand_process *p, int timeout_ms, struct farhand_exit *ret_exit,
                         struct farhand_error *ret_error)
{
        uint64_t end = client_wait_end(timeout_ms);
        while (p->state != PROCESS_OVER) {
                int r = client_wait_until(p->client, end, ret_error);
                if (r == 0 && p->state != PROCESS_OVER)
                        return error_set(ret_error, -ETIMEDOUT, "process %s still runs", p->id);
                if (r < 0 && p->state != PROCESS_OVER)
                        return r;
        }
        return result_of(p, ret_exit, ret_error);
}

/* ---- communicate ---- */

struct dialogue {
        struct slice input;
        size_t written;
        bool is_input_done;
        struct buf streams[2];
        int failure; /* -EMSGSIZE: there was more output than the caller wants */
        struct farhand_error error;
};

static void give_input(struct farhand_process *p, struct dialogue *d)
{
        while (d->written < d->input.n) {
                int64_t n = farhand_process_write(p, d->input.p + d->written, d->input.n - d->written, NULL);
                if (n == -EPIPE)
                        break; /* the command has closed its stdin or ended */
                if (n <= 0)
                        return;
                d->written += (size_t)n;
        }
        if (d->is_input_done)
                return;
        d->is_input_done = true;
        int r = farhand_process_close_stdin(p, &d->error);
        if (r < 0 && r != -EPIPE)
                d->failure = r;
}

static void dialogue_on_started(struct farhand_process *p, void *arg, UNUSED int64_t pid)
{
        give_input(p, arg);
}

static void dialogue_on_writable(struct farhand_process *p, void *arg)
{
        give_input(p, arg);
}

static void dialogue_on_output(UNUSED struct farhand_process *p, void *arg, enum farhand_stream stream,
                               const void *bytes, size_t n)
{
        struct dialogue *d = arg;
        char *room;
        int r = buf_reserve_or_fail(&d->streams[stream == FARHAND_STDERR], n, &room);
        if (r < 0) {
                d->failure = error_set(&d->error, r == -ENOBUFS ? -EMSGSIZE : r,
                                       "the command wrote more than is wanted");
                return;
        }
        memcpy(room, bytes, n);
        buf_commit(&d->streams[stream == FARHAND_STDERR], n);
}

int farhand_communicate(struct farhand *f, const struct farhand_command *given, const void *input,
                        size_t input_bytes, size_t max_bytes, int timeout_ms, struct farhand_output *ret,
                        struct farhand_error *ret_error)
{
        struct farhand_command command = { 0 };
        static const struct farhand_process_events events = { .on_started = dialogue_on_started,
                                                              .on_writable = dialogue_on_writable,
                                                              .on_output = dialogue_on_output };
        struct dialogue d = { .input = slice_from(input, input_bytes),
                              .streams = { BUF_INIT(max_bytes), BUF_INIT(max_bytes) } };
        uint64_t end = client_wait_end(timeout_ms);
        struct farhand_error error;
        memcpy(&command, given, MIN(given->size, sizeof(command)));
        command.size = sizeof(command);
        command.stdin_open |= input_bytes > 0;
        struct farhand_process *p = farhand_start(f, &command, &events, &d, &error);
        int r = p ? 0 : error_copy(ret_error, &error);
        while (r == 0 && p->state != PROCESS_OVER) {
                int n = client_wait_until(f, end, ret_error);
                if (p->state == PROCESS_OVER)
                        break;
                if (d.failure)
                        r = error_copy(ret_error, &d.error);
                else if (n < 0)
                        r = n;
                else if (n == 0)
                        r = error_set(ret_error, -ETIMEDOUT, "the command did not end in time");
        }
        if (r < 0 && p && p->state != PROCESS_OVER && farhand_process_terminate(p) == 0)
                (void)farhand_step(f, NULL); /* sends the request to end the process */
        if (r == 0)
                r = d.failure ? error_copy(ret_error, &d.error) : result_of(p, &ret->exit, ret_error);
        if (r == 0) {
                ret->out_bytes = d.streams[0].n;
                ret->err_bytes = d.streams[1].n;
                ret->out = buf_take(&d.streams[0]);
                ret->err = buf_take(&d.streams[1]);
        }
        buf_release(&d.streams[0]);
        buf_release(&d.streams[1]);
        farhand_process_free(p);
        return r;
}
