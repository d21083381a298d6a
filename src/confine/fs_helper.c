/* fs_helper: the code that runs in an fs helper, a process that does file requests under a profile (fs_helpers.h).
 *
 * An fs helper is a copy of the spawner, so it has our code and a heap, and nothing has to be executed in its view. It
 * enters the view, gives up all privileges, receives its reach, and answers requests until the socket closes. It is the
 * first and only process of its namespaces. Where bwrap makes the namespaces, a second process holds them (keeper/fs_view.c);
 * without namespaces Landlock takes their place.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "confine/fs_helper_msg.h"
#include "confine/fs_helpers.h"
#include "confine/reach_pack.h"
#include "files/answer.h"
#include "files/request.h"
#include "fsop/fsop.h"
#include "fsop/journal.h"
#include "fsop/lock.h"
#include "keeper/title.h"
#include "proc/spawn.h"
#include "proto/fs.h"
#include "reach/reach.h"
#include "sandbox/enter.h"
#include "sandbox/verify.h"
#include "wire/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOCKET 3
#define SAID_KEPT_BYTES (64 * 1024)

const struct method fs_helper_open_method = { .name = "",
                                              .params_size = sizeof(struct file_open),
                                              METHOD_TEXT(file_open, path) };

/* ---- sending and receiving */

static NORETURN void leave(void)
{
        _exit(0);
}

static void send_all(struct slice bytes)
{
        unsigned tries = 0;
        while (bytes.n > 0) {
                ssize_t n = send(SOCKET, bytes.p, bytes.n, MSG_NOSIGNAL);
                if (n < 0 && fd_again(errno, &tries))
                        continue;
                if (n <= 0)
                        leave();
                bytes = slice_from(bytes.p + n, bytes.n - (size_t)n);
        }
}

/* Messages are collected and sent together when an answer is needed, because each send would wake the server. */
static struct buf unsent = BUF_INIT(SIZE_MAX / 4);

static void flush(void)
{
        send_all(buf_slice(&unsent));
        if (unsent.n > SAID_KEPT_BYTES)
                buf_release(&unsent);
        buf_truncate(&unsent, 0);
}

static void receive_all(void *to, size_t n)
{
        unsigned tries = 0;
        flush();
        for (size_t done = 0; done < n;) {
                ssize_t got = recv(SOCKET, (char *)to + done, n - done, 0);
                if (got < 0 && fd_again(errno, &tries))
                        continue;
                if (got <= 0)
                        leave(); /* the server has ended, or has closed this fs helper */
                done += (size_t)got;
        }
}

static void say(const struct fs_helper_answer *answer, struct slice bytes, struct slice data)
{
        must(buf_append(&unsent, slice_from(answer, sizeof(*answer))) == 0 &&
             buf_append(&unsent, bytes) == 0 && buf_append(&unsent, data) == 0);
}

/* Sends a descriptor to the server. Returns 0, or -ETOOMANYREFS when the kernel passes no descriptors on, because commands of this
 * user have sent too many that are not received yet. */
static int descriptor_send(int fd)
{
        struct fs_helper_answer answer = { .kind = FS_HELPER_OPENED };
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
        unsigned tries = 0;
        ssize_t n;
        do
                n = sendmsg(SOCKET, &m, MSG_NOSIGNAL);
        while (n < 0 && fd_again(errno, &tries));
        if (n < 0 && errno == ETOOMANYREFS)
                return -ETOOMANYREFS;
        if (n != sizeof(answer)) /* a message of this size is sent whole or not at all */
                leave();
        return 0;
}

/* Lets the server copy the descriptor from this process (pidfd_getfd), which the kernel allows while this process is dumpable. */
static int descriptor_lend(int fd)
{
        int32_t r;
        if (prctl(PR_SET_DUMPABLE, 1) < 0)
                return -errno;
        say(&(struct fs_helper_answer){ .kind = FS_HELPER_LENT, .code = fd }, S(""), S(""));
        receive_all(&r, sizeof(r));
        (void)prctl(PR_SET_DUMPABLE, 0);
        return r;
}

static int say_opened(int fd, struct err *err)
{
        flush();
        uint64_t begun_ms = clock_mono_ms();
        int r = descriptor_send(fd);
        if (r == -ETOOMANYREFS && descriptor_lend(fd) == 0)
                return 0;
        while (r == -ETOOMANYREFS && clock_mono_ms() - begun_ms < LIMIT_HANDOVER_MS) {
                (void)poll(NULL, 0, LIMIT_HANDOVER_RETRY_MS);
                r = descriptor_send(fd);
        }
        return r == 0 ? 0 : fsop_fail(err, r);
}

/* Sends the error. `data` is what else belongs into error.data, or NULL; behind it goes the rule of the profile that was the
 * reason, if one was. */
static void say_error(const struct err *err, const char *data)
{
        _buf_ struct buf more = BUF_INIT(FS_HELPER_ERROR_DATA_MAX);
        struct slice text = slice_from_str(err->text);
        struct jsonw w;
        jsonw_begin(&w, &more);
        if (data)
                jsonw_raw(&w, slice_from_str(data));
        fs_write_denied(&w, err->os_errno);
        if (jsonw_end(&w) < 0)
                buf_truncate(&more, 0);
        say(&(struct fs_helper_answer){ .kind = FS_HELPER_ERROR,
                                        .code = err->code,
                                        .os_errno = err->os_errno,
                                        .bytes = (uint32_t)text.n,
                                        .data_bytes = (uint32_t)more.n },
            text, buf_slice(&more));
}

/* ---- the journal of the server */

static int ask_journal_add(UNUSED void *arg, const char *directory, const char *name)
{
        size_t a = strlen(directory) + 1, b = strlen(name) + 1;
        int32_t slot;
        say(&(struct fs_helper_answer){ .kind = FS_HELPER_NOTE, .bytes = (uint32_t)(a + b) },
            slice_from(directory, a), slice_from(name, b));
        receive_all(&slot, sizeof(slot));
        return slot;
}

static void ask_journal_remove(UNUSED void *arg, int slot)
{
        say(&(struct fs_helper_answer){ .kind = FS_HELPER_STRIKE, .code = slot }, S(""), S(""));
}

/* ---- locks: the server has them, because its threads and all fs helpers write the same files */

static int lock(UNUSED void *arg, uint64_t dev, uint64_t ino, const char *name)
{
        struct fs_helper_lock what = { .dev = dev, .ino = ino };
        int32_t number;
        (void)snprintf(what.name, sizeof(what.name), "%s", name);
        say(&(struct fs_helper_answer){ .kind = FS_HELPER_LOCK, .bytes = sizeof(what) },
            slice_from(&what, sizeof(what)), S(""));
        receive_all(&number, sizeof(number));
        return number;
}

static void unlock(UNUSED void *arg, int number)
{
        say(&(struct fs_helper_answer){ .kind = FS_HELPER_UNLOCK, .code = number }, S(""), S(""));
}

/* ---- requests */

/* Turns the offsets in the params back into pointers. */
static void *params_open(char *bytes, size_t n, const struct method *m)
{
        must(n >= m->params_size);
        for (size_t i = 0; i < m->text_count; i++) {
                struct slice text;
                memcpy(&text, bytes + m->texts_at[i], sizeof(text));
                if (!text.p)
                        continue;
                size_t at = (size_t)(uintptr_t)text.p;
                must(at <= n && text.n < n - at); /* `<`: each text has a NUL behind it */
                text.p = bytes + at;
                memcpy(bytes + m->texts_at[i], &text, sizeof(text));
        }
        return bytes;
}

static void do_open(const struct file_open *how)
{
        struct err err = ERR_INIT;
        struct stat st;
        _close_ int fd = -1;
        bool reads = how->mode == FS_OPEN_READ || how->mode == FS_OPEN_LOOK;
        reach_begin(reads ? REACH_OPERATION_READ : REACH_OPERATION_WRITE);
        if (file_open(how, &fd, &st, &err) < 0 || say_opened(fd, &err) < 0)
                say_error(&err, NULL);
}

static void do_method(struct journal *journal, const struct method *m, void *params, uint64_t max_message)
{
        struct err err = ERR_INIT;
        struct jsonw w;
        _buf_ struct buf out = BUF_INIT(max_message);
        _arena_ struct arena arena = ARENA_INIT;
        struct file_request request = {
                .method = m,
                .params = params,
                .arena = &arena,
                .journal = journal,
                .max_message = max_message,
        };
        reach_begin(m->is_change ? REACH_OPERATION_WRITE : REACH_OPERATION_READ);
        jsonw_begin(&w, &out);
        int r = m->run(&request, &w, &err);
        if (r == 0 && jsonw_end(&w) < 0)
                r = err_set(&err, 0, -EMSGSIZE, RPC_ANSWER_TOO_LARGE, (size_t)max_message);
        if (r < 0)
                say_error(&err, request.error_data);
        else
                say(&(struct fs_helper_answer){ .kind = FS_HELPER_RESULT, .bytes = (uint32_t)out.n },
                    buf_slice(&out), S(""));
}

static void serve(struct journal *journal)
{
        struct fs_helper_request request;
        receive_all(&request, sizeof(request));
        must(request.params_bytes <= FS_HELPER_REQUEST_MAX);
        _free_ char *bytes = mem_alloc(request.params_bytes + BUF_PADDING);
        receive_all(bytes, request.params_bytes);
        if (request.method[0] == '\0') {
                do_open(params_open(bytes, request.params_bytes, &fs_helper_open_method));
                return;
        }
        request.method[sizeof(request.method) - 1] = '\0';
        const struct method *m = file_method_find(slice_from_str(request.method));
        must(m);
        do_method(journal, m, params_open(bytes, request.params_bytes, m), request.max_message);
}

/* ---- the start of the process */

static NORETURN void fail(const struct enter_failure *why)
{
        say(&(struct fs_helper_answer){ .kind = FS_HELPER_FAILED,
                                        .code = (int32_t)why->step,
                                        .os_errno = why->os_errno,
                                        .op = why->op },
            S(""), S(""));
        flush();
        leave();
}

/* Opens /dev/null as stdin, stdout and stderr; after the view was entered, this is the /dev/null of the view. */
static void null_open(void)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0)
                fail(&(struct enter_failure){ .step = ENTER_DEV, .os_errno = errno, .op = ENTER_NO_OP });
        for (int fd = 0; fd < SOCKET; fd++)
                if (dup2(null, fd) < 0)
                        leave();
        if (null > SOCKET)
                fd_close(null);
}

/* Closes all descriptors of the spawner but the socket. */
static void close_rest(int socket)
{
        int high = fcntl(socket, F_DUPFD_CLOEXEC, 16);
        if (high < 0 || dup3(high, SOCKET, O_CLOEXEC) < 0 || close_range(SOCKET + 1, ~0U, 0) < 0)
                leave();
        null_open();
}

/* Receives the reach and puts it in force. Returns a journal that forwards to that of the server. */
static struct journal *reach_take(bool is_alone)
{
        static struct reach reach;
        static struct arena arena = ARENA_INIT;
        struct err err = ERR_INIT;
        uint32_t n;
        receive_all(&n, sizeof(n));
        must(n <= FS_HELPER_REACH_MAX);
        char *bytes = arena_alloc(&arena, n + 1);
        receive_all(bytes, n);
        static const struct journal_remote remote = { .add = ask_journal_add, .remove = ask_journal_remove };
        static const struct lock_remote locks = { .take = lock, .release = unlock };
        struct journal *journal = journal_new_remote(&remote);
        lock_set_remote(&locks);
        int r = reach_unpack(&arena, slice_from(bytes, n), is_alone, &reach, &err);
        if (r == 0)
                r = reach_limit(&reach);
        if (r < 0)
                fail(&(struct enter_failure){ .step = ENTER_NONE, .os_errno = -r, .op = ENTER_NO_OP });
        say(&(struct fs_helper_answer){ .kind = FS_HELPER_READY }, S(""), S(""));
        return journal;
}

/* Enters the view, which is built here or was built by bwrap; with Landlock alone there is none. */
static int enter(const struct image *image, const struct verify_spaces *outside, int *ret_ruleset,
                 struct enter_failure *ret)
{
        if (outside)
                return verify_view(image, outside, NULL, ret_ruleset, ret);
        if (image->backend == BACKEND_LANDLOCK)
                return enter_rules(image, NULL, ret_ruleset, ret);
        int r = enter_ids(image, ret);
        return r < 0 ? r : enter_view(image, NULL, ret_ruleset, ret);
}

static NORETURN void run(int socket, struct image *image, const struct verify_spaces *outside)
{
        static const char *const variables[] = { "PATH", "TMPDIR", "TMP", "TEMP", NULL };
        struct enter_failure why;
        int ruleset = -1;
        (void)prctl(PR_SET_NAME, "fh-fs-helper");
        title_set("fh-fs-helper");
        title_keep_environment(variables);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        close_rest(socket);
        /* Without namespaces Landlock alone backs the reach. */
        bool is_alone = image->backend == BACKEND_LANDLOCK;
        if (enter(image, outside, &ruleset, &why) < 0)
                fail(&why);
        null_open();
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || enter_landlock(ruleset, &why) < 0)
                fail(&why);
        /* Closes the ruleset, the root of the view and the root of the machine. */
        if (close_range(SOCKET + 1, ~0U, 0) < 0)
                leave();
        if (enter_confine(image, &why) < 0)
                fail(&why);
        image_unmap(image); /* only this mapping: the spawner has its own */
        struct journal *journal = reach_take(is_alone);
        for (;;)
                serve(journal);
}

static void failed(int socket, int step, int os_errno, uint32_t op)
{
        const struct fs_helper_answer answer = {
                .kind = FS_HELPER_FAILED, .code = step, .os_errno = os_errno, .op = op
        };
        (void)send(socket, &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
}

const struct spawn_fs_helper fs_helper_process = { .run = run, .failed = failed };
