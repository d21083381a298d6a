/* flood_descriptors: keeps as many descriptors in flight as the kernel lets it: sent on unix sockets, received by nobody.
 *
 *     flood_descriptors PROCESSES MESSAGES [FILE]
 *
 * Each of the processes sends messages of 253 descriptors until the kernel refuses, all together at most MESSAGES. Then
 * "holding N" is printed, N descriptors, and what becomes free is taken again, until stdin ends.
 *
 * With FILE, what is sent along lies in this file, which is made and is not in the kernel's cache: a sender has passed
 * the kernel's check and waits for the disk before its descriptors are counted (Linux 6.10 and later). So all processes
 * pass the check at the same time, and the limit does not hold them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define PER_MESSAGE 253 /* the kernel's SCM_MAX_FD */
#define COLD_BYTES 100000
#define COLD_STEP 131072
#define READY_MS 20000
#define AGAIN_MS 50 /* the pause between two tries, so that the program does not use up the processors */

struct shared {
        atomic_int ready, begun, full, sent;
};

static int messages_max;

static void die(const char *what)
{
        perror(what);
        exit(1);
}

static int message_send(int socket, int fd, void *bytes, size_t n)
{
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(PER_MESSAGE * sizeof(int))] = { 0 };
        struct iovec part = { bytes, n };
        struct msghdr m = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(PER_MESSAGE * sizeof(int)),
                               .cmsg_level = SOL_SOCKET,
                               .cmsg_type = SCM_RIGHTS };
        for (int i = 0; i < PER_MESSAGE; i++)
                memcpy(CMSG_DATA(c) + (size_t)i * sizeof(int), &fd, sizeof(int));
        return sendmsg(socket, &m, MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* Leaves both ends open: the kernel frees what was sent when no process can read it any more. */
static int socket_new(void)
{
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
                die("socketpair");
        return ends[0];
}

static void fill(struct shared *s, int *socket, int fd, void *bytes, size_t n)
{
        while (atomic_fetch_add(&s->sent, 1) < messages_max) {
                int r = message_send(*socket, fd, bytes, n);
                if (r == 0)
                        continue;
                atomic_fetch_sub(&s->sent, 1);
                if (r != -EAGAIN)
                        return; /* ETOOMANYREFS */
                *socket = socket_new();
        }
        atomic_fetch_sub(&s->sent, 1);
}

static void flood(struct shared *s, int end, void *bytes, size_t n)
{
        int fd = open("/dev/null", O_RDONLY), socket = socket_new();
        struct pollfd parent = { .fd = end, .events = POLLIN };
        if (fd < 0)
                die("/dev/null");
        atomic_fetch_add(&s->ready, 1);
        while (!atomic_load(&s->begun))
                if (poll(&parent, 1, 1) != 0)
                        exit(0);
        fill(s, &socket, fd, bytes, n);
        atomic_fetch_add(&s->full, 1);
        while (poll(&parent, 1, AGAIN_MS) == 0)
                fill(s, &socket, fd, bytes, n);
        exit(0);
}

static void *cold_new(const char *path, int processes)
{
        size_t size = (size_t)processes * COLD_STEP;
        char *block = malloc(COLD_STEP);
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || !block)
                die(path);
        memset(block, 'x', COLD_STEP);
        for (int i = 0; i < processes; i++)
                if (write(fd, block, COLD_STEP) != COLD_STEP)
                        die(path);
        void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED || madvise(map, size, MADV_RANDOM) < 0 || fsync(fd) < 0 ||
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
                die(path);
        return map;
}

static void await(atomic_int *count, int wanted)
{
        for (int i = 0; atomic_load(count) < wanted; i++) {
                if (i > READY_MS)
                        die("waited too long");
                (void)poll(NULL, 0, 1);
        }
}

int main(int argc, char **argv)
{
        int processes = argc > 2 ? atoi(argv[1]) : 0, end[2];
        char *cold = NULL, byte = 0;
        struct rlimit limit;
        struct shared *s =
                mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (processes <= 0 || s == MAP_FAILED)
                return 2;
        messages_max = atoi(argv[2]);
        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || pipe2(end, O_CLOEXEC) < 0)
                die("pipe");
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
                die("setrlimit");
        if (argc > 3)
                cold = cold_new(argv[3], processes);

        for (int i = 0; i < processes; i++) {
                pid_t pid = fork();
                if (pid < 0)
                        die("fork");
                if (pid == 0) {
                        close(end[1]);
                        flood(s, end[0], cold ? cold + (size_t)i * COLD_STEP : &byte,
                              cold ? COLD_BYTES : 1);
                }
        }
        await(&s->ready, processes);
        atomic_store(&s->begun, 1);
        await(&s->full, processes);
        printf("holding %d\n", atomic_load(&s->sent) * PER_MESSAGE);
        fflush(stdout);
        while (read(STDIN_FILENO, &byte, 1) > 0)
                continue;
        return 0;
}
