/* farhand-net: makes HTTP requests for the server, so that TLS and HTTP parsing happen in a process of their own. With --tls it is
 * the TLS end of a client's connection (net/tls.h).
 *
 * The server starts it with a socket as descriptor LINK_FD and nothing else; it ends when the server closes the socket. It knows
 * no clients and no sessions, only requests with a number (wire/netmsg.h). It is not meant to be run by hand.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "net/link.h"
#include "net/tls.h"
#include "net/transfer.h"

#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINK_FD 3
#define POLL_MS 60000 /* libcurl returns earlier when it has something to do */

/* Secrets of clients pass through this process, so it writes no core file, gains no privileges, closes all other descriptors, and
 * dies with the server. The parent of a TLS end may be a thread that ends before its program does: there the socket is enough. */
static void confine_self(int last_fd, bool dies_with_parent)
{
        struct rlimit none = { 0, 0 };
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)prctl(PR_SET_NAME, "farhand-net"); /* the program was executed by descriptor, not by name */
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        /* The leak checker must be able to trace this process, and may still run when the server has ended. */
        if (!IS_ASAN) {
                if (dies_with_parent)
                        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void)prctl(PR_SET_DUMPABLE, 0);
        }
        (void)close_range((unsigned)last_fd + 1, ~0U, 0);
        signal(SIGPIPE, SIG_IGN);
}

/* Takes HTTP_PROXY as http_proxy. libcurl reads only the lower-case name, because in CGI programs HTTP_PROXY is a header of the
 * client. REQUEST_METHOD is set in such programs. */
static void adopt_proxy(void)
{
        const char *proxy = getenv("HTTP_PROXY");
        if (proxy && !getenv("http_proxy") && !getenv("REQUEST_METHOD"))
                (void)setenv("http_proxy", proxy, 0);
}

static int take(void *arg, const struct netmsg *m)
{
        return transfers_take(arg, m);
}

/* Serves until the server has closed the socket, and returns 0; or returns -errno after an error, such as a broken message. */
static int run(struct link *link, struct transfers *ts)
{
        for (;;) {
                transfers_perform(ts);
                int r = link_flush(link);
                if (r < 0)
                        return r == -EPIPE || r == -ECONNRESET ? 0 : r;
                struct curl_waitfd wait = { .fd = link->fd, .events = CURL_WAIT_POLLIN };
                if (link_has_output(link))
                        wait.events |= CURL_WAIT_POLLOUT;
                if (curl_multi_poll(ts->multi, &wait, 1, POLL_MS, NULL) != CURLM_OK)
                        return -EIO;
                if (!(wait.revents & CURL_WAIT_POLLIN))
                        continue;
                r = link_read(link, take, ts);
                if (r < 0)
                        return r == -EPIPE || r == -ECONNRESET ? 0 : r;
        }
}

int main(int argc, char **argv)
{
        int type;
        socklen_t size = sizeof(type);
        if (argc == 4 && strcmp(argv[1], "--tls") == 0) {
                confine_self(STDERR_FILENO, false);
                (void)setlocale(LC_CTYPE, "C.UTF-8");
                return tls_run(argv[2], argv[3]);
        }
        if (argc != 2 || strcmp(argv[1], "--serve") != 0 ||
            getsockopt(LINK_FD, SOL_SOCKET, SO_TYPE, &type, &size) < 0) {
                fprintf(stderr, "farhand-net is started by farhand serve, and by clients for wss:// URLs\n");
                return 2;
        }
        confine_self(LINK_FD, true);
        (void)setlocale(LC_CTYPE, "C.UTF-8"); /* libcurl converts host names that are not ASCII from UTF-8 */
        adopt_proxy();

        struct link link;
        struct transfers ts;
        int r = fd_set_nonblock(LINK_FD, true);
        if (r < 0 || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
                return 1;
        link_init(&link, LINK_FD);
        r = transfers_init(&ts, &link);
        if (r == 0)
                r = run(&link, &ts);
        if (r < 0)
                log_error_r(r, "http helper ends");
        transfers_release(&ts);
        link_release(&link);
        curl_global_cleanup();
        return r < 0 ? 1 : 0;
}
