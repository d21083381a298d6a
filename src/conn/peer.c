/* peer: finds out about the process at the other end of a unix socket, and decides whether it may connect. */
#include "conn/peer.h"

#include "base/fd.h"
#include "base/slice.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

#define SPACE_BYTES 64               /* room for a link such as "user:[4026531837]" */
#define FILE_BYTES_MAX (1024 * 1024) /* /proc/PID/status names all groups, up to 65,536 */

bool peer_is_allowable(const char *why)
{
        return strcmp(why, PEER_OTHER_PID_SPACE) == 0 || strcmp(why, PEER_OTHER_USER_SPACE) == 0 ||
               strcmp(why, PEER_UNSEEN) == 0;
}

/* ---- which process ---- */

/* Opens a pidfd of the peer. Before Linux 6.5 only the pid of the peer is known. If the peer has ended, another process may have
 * that pid by now. */
static int peer_pidfd(int fd, pid_t pid)
{
        int pidfd;
        socklen_t n = sizeof(pidfd);
        if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &n) == 0)
                return pidfd;
        if (errno != ENOPROTOOPT)
                return -errno;
        pidfd = pidfd_open(pid, 0);
        return pidfd < 0 ? -errno : pidfd;
}

static bool is_alive(int pidfd)
{
        struct pollfd end = { .fd = pidfd, .events = POLLIN };
        return poll(&end, 1, 0) == 0;
}

/* Returns whether /proc belongs to our pid namespace. The /proc of another one would show other processes under the same pids. */
static bool proc_is_ours(void)
{
        char self[32], expected[32];
        ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);
        (void)snprintf(expected, sizeof(expected), "%d", getpid());
        return n > 0 && slice_eq(slice_from(self, (size_t)n), slice_from_str(expected));
}

/* ---- the namespaces of the peer ---- */

/* Compares a namespace of the peer with ours. Returns 1 when they are the same, 0 when not, or -errno. */
static int space_is_ours(int dir, const char *name)
{
        char its[SPACE_BYTES], ours[SPACE_BYTES], path[SPACE_BYTES];
        (void)snprintf(path, sizeof(path), "/proc/self/%s", name);
        ssize_t n = readlinkat(dir, name, its, sizeof(its)), m = readlink(path, ours, sizeof(ours));
        if (n < 0 || m < 0)
                return -errno;
        if ((size_t)n == sizeof(its) || (size_t)m == sizeof(ours))
                return -ENAMETOOLONG;
        return slice_eq(slice_from(its, (size_t)n), slice_from(ours, (size_t)m));
}

static int file_read(int dir, const char *name, struct buf *ret)
{
        char path[SPACE_BYTES];
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
        return fd_read_file(path, FILE_BYTES_MAX, ret);
}

static int map_is_ours(int dir, const char *name)
{
        _buf_ struct buf its = BUF_INIT(FILE_BYTES_MAX), ours = BUF_INIT(FILE_BYTES_MAX);
        char path[SPACE_BYTES];
        (void)snprintf(path, sizeof(path), "/proc/self/%s", name);
        int r = file_read(dir, name, &its);
        if (r == 0)
                r = fd_read_file(path, FILE_BYTES_MAX, &ours);
        return r < 0 ? r : slice_eq(buf_slice(&its), buf_slice(&ours));
}

size_t peer_count_pids(struct slice status)
{
        while (status.n > 0) {
                struct slice line = slice_split(&status, '\n');
                size_t count = 0;
                if (!slice_starts(line, S("NSpid:")))
                        continue;
                (void)slice_split(&line, ':');
                while (line.p)
                        count += slice_trim(slice_split(&line, '\t')).n > 0;
                return count;
        }
        return 0;
}

/* Judges the namespaces of the peer by those files in /proc that everybody may read. Returns NULL or the refusal. */
static const char *spaces_guess(int dir)
{
        _buf_ struct buf status = BUF_INIT(FILE_BYTES_MAX);
        if (file_read(dir, "status", &status) < 0)
                return PEER_UNSEEN;
        size_t pids = peer_count_pids(buf_slice(&status));
        if (pids != 1)
                return pids == 0 ? PEER_UNSEEN : PEER_OTHER_PID_SPACE;
        int uids = map_is_ours(dir, "uid_map"), gids = map_is_ours(dir, "gid_map");
        if (uids < 0 || gids < 0)
                return PEER_UNSEEN;
        return uids && gids ? NULL : PEER_OTHER_USER_SPACE;
}

static const char *spaces_judge(int dir)
{
        int pid = space_is_ours(dir, "ns/pid"), user = space_is_ours(dir, "ns/user");
        if (pid == -EACCES || pid == -EPERM || user == -EACCES || user == -EPERM)
                return spaces_guess(dir);
        if (pid < 0 || user < 0)
                return PEER_UNSEEN;
        return !pid ? PEER_OTHER_PID_SPACE : !user ? PEER_OTHER_USER_SPACE : NULL;
}

/* ---- the decision ---- */

static const char *lineage_judge(const struct peer_judge *judge, pid_t pid, int dir)
{
        switch (judge->lineage(judge->arg, pid, dir)) {
        case LINEAGE_OTHER:
        case LINEAGE_PLAIN:
                return NULL;
        case LINEAGE_SANDBOXED:
                return PEER_SANDBOXED;
        case LINEAGE_UNKNOWN:
                break;
        }
        return PEER_UNKNOWN;
}

/* Judges the peer by its directory in /proc. The caller checks afterwards that the peer is still alive: then the directory was
 * that of the peer and not of a later process with the same pid. */
static const char *judge_by_proc(const struct peer *peer, bool allows_other_namespaces,
                                 const struct peer_judge *judge)
{
        char path[32];
        (void)snprintf(path, sizeof(path), "/proc/%d", peer->pid);
        _close_ int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0 || !proc_is_ours())
                return PEER_UNSEEN;
        const char *why = allows_other_namespaces ? NULL : spaces_judge(dir);
        /* A process of root is no command of ours: no process in a sandbox can become root. */
        return why || peer->uid != geteuid() ? why : lineage_judge(judge, peer->pid, dir);
}

const char *peer_refuse(int fd, bool allows_other_namespaces, const struct peer_judge *judge,
                        struct peer *ret)
{
        struct ucred cred;
        socklen_t n = sizeof(cred);
        *ret = (struct peer){ 0 };
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
                return PEER_NO_SOCKET;
        *ret = (struct peer){ .pid = cred.pid, .uid = cred.uid };
        if (cred.uid != geteuid() && cred.uid != 0)
                return PEER_OTHER_USER;
        /* A peer without a pid is no command of ours: we see the pids of our commands and of their descendants. */
        if (cred.pid == 0)
                return allows_other_namespaces ? NULL : PEER_OTHER_PID_SPACE;
        if (allows_other_namespaces && cred.uid != geteuid())
                return NULL;
        int opened = peer_pidfd(fd, cred.pid);
        if (opened < 0)
                return opened == -EMFILE || opened == -ENFILE ? PEER_UNSEEN : PEER_GONE;
        _close_ int pidfd = opened;
        const char *why = judge_by_proc(ret, allows_other_namespaces, judge);
        return is_alive(pidfd) ? why : PEER_GONE;
}
