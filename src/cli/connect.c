/* connect: `farhand connect`: a door to an environment for programs that know only a URL. */
#include "cli/cli.h"

#include "base/args.h"
#include "base/fd.h"
#include "cli/background.h"
#include "cli/duct.h"
#include "cli/pump.h"
#include "cli/remote.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Connects to the socket of the background server, which is started when there is none. Returns a descriptor, or -errno with *err
 * filled. */
static int dial_background(struct arena *a, struct err *err)
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

/* Passes the bytes of stdin and stdout on to the background server and back. The peer speaks WebSocket through us. */
static int relay_stdio(struct remote *r)
{
        struct err err = ERR_INIT;
        (void)signal(SIGPIPE, SIG_IGN);
        _close_ int server = dial_background(&r->arena, &err);
        if (server < 0) {
                remote_say(r, "%s", err.text);
                return PUMP_FAILED;
        }
        struct duct there, back;
        duct_init(&there, STDIN_FILENO, server);
        duct_init(&back, server, STDOUT_FILENO);
        int result = duct_pair_run(&there, &back);
        duct_release(&there);
        duct_release(&back);
        return result < 0 ? PUMP_FAILED : 0;
}

int cmd_connect(int argc, char **argv)
{
        struct remote remote = { 0 };
        const char *listen = NULL;
        const struct arg table[] = {
                { "listen", ARG_STRING, "URL",
                  "stdio: pass stdin and stdout on to the server of this user here", .target = &listen },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "farhand connect --listen stdio",
                .about = "Pass the bytes of stdin and stdout on to the background server of this user here, "
                         "which speaks WebSocket on them.",
                .table = table,
        };
        enum args_result parsed = args_parse(&spec, argc, argv, NULL);
        if (parsed != ARGS_OK)
                return parsed == ARGS_HELP ? 0 : 2;
        if (!listen || (strcmp(listen, "stdio") != 0 && strcmp(listen, "stdio://") != 0)) {
                fprintf(stderr, "error: farhand connect needs --listen stdio\n");
                return 2;
        }
        int code = relay_stdio(&remote);
        remote_release(&remote);
        return code;
}
