/* fs_helper_talk: sends requests to an fs helper and checks its answers. The fs helper is not trusted: it works on files
 * that anybody may have made. */
#include "confine/fs_helper_talk.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/utf8.h"
#include "confine/prepare.h"
#include "files/request.h"
#include "fsop/journal.h"
#include "fsop/lock.h"
#include "proc/spawn.h"
#include "sandbox/enter.h"
#include "sandbox/remedy.h"
#include "wire/json.h"
#include "wire/rpc.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#define NOTES_MAX 4 /* temporary files of one request at a time; requests need one */
#define LOCKS_MAX 4 /* locks of one request at a time; requests need two */
#define NOTE_BYTES_MAX (PATH_MAX + 256)
#define ERRNO_MAX 4095 /* the kernel has no larger errno */

/* A temporary file of the fs helper that is named in our journal. */
struct note {
        int slot; /* -1: none */
        char directory[PATH_MAX];
        char name[JOURNAL_TEMP_BYTES];
};

struct talk {
        struct fs_helper_line *line;
        const struct fs_helper_question *q;
        struct note notes[NOTES_MAX];
        struct name_lock *locks[LOCKS_MAX];
        struct err *err;
};

/* ---- the line to an fs helper */

void fs_helper_line_close(struct fs_helper_line *l)
{
        /* The fs helper ends when its socket closes, but not while a system call hangs: then it is killed. */
        if (l->pidfd >= 0 && l->is_broken)
                (void)sys_pidfd_signal(l->pidfd, SIGKILL);
        l->socket = fd_close(l->socket);
        l->pidfd = fd_close(l->pidfd);
}

bool fs_helper_line_is_alive(const struct fs_helper_line *l)
{
        struct pollfd p = { .fd = l->socket, .events = POLLIN | POLLRDHUP };
        return l->socket >= 0 && poll(&p, 1, 0) == 0;
}

/* Gives the line up, because the fs helper died or took too long (`e`: EAGAIN). Returns -EIO with err filled. */
static int give_up(struct fs_helper_line *l, int e, struct err *err)
{
        l->is_broken = true;
        bool is_late = e == EAGAIN || e == EWOULDBLOCK;
        return err_set(err, RPC_INTERNAL, -EIO, "fs sandbox helper failed: %s",
                       is_late ? "it took too long" : "it died");
}

static int refuse_nonsense(struct fs_helper_line *l, const char *what, struct err *err)
{
        l->is_broken = true;
        return err_set(err, RPC_INTERNAL, -EBADMSG,
                       "failed to encode or decode fs sandbox helper message: %s", what);
}

/* Says in err that the kernel did not pass a descriptor on, to the fs helper or from it. */
static void err_set_refused(struct err *err)
{
        err->step = "descriptors";
        err->os_errno = ETOOMANYREFS;
        err->remedy = remedy_for(err->step, err->os_errno);
}

static int send_all(struct fs_helper_line *l, struct slice bytes, struct err *err)
{
        unsigned tries = 0;
        while (bytes.n > 0) {
                ssize_t n = send(l->socket, bytes.p, bytes.n, MSG_NOSIGNAL);
                if (n < 0 && fd_again(errno, &tries))
                        continue;
                if (n <= 0)
                        return give_up(l, errno, err);
                bytes = slice_from(bytes.p + n, bytes.n - (size_t)n);
        }
        return 0;
}

static int receive_all(struct fs_helper_line *l, void *to, size_t n, struct err *err)
{
        unsigned tries = 0;
        for (size_t done = 0; done < n;) {
                ssize_t got = recv(l->socket, (char *)to + done, n - done, 0);
                if (got < 0 && fd_again(errno, &tries))
                        continue;
                if (got <= 0)
                        return give_up(l, got < 0 ? errno : 0, err);
                done += (size_t)got;
        }
        return 0;
}

/* Receives the head of an answer, and the descriptor or, the first time, the pid of the sender that comes with it. */
static int receive_head(struct fs_helper_line *l, struct fs_helper_answer *ret, int *ret_fd, pid_t *ret_pid,
                        struct err *err)
{
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
        struct iovec part = { ret, sizeof(*ret) };
        struct msghdr m = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        unsigned tries = 0;
        ssize_t n;
        do
                n = recvmsg(l->socket, &m, MSG_CMSG_CLOEXEC);
        while (n < 0 && fd_again(errno, &tries));
        if (n <= 0)
                return give_up(l, n < 0 ? errno : 0, err);
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

/* ---- starting an fs helper */

static int explain(const struct fs_helper_answer *a, int image, struct err *err)
{
        const char *step = a->code < 0 ? "namespaces" : enter_step_name((uint32_t)a->code);
        prepare_explain(image, step, a->os_errno, a->op, err);
        return err_wrap(err, "failed to prepare fs sandbox");
}

static int begin_talk(struct fs_helper_line *l, int image, struct slice reach, struct err *err)
{
        const int yes = 1, no = 0;
        const struct timeval limit = { .tv_sec = LIMIT_FS_HELPER_MS / 1000 };
        uint32_t n = (uint32_t)reach.n;
        struct fs_helper_answer a;
        pid_t pid = 0;
        (void)setsockopt(l->socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        (void)setsockopt(l->socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        (void)setsockopt(l->socket, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
        /* When the reach cannot be sent, the answer of the fs helper says why. After a shutdown it does not wait for the rest. */
        struct err ignored = ERR_INIT;
        int r = send_all(l, slice_from(&n, sizeof(n)), &ignored);
        if (r == 0)
                r = send_all(l, reach, &ignored);
        if (r < 0)
                (void)shutdown(l->socket, SHUT_WR);
        r = receive_head(l, &a, NULL, &pid, err);
        if (r < 0)
                return r;
        if (a.kind == FS_HELPER_FAILED && a.os_errno > 0)
                return explain(&a, image, err);
        if (a.kind != FS_HELPER_READY || pid <= 0)
                return refuse_nonsense(l, "no greeting", err);
        l->is_broken = false;
        l->pidfd = sys_pidfd_open(pid);
        if (!fs_helper_line_is_alive(l)) /* if the fs helper has ended, another process may have its pid */
                l->pidfd = fd_close(l->pidfd);
        (void)setsockopt(l->socket, SOL_SOCKET, SO_PASSCRED, &no, sizeof(no));
        return 0;
}

int fs_helper_line_open(struct fs_helper_line *l, int spawner, pid_t spawner_pid, int image,
                        const struct bwrap *bwrap, struct slice reach, struct err *err)
{
        if (spawner < 0)
                return err_set(err, RPC_INTERNAL, -EIO, "fs sandbox helper failed: there is no spawner");
        int r = spawn_start_fs_helper(spawner, spawner_pid, image, bwrap, &l->socket);
        if (r == -ETOOMANYREFS)
                err_set_refused(err);
        if (r < 0)
                return err_set(err, RPC_INTERNAL, r, "fs sandbox helper failed: %s", errno_text(r));
        return begin_talk(l, image, reach, err);
}

/* ---- temporary files in the journal */

static int take_note(struct talk *t, const char *text, size_t n)
{
        struct journal *journal = t->q->request->journal;
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

static int on_note(struct talk *t, const struct fs_helper_answer *a)
{
        char text[NOTE_BYTES_MAX];
        if (a->bytes < 2 || a->bytes > sizeof(text))
                return refuse_nonsense(t->line, "a note", t->err);
        int r = receive_all(t->line, text, a->bytes, t->err);
        if (r < 0)
                return r;
        int32_t slot = take_note(t, text, a->bytes);
        return send_all(t->line, slice_from(&slot, sizeof(slot)), t->err);
}

static int on_strike(struct talk *t, const struct fs_helper_answer *a)
{
        if (a->code < 0 || a->code >= NOTES_MAX || t->notes[a->code].slot < 0)
                return refuse_nonsense(t->line, "a note", t->err);
        journal_remove(t->q->request->journal, t->notes[a->code].slot);
        t->notes[a->code].slot = -1;
        return 0;
}

/* Removes the temporary files of an fs helper that died during a request. */
static void clean_notes(struct talk *t)
{
        for (int i = 0; i < NOTES_MAX; i++)
                if (t->notes[i].slot >= 0)
                        journal_clean(t->q->request->journal, t->notes[i].slot, t->notes[i].directory,
                                      t->notes[i].name);
}

/* ---- locks */

static int take_lock(struct talk *t, const struct fs_helper_lock *what)
{
        for (int i = 0; i < LOCKS_MAX; i++) {
                if (t->locks[i])
                        continue;
                int r = lock_take(what->dev, what->ino, what->name, LIMIT_FS_HELPER_MS, &t->locks[i]);
                return r < 0 ? r : i;
        }
        return -EAGAIN;
}

static int on_lock(struct talk *t, const struct fs_helper_answer *a)
{
        struct fs_helper_lock what;
        if (a->bytes != sizeof(what))
                return refuse_nonsense(t->line, "a lock", t->err);
        int r = receive_all(t->line, &what, sizeof(what), t->err);
        if (r < 0)
                return r;
        what.name[sizeof(what.name) - 1] = '\0';
        int32_t number = take_lock(t, &what);
        return send_all(t->line, slice_from(&number, sizeof(number)), t->err);
}

static int on_unlock(struct talk *t, const struct fs_helper_answer *a)
{
        if (a->code < 0 || a->code >= LOCKS_MAX || !t->locks[a->code])
                return refuse_nonsense(t->line, "a lock", t->err);
        t->locks[a->code] = lock_release(t->locks[a->code]);
        return 0;
}

/* ---- asking, and handling the messages of the fs helper */

static int on_result(struct talk *t, const struct fs_helper_answer *a)
{
        const struct fs_helper_question *q = t->q;
        if (!q->w || a->bytes > q->request->max_message)
                return refuse_nonsense(t->line, "a result", t->err);
        _arena_ struct arena arena = ARENA_INIT;
        char *text = arena_zalloc(&arena, a->bytes + BUF_PADDING);
        struct json_doc doc;
        struct json_error why;
        int r = receive_all(t->line, text, a->bytes, t->err);
        if (r < 0)
                return r;
        if (json_parse(&arena, slice_from(text, a->bytes), &doc, &why) < 0)
                return refuse_nonsense(t->line, why.text, t->err);
        jsonw_raw(q->w, slice_from(text, a->bytes));
        return 0;
}

/* Checks that the text is a list of members of a JSON object, as it will be put into the message. */
static bool are_members(struct arena *a, const char *text)
{
        struct slice object = slice_from_str(arena_printf(a, "{%s}", text));
        char *padded = arena_zalloc(a, object.n + BUF_PADDING);
        struct json_doc doc;
        struct json_error why;
        memcpy(padded, object.p, object.n);
        return json_parse(a, slice_from(padded, object.n), &doc, &why) == 0;
}

static int on_error(struct talk *t, const struct fs_helper_answer *answer)
{
        struct arena *a = t->q->request->arena;
        if (answer->code >= 0 || answer->code < -ERRNO_MAX || answer->bytes >= ERR_TEXT_BYTES ||
            answer->data_bytes > FS_HELPER_ERROR_DATA_MAX)
                return refuse_nonsense(t->line, "an error", t->err);
        char *text = arena_zalloc(a, answer->bytes + answer->data_bytes + 2);
        int r = receive_all(t->line, text, answer->bytes, t->err);
        char *data = text + answer->bytes + 1;
        if (r == 0)
                r = receive_all(t->line, data, answer->data_bytes, t->err);
        if (r < 0)
                return r;
        if (text[0] == 0 || !utf8_is_valid(slice_from_str(text)) || !are_members(a, data))
                return refuse_nonsense(t->line, "an error", t->err);
        if (answer->data_bytes > 0)
                t->q->request->error_data = data;
        t->err->os_errno = answer->os_errno;
        if (answer->os_errno == ETOOMANYREFS)
                err_set_refused(t->err);
        return err_set(t->err, 0, answer->code, "%s", text);
}

/* Copies a descriptor from the fs helper, which waits meanwhile, because the kernel did not pass the descriptor on. */
static int on_lent(struct talk *t, const struct fs_helper_answer *a)
{
        if (!t->q->ret_fd || a->code < 0)
                return refuse_nonsense(t->line, "a file", t->err);
        _close_ int fd = sys_pidfd_getfd(t->line->pidfd, a->code);
        int32_t said = fd < 0 ? fd : 0;
        int r = send_all(t->line, slice_from(&said, sizeof(said)), t->err);
        if (r < 0 || fd < 0)
                return r < 0 ? r : 1; /* on failure the fs helper tries again, or answers with an error */
        *t->q->ret_fd = TAKE_FD(fd);
        return 0;
}

/* Handles one message of the fs helper. Returns 0 after the last message, 1 when more follow, or -errno with err filled. */
static int hear(struct talk *t)
{
        struct fs_helper_answer a;
        _close_ int fd = -1;
        int r = receive_head(t->line, &a, &fd, NULL, t->err);
        if (r < 0)
                return r;
        switch (a.kind) {
        case FS_HELPER_NOTE:
                r = on_note(t, &a);
                break;
        case FS_HELPER_STRIKE:
                r = on_strike(t, &a);
                break;
        case FS_HELPER_LOCK:
                r = on_lock(t, &a);
                break;
        case FS_HELPER_UNLOCK:
                r = on_unlock(t, &a);
                break;
        case FS_HELPER_RESULT:
                return on_result(t, &a);
        case FS_HELPER_ERROR:
                return on_error(t, &a);
        case FS_HELPER_OPENED:
                if (!t->q->ret_fd || fd < 0)
                        return refuse_nonsense(t->line, "a file", t->err);
                *t->q->ret_fd = TAKE_FD(fd);
                return 0;
        case FS_HELPER_LENT:
                return on_lent(t, &a);
        default:
                return refuse_nonsense(t->line, "an unknown one", t->err);
        }
        return r < 0 ? r : 1;
}

static struct slice text_at(const char *params, size_t at)
{
        struct slice text;
        memcpy(&text, params + at, sizeof(text));
        return text;
}

/* Packs a request: room for the head, the params, and the texts of their slices, which become offsets. */
static char *pack(const struct method *m, const void *params, size_t *ret_n)
{
        size_t n = m->params_size;
        for (size_t i = 0; i < m->text_count; i++)
                n += text_at(params, m->texts_at[i]).n + 1;
        char *message = mem_alloc(sizeof(struct fs_helper_request) + n),
             *bytes = message + sizeof(struct fs_helper_request);
        memcpy(bytes, params, m->params_size);
        if (m->has_sandbox)
                memset(bytes + m->sandbox_at, 0, sizeof(void *));
        size_t at = m->params_size;
        for (size_t i = 0; i < m->text_count; i++) {
                struct slice text = text_at(bytes, m->texts_at[i]);
                if (text.n > 0)
                        memcpy(bytes + at, text.p, text.n);
                bytes[at + text.n] = '\0';
                if (text.p)
                        text.p = (const char *)(uintptr_t)at;
                memcpy(bytes + m->texts_at[i], &text, sizeof(text));
                at += text.n + 1;
        }
        *ret_n = n;
        return message;
}

int fs_helper_line_ask(struct fs_helper_line *l, const struct fs_helper_question *q, struct err *err)
{
        struct talk t = { .line = l, .q = q, .err = err };
        for (int i = 0; i < NOTES_MAX; i++)
                t.notes[i].slot = -1;
        size_t n;
        const struct method *m = q->open ? &fs_helper_open_method : q->request->method;
        _free_ char *message = pack(m, q->open ? (const void *)q->open : q->request->params, &n);
        if (n > FS_HELPER_REQUEST_MAX)
                return err_set(err, 0, -EMSGSIZE, "the request is too large for a sandbox");
        struct fs_helper_request request = { .params_bytes = (uint32_t)n,
                                             .max_message = q->request->max_message };
        (void)snprintf(request.method, sizeof(request.method), "%s", m->name);
        memcpy(message, &request, sizeof(request));
        int r = send_all(l, slice_from(message, sizeof(request) + n), err);
        for (r = r == 0 ? 1 : r; r == 1;)
                r = hear(&t);
        clean_notes(&t);
        for (int i = 0; i < LOCKS_MAX; i++)
                t.locks[i] = lock_release(t.locks[i]);
        return r;
}
