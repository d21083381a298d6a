/* farhand-egress: the only way out for the commands of a managed network. It accepts their connections, judges each by the command's policy,
 * asks the server where the policy says so, and passes on what is allowed.
 *
 * The server starts it with a socket as descriptor LINK_FD and nothing else; it ends when the server closes the socket. It knows no clients
 * and no sessions, only networks with a number (wire/egressmsg.h). It is not meant to be run by hand.
 */
#include "base/fd.h"
#include "base/log.h"
#include "egress/confine.h"
#include "egress/networks.h"
#include "egress/pipes.h"
#include "egress/resolver.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#define LINK_FD 3

struct program {
        struct egress egress;
        struct networks networks;
        int why;
};

static int take(void *arg, struct slice message, int fds[], size_t fd_count)
{
        struct program *p = arg;
        return networks_take(&p->networks, message, fds, fd_count);
}

static void on_end(void *arg, int why)
{
        struct program *p = arg;
        p->why = why;
        loop_stop(&p->egress.loop);
}

static void on_room(void *arg)
{
        struct program *p = arg;
        networks_resume(&p->networks);
}

/* Serves until the server has closed the socket. Returns 0, or -errno after an error, such as a broken message. */
static int run(struct program *p)
{
        struct egress *e = &p->egress;
        e->link.take = take;
        e->link.on_end = on_end;
        e->link.on_room = on_room;
        e->link.arg = p;
        int r = link_open(&e->link, &e->loop, LINK_FD);
        r = r < 0 ? r : resolver_new(&e->loop, &e->resolver);
        r = r < 0 ? r : confine_calls();
        if (r < 0)
                return r;
        networks_init(&p->networks, e);
        loop_run(&e->loop);
        networks_release(&p->networks);
        return p->why;
}

int main(int argc, char **argv)
{
        int type;
        socklen_t size = sizeof(type);
        if (argc != 2 || strcmp(argv[1], "--serve") != 0 ||
            getsockopt(LINK_FD, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_SEQPACKET) {
                fprintf(stderr, "farhand-egress is started by farhand serve\n");
                return 2;
        }
        static struct program program;
        struct err err = ERR_INIT;
        int r = confine_self(LINK_FD);
        if (r == 0)
                r = loop_init(&program.egress.loop, &err);
        if (r == 0)
                r = run(&program);
        if (r < 0)
                log_error_r(r, "managed networks end");
        program.egress.resolver = resolver_free(program.egress.resolver);
        link_release(&program.egress.link);
        loop_release(&program.egress.loop);
        pipes_release();
        return r < 0 ? 1 : 0;
}
