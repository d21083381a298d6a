/* tls: `farhand-net --tls HOST PORT`, started by the client library for wss:// URLs.
 *
 * libcurl connects, through a proxy where the environment names one, and checks the certificate against SSL_CERT_FILE, SSL_CERT_DIR
 * or the machine's own list. After that it only encrypts. stdin and stdout are one socket of the library; when it closes, this
 * program ends.
 */
#include "net/tls.h"

#include "base/fd.h"
#include "wire/tls_status.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE_BYTES 65536

/* A buffer for one direction: what was read from one side and is not written to the other yet. */
struct relay_buffer {
        char bytes[PIECE_BYTES];
        size_t at, n;  /* the bytes from `at` up to `n` are still to be written */
        bool is_ended; /* nothing more will be read */
};

static int refuse(const char *why)
{
        char answer[2048];
        int n = snprintf(answer, sizeof(answer), "HTTP/1.1 %d TLS\r\nContent-Length: %zu\r\n\r\n%s",
                         TLS_STATUS_FAILED, strlen(why), why);
        if (fd_set_nonblock(STDOUT_FILENO, false) == 0)
                (void)!fd_write_all(STDOUT_FILENO,
                                    slice_from(answer, (size_t)MIN(n, (int)sizeof(answer) - 1)));
        return 1;
}

static CURL *connect_to(const char *host, const char *port, char *why)
{
        char url[512];
        CURL *easy = curl_easy_init();
        const char *file = getenv("SSL_CERT_FILE"), *directory = getenv("SSL_CERT_DIR");
        bool is_v6 = strchr(host, ':') != NULL;
        if (!easy || snprintf(url, sizeof(url), "https://%s%s%s:%s/", is_v6 ? "[" : "", host,
                              is_v6 ? "]" : "", port) >= (int)sizeof(url))
                return NULL;
        (void)curl_easy_setopt(easy, CURLOPT_URL, url);
        (void)curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        (void)curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
        if (file)
                (void)curl_easy_setopt(easy, CURLOPT_CAINFO, file);
        if (directory)
                (void)curl_easy_setopt(easy, CURLOPT_CAPATH, directory);
        CURLcode code = curl_easy_perform(easy);
        if (code == CURLE_OK)
                return easy;
        if (!why[0])
                (void)snprintf(why, CURL_ERROR_SIZE, "%s", curl_easy_strerror(code));
        curl_easy_cleanup(easy);
        return NULL;
}

/* Sends the rest of `up` to the server, as far as TLS takes it. Returns false when the connection is over. */
static bool send_on(CURL *easy, struct relay_buffer *up)
{
        while (up->at < up->n) {
                size_t sent = 0;
                CURLcode code = curl_easy_send(easy, up->bytes + up->at, up->n - up->at, &sent);
                if (code == CURLE_AGAIN)
                        return true;
                if (code != CURLE_OK)
                        return false;
                up->at += sent;
        }
        return true;
}

/* Copies to stdout what TLS has decrypted, as far as stdout takes it. Returns false when the connection is over. */
static bool receive(CURL *easy, struct relay_buffer *down)
{
        for (;;) {
                while (down->at < down->n) {
                        ssize_t n =
                                send(STDOUT_FILENO, down->bytes + down->at, down->n - down->at, MSG_NOSIGNAL);
                        if (n < 0 && (errno == EINTR || fd_is_passing(errno)))
                                return true;
                        if (n < 0)
                                return false;
                        down->at += (size_t)n;
                }
                if (down->is_ended)
                        return false;
                size_t got = 0;
                CURLcode code = curl_easy_recv(easy, down->bytes, sizeof(down->bytes), &got);
                if (code == CURLE_AGAIN)
                        return true;
                down->at = 0;
                down->n = code == CURLE_OK ? got : 0;
                down->is_ended = code != CURLE_OK || got == 0;
        }
}

/* Fills `up` from stdin. Returns false when stdin has ended. */
static bool read_input(struct relay_buffer *up)
{
        ssize_t n = read(STDIN_FILENO, up->bytes, sizeof(up->bytes));
        if (n < 0)
                return errno == EINTR || fd_is_passing(errno);
        up->at = 0;
        up->n = (size_t)n;
        return n > 0;
}

static void carry(CURL *easy, curl_socket_t server)
{
        static struct relay_buffer up, down;
        for (;;) {
                bool has_up = up.at < up.n, has_down = down.at < down.n;
                struct pollfd fds[] = {
                        { .fd = server, .events = (short)((has_down ? 0 : POLLIN) | (has_up ? POLLOUT : 0)) },
                        { .fd = STDIN_FILENO,
                          .events = (short)((has_up ? 0 : POLLIN) | (has_down ? POLLOUT : 0)) },
                };
                if (poll(fds, 2, -1) < 0 && errno != EINTR)
                        return;
                if (!has_up && (fds[1].revents & (POLLIN | POLLHUP | POLLERR)) && !read_input(&up))
                        return;
                /* TLS may want to read before it can write, and the other way round: both are tried each time. */
                if (!send_on(easy, &up) || !receive(easy, &down))
                        return;
        }
}

int tls_run(const char *host, const char *port)
{
        char why[CURL_ERROR_SIZE] = "";
        curl_socket_t server = CURL_SOCKET_BAD;
        if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
                return refuse("libcurl cannot be used");
        CURL *easy = connect_to(host, port, why);
        if (!easy)
                return refuse(why[0] ? why : "the name of the server is too long");
        if (curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &server) != CURLE_OK ||
            server == CURL_SOCKET_BAD || fd_set_nonblock(STDIN_FILENO, true) < 0)
                return refuse("the connection cannot be watched");
        carry(easy, server);
        curl_easy_cleanup(easy);
        curl_global_cleanup();
        return 0;
}
