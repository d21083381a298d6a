/* open: begins one attempt to connect: to a URL, or by starting the program through which the server is reached. */
#include "client/client.h"

#include "base/mem.h"
#include "transport/child.h"
#include "transport/programs.h"
#include "transport/ssh.h"
#include "transport/static_program.h"

#include <errno.h>
#include <unistd.h>

/* Starts the program whose stdio is the connection: the one that was asked for, or a private server. */
static int open_program(struct farhand *f, struct err *err)
{
        const struct farhand_options *o = &f->options;
        _free_ char *server = o->argv ? NULL : programs_farhand(o->farhand);
        const char *const private[] = { server, "serve", "--listen", "stdio", "--log-level", "error", NULL };
        struct child_spec spec = {
                .argv = o->argv ? o->argv : private,
                .env = o->env,
                .cwd = o->cwd,
                .without = o->token_env,
                .is_apart = !o->argv || f->is_link, /* the terminal belongs to whoever uses the link */
        };
        int fd;
        pid_t pid;
        int r = child_start(&spec, &fd, &pid, err);
        if (r == 0)
                transport_open_child(&f->transport, fd, pid);
        return r;
}

/* Starts the program that speaks TLS for us. */
static int open_tls(struct farhand *f, struct err *err)
{
        char port[8];
        (void)snprintf(port, sizeof(port), "%u", f->endpoint.port);
        _free_ char *net = programs_farhand_net(f->options.farhand_net, f->options.farhand);
        if (access(net, X_OK) < 0)
                return err_set(err, 0, -errno,
                               "wss:// needs the helper farhand-net, which is not installed (%s: %s)", net,
                               errno_text(errno));
        const char *const argv[] = { net, "--tls", f->endpoint.host, port, NULL };
        int fd;
        pid_t pid;
        int r = child_start(&(struct child_spec){ .argv = argv, .is_apart = true }, &fd, &pid, err);
        if (r == 0)
                transport_open_tls(&f->transport, &f->endpoint, f->token, fd, pid);
        return r;
}

/* Starts ssh in our process group: in another one it could not ask for a password on our terminal. While a session is resumed, and for
 * a link, it asks nothing, because a command may be using the terminal. */
static int open_ssh(struct farhand *f, struct err *err)
{
        _arena_ struct arena a = ARENA_INIT;
        struct child_spec spec = {
                .argv = ssh_argv(&a, f->options.ssh, &f->endpoint,
                                 f->is_link || f->state == FARHAND_RECOVERING),
                .is_deaf = true,
        };
        int fd;
        pid_t pid;
        int r = child_start(&spec, &fd, &pid, err);
        if (r == -ENOENT)
                return err_set(err, 0, r,
                               "ssh:// needs the program `%s`, which is not there: install ssh here",
                               spec.argv[0]);
        if (r == 0)
                transport_open_ssh(&f->transport, &f->endpoint, fd, pid);
        return r;
}

int client_open(struct farhand *f, struct err *err)
{
        if (!f->has_endpoint)
                return open_program(f, err);
        switch (f->endpoint.kind) {
        case ENDPOINT_TLS:
                return open_tls(f, err);
        case ENDPOINT_SSH:
                return open_ssh(f, err);
        case ENDPOINT_TCP:
        case ENDPOINT_UNIX:
                break;
        }
        return transport_open(&f->transport, &f->endpoint, f->token, err);
}

int client_send_program(struct farhand *f, struct err *err)
{
        _buf_ struct buf program = BUF_INIT(STATIC_PROGRAM_MAX + 4096);
        struct transport *t = &f->transport;
        int r = static_program_append(&program, slice_from_str(t->machine), slice_from_str(t->system),
                                      f->options.static_dir, f->options.farhand, err);
        if (r < 0)
                return err_wrap(err, "%s", f->endpoint.host);
        transport_send_program(t, &program);
        return 0;
}
