/* filer_talk: see filer_talk.h. What a filer says is checked: it works on files of anybody's making. */
#include "server/filer_talk.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/utf8.h"
#include "fsop/journal.h"
#include "fsop/lock.h"
#include "proc/spawn.h"
#include "sandbox/enter.h"
#include "sandbox/prepare.h"
#include "server/job.h"
#include "server/server.h"
#include "wire/json.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#define NOTES_MAX 4 /* temporary files of one request at a time; one is what they have */
#define LOCKS_MAX 4 /* a name's and a file's is what they have */
#define NOTE_BYTES_MAX (PATH_MAX + 256)
#define ERROR_DATA_MAX 4096
#define ERRNO_MAX 4095 /* the system has no larger ones */

/* A temporary file of the filer's, named in our journal. */
struct note {
        int slot; /* -1: none */
        char directory[PATH_MAX];
        char name[JOURNAL_TEMP_BYTES];
};

struct talk {
        struct filer_line *line;
        const struct filer_question *q;
        struct note notes[NOTES_MAX];
        struct name_lock *locks[LOCKS_MAX];
        struct err *err;
};

/* ---- the line */

void filer_line_close(struct filer_line *l)
{
        /* It ends when the socket closes, but not while a call hangs. */
        if (l->pidfd >= 0 && l->is_broken)
                (void)sys_pidfd_signal(l->pidfd, SIGKILL);
        l->socket = fd_close(l->socket);
        l->pidfd = fd_close(l->pidfd);
}

bool filer_line_is_alive(const struct filer_line *l)
{
        struct pollfd p = { .fd = l->socket, .events = POLLIN | POLLRDHUP };
        return l->socket >= 0 && poll(&p, 1, 0) == 0;
}

/* It died, or took too long. */
static int broken(struct filer_line *l, int e, struct err *err)
{
        l->is_broken = true;
        bool is_late = e == EAGAIN || e == EWOULDBLOCK;
        return err_set(err, RPC_INTERNAL, -EIO, "fs sandbox helper failed: %s",
                       is_late ? "it took too long" : "it died");
}

static int nonsense(struct filer_line *l, const char *what, struct err *err)
{
        l->is_broken = true;
        return err_set(err, RPC_INTERNAL, -EBADMSG,
                       "failed to encode or decode fs sandbox helper message: %s", what);
}

static int send_all(struct filer_line *l, struct slice bytes, struct err *err)
{
        while (bytes.n > 0) {
                ssize_t n = send(l->socket, bytes.p, bytes.n, MSG_NOSIGNAL);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return broken(l, errno, err);
                bytes = slice_from(bytes.p + n, bytes.n - (size_t)n);
        }
        return 0;
}

static int receive_all(struct filer_line *l, void *to, size_t n, struct err *err)
{
        for (size_t done = 0; done < n;) {
                ssize_t got = recv(l->socket, (char *)to + done, n - done, 0);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got <= 0)
                        return broken(l, got < 0 ? errno : 0, err);
                done += (size_t)got;
        }
        return 0;
}

/* An answer's head; a descriptor may come with it, or who says it (the first time). */
static int receive_head(struct filer_line *l, struct filer_answer *ret, int *ret_fd, pid_t *ret_pid,
                        struct err *err)
{
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
        struct iovec part = { ret, sizeof(*ret) };
        struct msghdr m = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        ssize_t n;
        do
                n = recvmsg(l->socket, &m, MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n <= 0)
                return broken(l, n < 0 ? errno : 0, err);
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
                if (c->cmsg_level != SOL_SOCKET)
                        continue;
                if (c->cmsg_type == SCM_CREDENTIALS && ret_pid)
                        *ret_pid = ((const struct ucred *)(const void *)CMSG_DATA(c))->pid;
                for (size_t i = 0;
                     c->cmsg_type == SCM_RIGHTS && CMSG_LEN((i + 1) * sizeof(int)) <= c->cmsg_len; i++) {
                        int fd;
                        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
                        if (ret_fd && *ret_fd < 0)
                                *ret_fd = fd;
                        else
                                fd_close(fd);
                }
        }
        return receive_all(l, (char *)ret + n, sizeof(*ret) - (size_t)n, err);
}

/* ---- the beginning */

static int explain(const struct filer_answer *a, int image, struct err *err)
{
        const char *step = a->code < 0 ? "namespaces" : enter_step_name((uint32_t)a->code);
        prepare_explain(image, step, a->os_errno, a->op, err);
        return err_wrap(err, "failed to prepare fs sandbox");
}

static int hello(struct filer_line *l, int image, struct slice law, struct err *err)
{
        const int yes = 1, no = 0;
        const struct timeval limit = { .tv_sec = LIMIT_FILER_MS / 1000 };
        uint32_t n = (uint32_t)law.n;
        struct filer_answer a;
        pid_t pid = 0;
        (void)setsockopt(l->socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        (void)setsockopt(l->socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        (void)setsockopt(l->socket, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
        /* What went wrong with a filer that takes no law is in what it has said. */
        struct err ignored = ERR_INIT;
        if (send_all(l, slice_from(&n, sizeof(n)), &ignored) == 0)
                (void)send_all(l, law, &ignored);
        int r = receive_head(l, &a, NULL, &pid, err);
        if (r < 0)
                return r;
        if (a.kind == FILER_FAILED && a.os_errno > 0)
                return explain(&a, image, err);
        if (a.kind != FILER_READY || pid <= 0)
                return nonsense(l, "no greeting", err);
        l->is_broken = false;
        l->pidfd = sys_pidfd_open(pid);
        if (!filer_line_is_alive(l)) /* or the number may be another's by now */
                l->pidfd = fd_close(l->pidfd);
        (void)setsockopt(l->socket, SOL_SOCKET, SO_PASSCRED, &no, sizeof(no));
        return 0;
}

int filer_line_open(struct filer_line *l, int spawner, int image, struct slice law, struct err *err)
{
        int ends[2];
        if (spawner < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return err_set(err, RPC_INTERNAL, -EIO, "fs sandbox helper failed: %s",
                               spawner < 0 ? "there is no spawner" : errno_text(errno));
        l->socket = ends[0];
        int r = spawn_start_filer(spawner, ends[1], image);
        fd_close(ends[1]);
        if (r < 0)
                return err_set(err, RPC_INTERNAL, r, "fs sandbox helper failed: %s", errno_text(r));
        return hello(l, image, law, err);
}

/* ---- notes */

static int take_note(struct talk *t, const char *text, size_t n)
{
        struct journal *journal = t->q->job->server->journal;
        size_t directory = strnlen(text, n) + 1;
        if (!journal || directory >= n || text[n - 1] || directory > PATH_MAX ||
            n - directory > JOURNAL_TEMP_BYTES || !journal_is_temp_name(text + directory))
                return -EAGAIN;
        for (int i = 0; i < NOTES_MAX; i++) {
                struct note *note = &t->notes[i];
                if (note->slot >= 0)
                        continue;
                note->slot = journal_add(journal, text, text + directory);
                memcpy(note->directory, text, directory);
                memcpy(note->name, text + directory, n - directory);
                return note->slot < 0 ? note->slot : i;
        }
        return -EAGAIN;
}

static int on_note(struct talk *t, const struct filer_answer *a)
{
        char text[NOTE_BYTES_MAX];
        if (a->bytes < 2 || a->bytes > sizeof(text))
                return nonsense(t->line, "a note", t->err);
        int r = receive_all(t->line, text, a->bytes, t->err);
        if (r < 0)
                return r;
        int32_t slot = take_note(t, text, a->bytes);
        return send_all(t->line, slice_from(&slot, sizeof(slot)), t->err);
}

static int on_strike(struct talk *t, const struct filer_answer *a)
{
        if (a->code < 0 || a->code >= NOTES_MAX || t->notes[a->code].slot < 0)
                return nonsense(t->line, "a note", t->err);
        journal_remove(t->q->job->server->journal, t->notes[a->code].slot);
        t->notes[a->code].slot = -1;
        return 0;
}

/* It died in the middle: its temporary files are ours to remove. */
static void clean_notes(struct talk *t)
{
        for (int i = 0; i < NOTES_MAX; i++)
                if (t->notes[i].slot >= 0)
                        journal_clean(t->q->job->server->journal, t->notes[i].slot, t->notes[i].directory,
                                      t->notes[i].name);
}

/* ---- locks */

static int take_lock(struct talk *t, const struct filer_lock *what)
{
        for (int i = 0; i < LOCKS_MAX; i++) {
                if (t->locks[i])
                        continue;
                int r = lock_take(what->dev, what->ino, what->name, LIMIT_FILER_MS, &t->locks[i]);
                return r < 0 ? r : i;
        }
        return -EAGAIN;
}

static int on_lock(struct talk *t, const struct filer_answer *a)
{
        struct filer_lock what;
        if (a->bytes != sizeof(what))
                return nonsense(t->line, "a lock", t->err);
        int r = receive_all(t->line, &what, sizeof(what), t->err);
        if (r < 0)
                return r;
        what.name[sizeof(what.name) - 1] = '\0';
        int32_t number = take_lock(t, &what);
        return send_all(t->line, slice_from(&number, sizeof(number)), t->err);
}

static int on_unlock(struct talk *t, const struct filer_answer *a)
{
        if (a->code < 0 || a->code >= LOCKS_MAX || !t->locks[a->code])
                return nonsense(t->line, "a lock", t->err);
        t->locks[a->code] = lock_release(t->locks[a->code]);
        return 0;
}

/* ---- a question */

static int on_result(struct talk *t, const struct filer_answer *a)
{
        const struct filer_question *q = t->q;
        if (!q->w || a->bytes > q->job->max_message)
                return nonsense(t->line, "a result", t->err);
        _arena_ struct arena arena = ARENA_INIT;
        char *text = arena_zalloc(&arena, a->bytes + BUF_PADDING);
        struct json_doc doc;
        struct json_error why;
        int r = receive_all(t->line, text, a->bytes, t->err);
        if (r < 0)
                return r;
        if (json_parse(&arena, slice_from(text, a->bytes), &doc, &why) < 0)
                return nonsense(t->line, why.text, t->err);
        jsonw_raw(q->w, slice_from(text, a->bytes));
        return 0;
}

/* Members of an object, as they will stand in the message. */
static bool are_members(struct job *job, const char *text)
{
        struct slice object = slice_from_str(arena_printf(&job->arena, "{%s}", text));
        char *padded = arena_zalloc(&job->arena, object.n + BUF_PADDING);
        struct json_doc doc;
        struct json_error why;
        memcpy(padded, object.p, object.n);
        return json_parse(&job->arena, slice_from(padded, object.n), &doc, &why) == 0;
}

static int on_error(struct talk *t, const struct filer_answer *a)
{
        struct job *job = t->q->job;
        if (a->code >= 0 || a->code < -ERRNO_MAX || a->bytes >= ERR_TEXT_BYTES ||
            a->data_bytes > ERROR_DATA_MAX)
                return nonsense(t->line, "an error", t->err);
        char *text = arena_zalloc(&job->arena, a->bytes + a->data_bytes + 2);
        int r = receive_all(t->line, text, a->bytes, t->err);
        char *data = text + a->bytes + 1;
        if (r == 0)
                r = receive_all(t->line, data, a->data_bytes, t->err);
        if (r < 0)
                return r;
        if (text[0] == 0 || !utf8_is_valid(slice_from_str(text)) || !are_members(job, data))
                return nonsense(t->line, "an error", t->err);
        if (a->data_bytes > 0)
                job->error_data = data;
        t->err->os_errno = a->os_errno;
        return err_set(t->err, 0, a->code, "%s", text);
}

/* 1: there is more to come. */
static int hear(struct talk *t)
{
        struct filer_answer a;
        _close_ int fd = -1;
        int r = receive_head(t->line, &a, &fd, NULL, t->err);
        if (r < 0)
                return r;
        switch (a.kind) {
        case FILER_NOTE:
                r = on_note(t, &a);
                return r < 0 ? r : 1;
        case FILER_STRIKE:
                r = on_strike(t, &a);
                return r < 0 ? r : 1;
        case FILER_LOCK:
                r = on_lock(t, &a);
                return r < 0 ? r : 1;
        case FILER_UNLOCK:
                r = on_unlock(t, &a);
                return r < 0 ? r : 1;
        case FILER_RESULT:
                return on_result(t, &a);
        case FILER_ERROR:
                return on_error(t, &a);
        case FILER_OPENED:
                if (!t->q->ret_fd || fd < 0)
                        return nonsense(t->line, "a file", t->err);
                *t->q->ret_fd = TAKE_FD(fd);
                return 0;
        default:
                return nonsense(t->line, "an unknown one", t->err);
        }
}

/* Room for the head, then the params as they are, their slices as offsets into what follows them. */
static char *pack(const struct filer_question *q, size_t *ret_n)
{
        size_t n = q->shape->size;
        for (size_t i = 0; i < q->shape->count; i++)
                n += ((const struct slice *)(const void *)((const char *)q->params + q->shape->slices[i]))
                             ->n +
                     1;
        char *message = mem_alloc(sizeof(struct filer_request) + n),
             *bytes = message + sizeof(struct filer_request);
        memcpy(bytes, q->params, q->shape->size);
        memset(bytes, 0, sizeof(void *)); /* FS_PARAMS_HEAD */
        size_t at = q->shape->size;
        for (size_t i = 0; i < q->shape->count; i++) {
                struct slice *s = (struct slice *)(void *)(bytes + q->shape->slices[i]);
                if (s->n > 0)
                        memcpy(bytes + at, s->p, s->n);
                bytes[at + s->n] = '\0';
                if (s->p)
                        s->p = (const char *)(uintptr_t)at;
                at += s->n + 1;
        }
        *ret_n = n;
        return message;
}

int filer_line_ask(struct filer_line *l, const struct filer_question *q, struct err *err)
{
        struct talk t = { .line = l, .q = q, .err = err };
        for (int i = 0; i < NOTES_MAX; i++)
                t.notes[i].slot = -1;
        size_t n;
        _free_ char *message = pack(q, &n);
        if (n > FILER_REQUEST_MAX)
                return err_set(err, 0, -EMSGSIZE, "the request is too large for a sandbox");
        struct filer_request request = { .method = q->method,
                                         .bytes = (uint32_t)n,
                                         .max_message = q->job->max_message };
        memcpy(message, &request, sizeof(request));
        int r = send_all(l, slice_from(message, sizeof(request) + n), err);
        for (r = r == 0 ? 1 : r; r == 1;)
                r = hear(&t);
        clean_notes(&t);
        for (int i = 0; i < LOCKS_MAX; i++)
                t.locks[i] = lock_release(t.locks[i]);
        return r;
}
