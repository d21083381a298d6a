/* giving: lists the descriptors as /proc does, and sends them with one message (giving.h). */
#include "preload/giving.h"

#include "intercept/escalate_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FDS_FOLDER "/proc/thread-self/fd"
#define STATUS_FILE "/proc/thread-self/status"
#define NUMBER_BYTES 11 /* of a descriptor, with a comma */

/* What the kernel writes for getdents64(2). */
struct entry {
        uint64_t inode;
        int64_t offset;
        uint16_t bytes;
        uint8_t type;
        char name[];
};

struct list {
        int fds[ESCALATE_MORE_FDS];
        size_t count;
};

char *giving_number(char *to, unsigned number)
{
        char digits[NUMBER_BYTES];
        size_t n = 0;
        do
                digits[n++] = (char)('0' + number % 10);
        while ((number /= 10) > 0);
        while (n > 0)
                *to++ = digits[--n];
        *to = '\0';
        return to;
}

/* Returns the number that a name is, or -1. */
static int number_of(const char *name)
{
        int number = 0;
        for (; *name >= '0' && *name <= '9'; name++)
                if (ckd_mul(&number, number, 10) || ckd_add(&number, number, *name - '0'))
                        return -1;
        return *name == '\0' ? number : -1;
}

static bool list_add(struct list *l, const char *name, int shared)
{
        int fd = *name == '.' ? -1 : number_of(name);
        if (fd < 0 || fd == shared)
                return true;
        long flags = syscall(SYS_fcntl, fd, F_GETFD);
        if (flags < 0 || flags & FD_CLOEXEC)
                return true;
        if (l->count == ARRAY_LEN(l->fds))
                return false;
        l->fds[l->count++] = fd;
        return true;
}

static bool list_fill(struct list *l, int shared)
{
        union {
                char bytes[1024];
                struct entry align;
        } room;
        long n = -1, dir = syscall(SYS_openat, AT_FDCWD, FDS_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bool is_whole = dir >= 0;
        while (is_whole && (n = syscall(SYS_getdents64, dir, &room, sizeof(room))) > 0)
                for (long at = 0; is_whole && at < n;) {
                        const struct entry *entry = (const struct entry *)(const void *)(room.bytes + at);
                        is_whole = list_add(l, entry->name, shared);
                        at += entry->bytes;
                }
        if (dir >= 0)
                (void)syscall(SYS_close, dir);
        return is_whole && n == 0;
}

/* umask(2) can only be read by changing it, which other threads would notice. Returns -1 when the kernel does not tell. */
static int read_umask(void)
{
        static const char name[] = "\nUmask:\t"; /* no name of a process has a line break there */
        char text[256];
        int mask = 0;
        long fd = syscall(SYS_openat, AT_FDCWD, STATUS_FILE, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -1;
        long n = syscall(SYS_read, fd, text, sizeof(text) - 1);
        (void)syscall(SYS_close, fd);
        text[n > 0 ? n : 0] = '\0';
        const char *at = strstr(text, name);
        if (!at)
                return -1;
        for (at += strlen(name); *at >= '0' && *at <= '7' && mask <= 0777; at++)
                mask = mask * 8 + (*at - '0');
        return *at == '\n' && mask <= 0777 ? mask : -1;
}

/* Writes the frame. Returns its length. */
static size_t write_frame(char *frame, const struct list *l, int mask)
{
        char *to = stpcpy(frame + 4, "{\"fds\":[");
        for (size_t i = 0; i < l->count; i++) {
                if (i > 0)
                        *to++ = ',';
                to = giving_number(to, (unsigned)l->fds[i]);
        }
        to = giving_number(stpcpy(to, "],\"umask\":"), (unsigned)mask);
        *to++ = '}';
        size_t n = (size_t)(to - frame);
        for (size_t i = 0; i < 4; i++)
                frame[i] = (char)((n - 4) >> (8 * i) & 0xff);
        return n;
}

bool giving_give(int stream, int shared)
{
        union {
                char bytes[CMSG_SPACE(ESCALATE_MORE_FDS * sizeof(int))];
                struct cmsghdr align;
        } control;
        char frame[ESCALATE_MORE_FDS * NUMBER_BYTES + 64];
        struct list l = { .count = 0 };
        int mask = read_umask();
        if (mask < 0 || !list_fill(&l, shared))
                return false;
        struct iovec part = { frame, write_frame(frame, &l, mask) };
        struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };
        if (l.count > 0) {
                m.msg_control = control.bytes;
                m.msg_controllen = CMSG_SPACE(l.count * sizeof(int));
                struct cmsghdr *head = CMSG_FIRSTHDR(&m);
                head->cmsg_level = SOL_SOCKET;
                head->cmsg_type = SCM_RIGHTS;
                head->cmsg_len = CMSG_LEN(l.count * sizeof(int));
                memcpy(CMSG_DATA(head), l.fds, l.count * sizeof(int));
        }
        long n;
        do
                n = syscall(SYS_sendmsg, stream, &m, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        return n >= 0; /* the stream was empty, so that it has room for the whole frame */
}
