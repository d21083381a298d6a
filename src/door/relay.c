/* relay: passes the bytes of a peer on to the background server (relay.h). */
#include "door/relay.h"

#include "base/fd.h"
#include "cli/background.h"
#include "cli/pump.h"
#include "door/duct.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The most that a peer says before the answer: more than a request to upgrade has. */
#define SAID_BYTES ((size_t)32 * 1024)

struct relay {
        struct duct there, back;
        struct buf said;      /* what the peer has said, until the server says something */
        bool is_unrepeatable; /* the server has said something, or the peer too much */
};

/* Connects to the socket of the background server, which is started when there is none. Returns a descriptor, or -errno with *err
 * filled. */
static int dial(struct arena *a, struct err *err)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        const char *url = background_url(a, true, err);
        if (!url)
                return err->code;
        const char *path = url + strlen("unix:");
        if (strlen(path) >= sizeof(address.sun_path))
                return err_set(err, 0, -ENAMETOOLONG, "%s: the path is too long for a socket", path);
        memcpy(address.sun_path, path, strlen(path) + 1);
        _close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                return err_set(err, 0, -errno, "%s: %s", path, errno_text(errno));
        return TAKE_FD(fd);
}

static int keep(void *arg, char *bytes, size_t n, struct buf *out)
{
        struct relay *y = arg;
        if (!y->is_unrepeatable && buf_append(&y->said, slice_from(bytes, n)) < 0)
                y->is_unrepeatable = true;
        return buf_append(out, slice_from(bytes, n));
}

static int note_answer(void *arg, char *bytes, size_t n, struct buf *out)
{
        struct relay *y = arg;
        y->is_unrepeatable = true;
        y->back.is_end_kept = false;
        return buf_append(out, slice_from(bytes, n));
}

/* Returns whether the peer still waits for an answer. */
static bool has_peer(const struct relay *y)
{
        struct pollfd out = { .fd = y->back.to };
        return (!y->there.has_ended || y->there.is_cut) && poll(&out, 1, 0) == 0;
}

/* Passes bytes both ways until one side ends. Returns 0, or -errno; -ECONNRESET with *err filled when another server may be asked
 * the same. */
static int pass(struct relay *y, int server, struct err *err)
{
        duct_init(&y->there, STDIN_FILENO, server);
        duct_init(&y->back, server, STDOUT_FILENO);
        y->there.turn = keep;
        y->back.turn = note_answer;
        y->there.arg = y->back.arg = y;
        y->back.is_end_kept = true;
        int r = duct_put(&y->there, buf_slice(&y->said));
        if (r == 0)
                r = duct_pair_run(&y->there, &y->back);
        if (r == 0 && !y->is_unrepeatable && has_peer(y))
                r = err_set(err, 0, -ECONNRESET, "the background server ended the connection without a word");
        duct_release(&y->there);
        duct_release(&y->back);
        return r;
}

int relay_stdio(struct remote *r)
{
        struct background_retry retry;
        struct relay y = { .said = BUF_INIT(SAID_BYTES) };
        struct err err;
        int result;
        background_retry_begin(&retry);
        (void)signal(SIGPIPE, SIG_IGN);
        do {
                err = ERR_INIT;
                _close_ int server = dial(&r->arena, &err);
                result = server < 0 ? server : pass(&y, server, &err);
        } while (result < 0 && background_may_retry(&retry, result));
        if (result < 0 && err.code != 0)
                remote_say(r, "%s", err.text);
        buf_release(&y.said);
        return result < 0 ? PUMP_FAILED : 0;
}
