/* farhand-net: makes HTTP requests for the server, so that TLS and HTTP parsing happen in a process of their own.
 *
 * Started by the server with a socket as descriptor LINK_FD and nothing else; ends with it. Knows no clients and no
 * sessions: only requests with a number (wire/netmsg.h). Not a command for people.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "net/link.h"
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
#define POLL_MS 60000 /* curl wakes earlier when it has a reason */

#if defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

/* Keys and headers of clients pass through here: no core file, no new privileges, no other descriptor, and not a moment
 * longer than the server. */
static void close_in(void)
{
        struct rlimit none = { 0, 0 };
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (!IS_SANITIZED) { /* the leak checker traces its own process, and takes its time */
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void)prctl(PR_SET_DUMPABLE, 0);
        }
        (void)close_range(LINK_FD + 1, ~0U, 0);
        signal(SIGPIPE, SIG_IGN);
}

/* libcurl reads http_proxy in lower case only, for fear of CGI, where HTTP_PROXY is a client's header. */
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

/* Until the server is gone (0) or talks nonsense. */
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
        if (argc != 2 || strcmp(argv[1], "--serve") != 0 ||
            getsockopt(LINK_FD, SOL_SOCKET, SO_TYPE, &type, &size) < 0) {
                fprintf(stderr, "farhand-net is started by farhand serve\n");
                return 2;
        }
        close_in();
        (void)setlocale(LC_CTYPE, "C.UTF-8"); /* names that are not ASCII come as UTF-8 */
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
