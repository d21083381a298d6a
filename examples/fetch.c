/* fetch: gets something by HTTP from where a server is, and prints it as it comes.
 *
 *     fetch SERVER URL
 *
 * SERVER is ws://HOST:PORT, wss://HOST or unix:/PATH; `-` is this machine, by a server that ends with this program.
 *
 *     cc fetch.c $(pkg-config --cflags --libs farhand) -o fetch
 */
#include <farhand/farhand.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_over;
static int status;

static void on_response(struct farhand_http *h, void *arg, int code,
                        const struct farhand_http_header *headers, size_t header_count)
{
        (void)h, (void)arg, (void)headers, (void)header_count;
        status = code;
}

static void on_body(struct farhand_http *h, void *arg, const void *bytes, size_t n)
{
        (void)h, (void)arg;
        fwrite(bytes, 1, n, stdout);
        fflush(stdout);
}

static void on_done(struct farhand_http *h, void *arg)
{
        (void)h, (void)arg;
        is_over = true;
}

static void on_failed(struct farhand_http *h, void *arg, const struct farhand_error *error)
{
        (void)h;
        fprintf(stderr, "%s: %s\n", (const char *)arg, error->text);
        is_over = true;
        status = 0;
}

int main(int argc, char **argv)
{
        static const struct farhand_http_events events = { on_response, on_body, on_done, on_failed };
        struct farhand_error error;
        if (argc != 3) {
                fprintf(stderr, "usage: fetch SERVER URL\n");
                return 2;
        }

        struct farhand_options options = FARHAND_OPTIONS_INIT;
        if (strcmp(argv[1], "-") != 0)
                options.url = argv[1];
        struct farhand_http_request request = FARHAND_HTTP_REQUEST_INIT;
        request.url = argv[2];
        struct farhand *f = farhand_connect(&options, &error);
        int r = f && farhand_http_start(f, &request, &events, argv[2], &error) ? 0 : error.code;
        while (r == 0 && !is_over)
                r = farhand_wait(f, -1, &error);
        if (r < 0)
                fprintf(stderr, "fetch: %s\n", error.text);
        farhand_free(f);
        return r == 0 && status >= 200 && status < 300 ? EXIT_SUCCESS : EXIT_FAILURE;
}
