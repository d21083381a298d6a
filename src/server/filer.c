/* filer: the inside of a process that does file requests under a profile. See filers.h.
 *
 * A copy of the spawner, so it has our code and a heap, and nothing has to be executed in there. It enters the view, gives
 * everything up, takes its law, and answers requests until the socket closes. It is the first process of its namespaces,
 * and the only one; where there are none, Landlock takes their place. */
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "fsop/fsop.h"
#include "fsop/journal.h"
#include "fsop/lock.h"
#include "proc/spawn.h"
#include "proc/title.h"
#include "sandbox/enter.h"
#include "server/filer_law.h"
#include "server/filers.h"
#include "server/job.h"
#include "server/methods.h"
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOCKET 3
#define SAID_KEPT_BYTES (64 * 1024)

const struct method *const filer_methods[] = {
        &m_fs_write_file,     &m_fs_get_metadata, &m_fs_canonicalize,     &m_fs_read_link,
        &m_fs_read_directory, &m_fs_walk,         &m_fs_create_directory, &m_fs_remove,
        &m_fs_copy,           &m_fs_rename,       &m_fs_symlink,          &m_fs_set_metadata,
};
const size_t filer_method_count = ARRAY_LEN(filer_methods);

const struct filer_params filer_open_params = { sizeof(struct filer_open),
                                                1,
                                                { offsetof(struct filer_open, path) } };

/* ---- talking */

static NORETURN void leave(void)
{
        _exit(0);
}

static void send_all(struct slice bytes)
{
        while (bytes.n > 0) {
                ssize_t n = send(SOCKET, bytes.p, bytes.n, MSG_NOSIGNAL);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        leave();
                bytes = slice_from(bytes.p + n, bytes.n - (size_t)n);
        }
}

/* What is said goes out together, when an answer is waited for: each message would wake the server. */
static struct buf said = BUF_INIT(SIZE_MAX / 4);

static void flush(void)
{
        send_all(buf_slice(&said));
        if (said.n > SAID_KEPT_BYTES)
                buf_release(&said);
        buf_truncate(&said, 0);
}

static void receive_all(void *to, size_t n)
{
        flush();
        for (size_t done = 0; done < n;) {
                ssize_t got = recv(SOCKET, (char *)to + done, n - done, 0);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got <= 0)
                        leave(); /* the server has gone, or needs us no more */
                done += (size_t)got;
        }
}

static void say(const struct filer_answer *answer, struct slice bytes, struct slice data)
{
        must(buf_append(&said, slice_from(answer, sizeof(*answer))) == 0 && buf_append(&said, bytes) == 0 &&
             buf_append(&said, data) == 0);
}

static void say_opened(int fd)
{
        flush();
        struct filer_answer answer = { .kind = FILER_OPENED };
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
        struct iovec part = { &answer, sizeof(answer) };
        struct msghdr m = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof(fd));
        ssize_t n;
        do
                n = sendmsg(SOCKET, &m, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        if (n != sizeof(answer)) /* so few bytes go over whole, or not at all */
                leave();
}

static void say_error(const struct err *err, const char *data)
{
        struct slice text = slice_from_str(err->text);
        struct slice more = slice_from_str(data ? data : "");
        say(&(struct filer_answer){ .kind = FILER_ERROR,
                                    .code = err->code,
                                    .os_errno = err->os_errno,
                                    .bytes = (uint32_t)text.n,
                                    .data_bytes = (uint32_t)more.n },
            text, more);
}

/* ---- the journal, which is the server's */

static int note(UNUSED void *arg, const char *directory, const char *name)
{
        size_t a = strlen(directory) + 1, b = strlen(name) + 1;
        int32_t slot;
        say(&(struct filer_answer){ .kind = FILER_NOTE, .bytes = (uint32_t)(a + b) },
            slice_from(directory, a), slice_from(name, b));
        receive_all(&slot, sizeof(slot));
        return slot;
}

static void strike(UNUSED void *arg, int slot)
{
        say(&(struct filer_answer){ .kind = FILER_STRIKE, .code = slot }, S(""), S(""));
}

/* ---- locks, which are the server's: all filers and its own threads write the same files */

static int lock(UNUSED void *arg, uint64_t dev, uint64_t ino, const char *name)
{
        struct filer_lock what = { .dev = dev, .ino = ino };
        int32_t number;
        (void)snprintf(what.name, sizeof(what.name), "%s", name);
        say(&(struct filer_answer){ .kind = FILER_LOCK, .bytes = sizeof(what) },
            slice_from(&what, sizeof(what)), S(""));
        receive_all(&number, sizeof(number));
        return number;
}

static void unlock(UNUSED void *arg, int number)
{
        say(&(struct filer_answer){ .kind = FILER_UNLOCK, .code = number }, S(""), S(""));
}

/* ---- requests */

struct filer {
        struct server server; /* what the methods look at: the journal */
        struct arena arena;
};

/* Offsets become pointers again. */
static void *params_open(char *bytes, size_t n, const struct filer_params *shape)
{
        must(n >= shape->size);
        for (size_t i = 0; i < shape->count; i++) {
                struct slice *s = (struct slice *)(void *)(bytes + shape->slices[i]);
                if (!s->p)
                        continue;
                size_t at = (size_t)(uintptr_t)s->p;
                must(at <= n && s->n < n - at); /* and a NUL */
                s->p = bytes + at;
        }
        return bytes;
}

static void do_open(const struct filer_open *how)
{
        struct err err = ERR_INIT;
        struct stat st;
        _close_ int fd = -1;
        if (fs_open_here(how, &fd, &st, &err) < 0)
                say_error(&err, NULL);
        else
                say_opened(fd);
}

static void do_method(struct filer *f, const struct job_class *class, void *params, uint64_t max_message)
{
        struct err err = ERR_INIT;
        struct jsonw w;
        _buf_ struct buf out = BUF_INIT(max_message);
        struct job job = {
                .class = class,
                .server = &f->server,
                .params = params,
                .arena = f->arena,
                .max_message = max_message,
        };
        jsonw_begin(&w, &out);
        int r = class->run(&job, &w, &err);
        if (r == 0 && jsonw_end(&w) < 0)
                r = err_set(&err, 0, -EMSGSIZE, CONN_ANSWER_TOO_LARGE, (size_t)max_message);
        f->arena = job.arena;
        if (r < 0)
                say_error(&err, job.error_data);
        else
                say(&(struct filer_answer){ .kind = FILER_RESULT, .bytes = (uint32_t)out.n }, buf_slice(&out),
                    S(""));
}

static void serve(struct filer *f)
{
        struct filer_request request;
        receive_all(&request, sizeof(request));
        must(request.bytes <= FILER_REQUEST_MAX);
        _free_ char *bytes = mem_alloc(request.bytes + BUF_PADDING);
        receive_all(bytes, request.bytes);
        if (request.method == FILER_OPEN) {
                do_open(params_open(bytes, request.bytes, &filer_open_params));
                return;
        }
        must(request.method < filer_method_count);
        const struct job_class *class = filer_methods[request.method]->job;
        do_method(f, class, params_open(bytes, request.bytes, class->boxed), request.max_message);
        arena_release(&f->arena);
        f->arena = ARENA_INIT;
}

/* ---- the process */

static NORETURN void fail(const struct enter_failure *why)
{
        say(&(struct filer_answer){ .kind = FILER_FAILED,
                                    .code = (int32_t)why->step,
                                    .os_errno = why->os_errno,
                                    .op = why->op },
            S(""), S(""));
        flush();
        leave();
}

/* Nothing of the spawner's but the socket. */
static void close_rest(int socket)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        int high = fcntl(socket, F_DUPFD_CLOEXEC, 16);
        if (null < 0 || high < 0)
                leave();
        for (int fd = 0; fd < SOCKET; fd++)
                if (dup2(null, fd) < 0)
                        leave();
        if (dup3(high, SOCKET, O_CLOEXEC) < 0 || close_range(SOCKET + 1, ~0U, 0) < 0)
                leave();
}

static void law_take(struct filer *f, bool is_alone)
{
        static struct law law;
        static struct arena arena = ARENA_INIT;
        struct err err = ERR_INIT;
        uint32_t n;
        receive_all(&n, sizeof(n));
        must(n <= FILER_LAW_MAX);
        char *bytes = arena_alloc(&arena, n + 1);
        receive_all(bytes, n);
        static const struct journal_remote remote = { .add = note, .remove = strike };
        static const struct lock_remote locks = { .take = lock, .release = unlock };
        f->server.journal = journal_new_remote(&remote);
        lock_set_remote(&locks);
        int r = filer_law_read(&arena, slice_from(bytes, n), is_alone, &law, &err);
        if (r == 0)
                r = law_enact(&law);
        if (r < 0)
                fail(&(struct enter_failure){ .step = ENTER_NONE, .os_errno = -r, .op = ENTER_NO_OP });
        say(&(struct filer_answer){ .kind = FILER_READY }, S(""), S(""));
}

static NORETURN void run(int socket, const struct image *image)
{
        static const char *const variables[] = { "PATH", "TMPDIR", "TMP", "TEMP", NULL };
        struct enter_failure why;
        int ruleset = -1;
        (void)prctl(PR_SET_NAME, "fh-filer");
        title_set("fh-filer");
        title_keep_environment(variables);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        close_rest(socket);
        /* Without namespaces, Landlock alone is the second lock. */
        bool is_alone = image->backend == BACKEND_LANDLOCK;
        if (is_alone ? enter_rules(image, -1, &ruleset, &why) < 0
                     : enter_ids(image, &why) < 0 || enter_view(image, -1, &ruleset, &why) < 0)
                fail(&why);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || enter_landlock(ruleset, &why) < 0)
                fail(&why);
        /* The ruleset, and the roots of the view, the machine's among them. */
        if (close_range(SOCKET + 1, ~0U, 0) < 0)
                leave();
        struct filer *f = mem_new(struct filer);
        f->arena = ARENA_INIT;
        if (enter_confine(image, &why) < 0)
                fail(&why);
        law_take(f, is_alone);
        for (;;)
                serve(f);
}

static void failed(int socket, int os_errno)
{
        const struct filer_answer answer = { .kind = FILER_FAILED, .code = -1, .os_errno = os_errno };
        (void)send(socket, &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
}

const struct spawn_filer filer_process = { .run = run, .failed = failed };
