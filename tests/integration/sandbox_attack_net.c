/* sandbox_attack_net: tries to reach listeners of the host from a command whose network is restricted. */
#define _GNU_SOURCE
#include "sandbox_attack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static int type_of(const char *name)
{
        return strcmp(name, "stream") == 0  ? SOCK_STREAM
               : strcmp(name, "dgram") == 0 ? SOCK_DGRAM
                                            : SOCK_SEQPACKET;
}

/* Fills in the address of the host's listener of this type: a path, or an abstract name. Returns its length. */
static socklen_t listener(bool is_abstract, const char *type, struct sockaddr_un *a)
{
        memset(a, 0, sizeof *a);
        a->sun_family = AF_UNIX;
        int n = snprintf(a->sun_path + is_abstract, sizeof a->sun_path - 1, is_abstract ? "%s-%s" : "%s/%s",
                         setting(is_abstract ? "BOX_ABSTRACT" : "BOX_SOCKETS"), type);
        return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n + 1);
}

/* unix PATH|ABSTRACT TYPE: tries to connect. Even making the socket must fail. */
static enum verdict attempt_unix(char **args)
{
        struct sockaddr_un a;
        const socklen_t n = listener(strcmp(args[0], "abstract") == 0, args[1], &a);

        int fd = socket(AF_UNIX, type_of(args[1]), 0);
        if (fd < 0)
                return errno == EPERM ? say(HELD, "socket: EPERM")
                                      : say(WEAK, "socket: %s", strerrorname_np(errno));
        if (connect(fd, (struct sockaddr *)&a, n) == 0) {
                (void)!write(fd, "hello", 5);
                return say(BROKE, "connected");
        }
        if (sendto(fd, "hello", 5, 0, (struct sockaddr *)&a, n) == 5)
                return say(BROKE, "sendto");
        struct iovec iov = { "hello", 5 };
        struct msghdr msg = { .msg_name = &a, .msg_namelen = n, .msg_iov = &iov, .msg_iovlen = 1 };
        if (sendmsg(fd, &msg, 0) == 5)
                return say(BROKE, "sendmsg");
        return say(WEAK, "a socket, but no way to use it: %s", strerrorname_np(errno));
}

/* The kernel looks at 32 bits of the family, the filter must not look at more. */
static enum verdict attempt_unix_high_bits(char **args)
{
        (void)args;
        return must_fail(syscall(SYS_socket, 0x100000000L | AF_UNIX, SOCK_STREAM, 0),
                         "socket with high bits");
}

/* pair TYPE PATH|ABSTRACT: a socket pair does not need an address, but a datagram one takes it. */
static enum verdict attempt_pair(char **args)
{
        struct sockaddr_un a;
        int pair[2];
        const socklen_t n = listener(strcmp(args[1], "abstract") == 0, "dgram", &a);

        long r = syscall(SYS_socketpair, AF_UNIX | (args[2] ? 0x100000000L : 0), type_of(args[0]), 0, pair);
        if (r < 0)
                return say(HELD, "socketpair: %s", strerrorname_np(errno));
        struct iovec iov = { "hello", 5 };
        struct mmsghdr many = { { .msg_name = &a, .msg_namelen = n, .msg_iov = &iov, .msg_iovlen = 1 }, 0 };
        /* On a stream these calls fail or reach the other end of the pair; the test sees what arrives at the host's listener. */
        long sent = sendmsg(pair[0], &many.msg_hdr, 0);
        long sent_many = sendmmsg(pair[0], &many, 1, 0);
        long sent_to = sendto(pair[0], "hello", 5, 0, (struct sockaddr *)&a, n);
        long again = connect(pair[0], (struct sockaddr *)&a, n);
        if (strcmp(args[0], "dgram") == 0)
                return say(sent > 0 || sent_many > 0 || sent_to > 0 || again == 0 ? BROKE : WEAK,
                           "a datagram pair: %ld %ld %ld %ld", sent, sent_many, sent_to, again);
        return again == 0 ? say(BROKE, "connected") : say(HELD, "own end only");
}

static enum verdict attempt_inet(char **args)
{
        const bool is_six = strcmp(args[1], "6") == 0, is_tcp = strcmp(args[0], "tcp") == 0;
        const uint16_t port = htons((uint16_t)setting_number(args[2]));
        struct sockaddr_in four = { .sin_family = AF_INET,
                                    .sin_port = port,
                                    .sin_addr = { htonl(INADDR_LOOPBACK) } };
        struct sockaddr_in6 six = { .sin6_family = AF_INET6,
                                    .sin6_port = port,
                                    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
        const struct sockaddr *a = is_six ? (struct sockaddr *)&six : (struct sockaddr *)&four;
        const socklen_t n = is_six ? sizeof six : sizeof four;

        int fd = socket(is_six ? AF_INET6 : AF_INET, is_tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
        if (fd < 0)
                return say(HELD, "socket: %s", strerrorname_np(errno));
        if (is_tcp)
                return must_fail(connect(fd, a, n), "connect");
        /* In a network of its own the datagram goes nowhere; the test sees that it does not arrive. */
        return say(HELD, "sendto says %zd", sendto(fd, "hello", 5, 0, a, n));
}

/* Tries to reach an address outside of loopback: that must fail at once, not after minutes. */
static enum verdict attempt_far(char **args)
{
        struct sockaddr_in a = { .sin_family = AF_INET,
                                 .sin_port = htons(9),
                                 .sin_addr = { inet_addr("192.0.2.1") } };
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

        (void)args;
        if (fd < 0)
                return say(HELD, "socket: %s", strerrorname_np(errno));
        if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0 || errno == EINPROGRESS)
                return say(BROKE, "there is a way out");
        return say(HELD, "%s", strerrorname_np(errno));
}

/* family NUMBER TYPE: tries to make a socket of a family that leads past the network namespace. */
static enum verdict attempt_family(char **args)
{
        int family = (int)strtol(args[0], NULL, 10);
        int fd = socket(family, type_of(args[1]), 0);

        if (fd >= 0)
                return say(BROKE, "a socket of family %d", family);
        return say(errno == EPERM ? HELD : WEAK, "family %d: %s", family, strerrorname_np(errno));
}

static enum verdict attempt_every_family(char **args)
{
        static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_RAW, SOCK_RDM };

        (void)args;
        for (int family = 0; family < 64; family++) {
                if (family == AF_INET || family == AF_INET6 || family == AF_NETLINK)
                        continue;
                for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
                        if (socket(family, types[i], 0) >= 0)
                                return say(BROKE, "family %d, type %d", family, types[i]);
                }
        }
        return say(HELD, "%s", strerrorname_np(errno));
}

static enum verdict attempt_raw(char **args)
{
        (void)args;
        if (socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) >= 0 || socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6) >= 0)
                return say(BROKE, "a raw socket");
        return say(HELD, "%s", strerrorname_np(errno));
}

/* Sends a question to the kernel's audit over netlink, which only a process with rights may ask. */
static enum verdict attempt_netlink(char **args)
{
        struct {
                struct nlmsghdr head;
                char body[64];
        } ask = { .head = { .nlmsg_len = NLMSG_LENGTH(0),
                            .nlmsg_type = 1000 /* AUDIT_GET */,
                            .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK } },
          answer;
        int fd = socket(AF_NETLINK, SOCK_RAW, 9 /* NETLINK_AUDIT */);

        (void)args;
        if (fd < 0)
                return say(HELD, "socket: %s", strerrorname_np(errno));
        if (send(fd, &ask, ask.head.nlmsg_len, 0) < 0)
                return say(HELD, "send: %s", strerrorname_np(errno));
        struct timeval wait = { .tv_sec = 2 };
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
        ssize_t n = recv(fd, &answer, sizeof answer, 0);
        int error = 0;
        memcpy(&error, answer.body, sizeof error);
        if (n >= (ssize_t)NLMSG_LENGTH(sizeof error) && answer.head.nlmsg_type == NLMSG_ERROR && error < 0)
                return say(HELD, "answer: %s", strerrorname_np(-error));
        return say(BROKE, "audit answers: %zd bytes", n);
}

const struct attempt net_attempts[] = {
        { "unix", attempt_unix },
        { "unix-high-bits", attempt_unix_high_bits },
        { "pair", attempt_pair },
        { "inet", attempt_inet },
        { "far", attempt_far },
        { "family", attempt_family },
        { "every-family", attempt_every_family },
        { "raw", attempt_raw },
        { "netlink-audit", attempt_netlink },
        { NULL, NULL },
};
