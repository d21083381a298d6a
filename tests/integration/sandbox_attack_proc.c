/* sandbox_attack_proc: /proc, /sys and /dev, other processes, descriptors, terminals, IPC, rights. */
#define _GNU_SOURCE
#include "sandbox_attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <unistd.h>

#define WALK_MAX 60000

/* Opens settings of the host for writing, and never writes them. */
static enum verdict attempt_host_settings(char **args)
{
        for (; *args; args++) {
                int fd = open(*args, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
                if (fd >= 0)
                        return say(BROKE, "%s can be written", *args);
        }
        return say(HELD, "none can be written: %s", strerrorname_np(errno));
}

static bool is_number(const char *name)
{
        return name[0] >= '0' && name[0] <= '9';
}

/* Puts the first file that the command could write into `found`; returns false when there is none. A process's own files, and
 * those of pressure, which hold only what the opener puts in, do not count. */
static bool walk_writable(const char *dir, bool by_access, int depth, int *count, char *found, size_t size)
{
        DIR *d = opendir(dir);
        if (!d)
                return false;
        bool has_one = false;
        for (struct dirent *e; !has_one && *count < WALK_MAX && (e = readdir(d));) {
                if (e->d_name[0] == '.' ||
                    (depth == 0 && (is_number(e->d_name) || strcmp(e->d_name, "pressure") == 0)))
                        continue;
                char path[4096];
                snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
                ++*count;
                if (e->d_type == DT_DIR) {
                        has_one = depth < 12 && walk_writable(path, by_access, depth + 1, count, found, size);
                } else if (e->d_type == DT_REG) {
                        int fd = by_access ? -1 : open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
                        has_one = by_access ? access(path, W_OK) == 0 : fd >= 0;
                        if (has_one)
                                snprintf(found, size, "%s", path);
                        if (fd >= 0)
                                close(fd);
                }
        }
        closedir(d);
        return has_one;
}

static enum verdict attempt_walk(char **args)
{
        char found[4096];
        int count = 0;

        /* Opening some files of /sys has effects, so that access is asked instead. */
        if (walk_writable(args[0], strcmp(args[0], "/sys") == 0, 0, &count, found, sizeof found))
                return say(BROKE, "%s can be written", found);
        return say(HELD, "nothing of %d can be written", count);
}

/* Tries to reach hidden files through the root and the directory of another process in /proc. */
static enum verdict attempt_proc_paths(char **args)
{
        static const char *const ways[] = { "/proc/1/root",           "/proc/1/cwd",
                                            "/proc/self/root",        "/proc/2/root",
                                            "/proc/self/task/1/root", "/proc/thread-self/root",
                                            "/proc/1/task/1/root" };
        char path[8192];

        (void)args;
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
                snprintf(path, sizeof path, "%s%s", ways[i], join(setting("BOX_O"), "o.txt"));
                if (open(path, O_WRONLY) >= 0)
                        return say(BROKE, "%s can be written", path);
                snprintf(path, sizeof path, "%s%s", ways[i], join(setting("BOX_S"), "key"));
                if (open(path, O_RDONLY) >= 0)
                        return say(BROKE, "%s can be read", path);
        }
        return say(HELD, "%zu ways lead nowhere", sizeof ways / sizeof *ways);
}

/* Opens the descriptors of init again, which lead to the processes that started it. None may give more than the command has
 * itself. */
static enum verdict attempt_init_fds(char **args)
{
        struct stat own[3], other;
        int opened = 0;

        (void)args;
        for (int i = 0; i < 3; i++) {
                if (fstat(i, &own[i]) < 0)
                        memset(&own[i], 0, sizeof own[i]);
        }
        for (int i = 0; i < 1024; i++) {
                char path[64], target[256] = "?";
                snprintf(path, sizeof path, "/proc/1/fd/%d", i);
                int fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY);
                if (fd < 0)
                        fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
                if (fd < 0)
                        fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY);
                if (fd < 0 || fstat(fd, &other) < 0)
                        continue;
                opened++;
                bool is_own = S_ISCHR(other.st_mode) && other.st_rdev == makedev(1, 3);
                for (int k = 0; k < 3; k++)
                        is_own = is_own || (own[k].st_dev == other.st_dev && own[k].st_ino == other.st_ino);
                if (readlink(path, target, sizeof target - 1) < 0)
                        target[0] = '\0';
                if (!is_own)
                        return say(BROKE, "descriptor %d of init opens: %s", i, target);
                close(fd);
        }
        return say(HELD, "%d of init's can be opened, none is new", opened);
}

/* Opens the memory of another process for writing; that of init above all. */
static enum verdict attempt_mem(char **args)
{
        char path[64];

        snprintf(path, sizeof path, "/proc/%s/mem", args[0]);
        int fd = open(path, O_RDWR);
        if (fd < 0)
                return say(HELD, "%s: %s", path, strerrorname_np(errno));
        char c;
        /* A page that the opener knows of: the stack of a process that runs the same program. */
        return say(BROKE, "%s can be opened, pread says %zd", path, pread(fd, &c, 1, 0x400000));
}

static enum verdict attempt_write_exe(char **args)
{
        static const char *const paths[] = { "/proc/self/exe", "/proc/1/exe" };

        (void)args;
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
                if (open(paths[i], O_WRONLY) >= 0)
                        return say(BROKE, "%s can be written", paths[i]);
        }
        if (chmod(paths[0], 0777) == 0)
                return say(BROKE, "the mode of %s can be changed", paths[0]);
        return say(HELD, "%s", strerrorname_np(errno));
}

/* Looks at all processes that it sees: there may be init, this program and the processes that started it, and none whose arguments
 * have a word of the outside. The word comes in two pieces, so that it is not in this program's own arguments. */
static enum verdict attempt_see_processes(char **args)
{
        static const char *const files[] = { "environ", "cmdline" };
        char word[128];
        int count = 0;

        snprintf(word, sizeof word, "%s%s", args[0], args[1]);
        DIR *d = opendir("/proc");

        for (struct dirent *e; d && (e = readdir(d));) {
                if (!is_number(e->d_name))
                        continue;
                count++;
                for (size_t i = 0; i < 2; i++) {
                        char path[512], text[65536];
                        snprintf(path, sizeof path, "/proc/%s/%s", e->d_name, files[i]);
                        int fd = open(path, O_RDONLY);
                        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
                        if (fd >= 0)
                                close(fd);
                        if (n > 0 && memmem(text, (size_t)n, word, strlen(word)))
                                return say(BROKE, "%s tells of the outside", path);
                }
        }
        if (!d || count == 0 || count > 6)
                return say(BROKE, "%d processes are to be seen", count);
        return say(HELD, "%d processes", count);
}

static enum verdict attempt_descriptors(char **args)
{
        (void)args;
        for (int fd = 3; fd < 65536; fd++) {
                if (fcntl(fd, F_GETFD) >= 0)
                        return say(BROKE, "descriptor %d is open", fd);
        }
        return say(HELD, "three descriptors");
}

/* Tries every way to touch a process by its number. Only the victim is ever signalled. */
static enum verdict attempt_victim(char **args)
{
        pid_t victim = (pid_t)setting_number("BOX_VICTIM");
        cpu_set_t cpus;
        struct rlimit limit;

        (void)args;
        CPU_ZERO(&cpus);
        CPU_SET(0, &cpus);
        if (kill(victim, SIGKILL) == 0 || kill(-victim, SIGKILL) == 0)
                return say(BROKE, "kill");
        if (syscall(SYS_tgkill, victim, victim, SIGKILL) == 0 || syscall(SYS_tkill, victim, SIGKILL) == 0)
                return say(BROKE, "tgkill");
        siginfo_t info = { .si_signo = SIGKILL, .si_code = SI_QUEUE };
        if (syscall(SYS_rt_sigqueueinfo, victim, SIGKILL, &info) == 0)
                return say(BROKE, "rt_sigqueueinfo");
        if (syscall(SYS_pidfd_open, victim, 0) >= 0)
                return say(BROKE, "pidfd_open");
        if (setpriority(PRIO_PROCESS, (id_t)victim, 19) == 0 ||
            sched_setaffinity(victim, sizeof cpus, &cpus) == 0)
                return say(BROKE, "setpriority or sched_setaffinity");
        if (prlimit(victim, RLIMIT_CORE, NULL, &limit) == 0)
                return say(BROKE, "prlimit");
        if (getpgid(victim) >= 0 || getsid(victim) >= 0)
                return say(BROKE, "getpgid or getsid");
        return say(HELD, "%s", strerrorname_np(errno));
}

/* Sends signal 0 to all processes that it can reach: that signal does no harm. */
static enum verdict attempt_kill_all(char **args)
{
        (void)args;
        /* Only the parent, which waits for this process, and a shell above it may be there: both are in the sandbox. */
        int r = kill(-1, 0);
        if (r == 0 && kill(getppid(), 0) < 0)
                return say(BROKE, "somebody else is within reach");
        if (kill((pid_t)setting_number("BOX_SERVER"), 0) == 0)
                return say(BROKE, "the server is within reach");
        return say(HELD, "everybody is those inside");
}

static const char *const sets[] = { "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:" };

static enum verdict attempt_rights(char **args)
{
        char line[512], value[64];
        int right = 0;
        const bool is_unfiltered = args[0] && args[1];
        FILE *f = fopen(args[0] ? args[0] : "/proc/self/status", "re");

        if (!f)
                return say(WEAK, "status cannot be read");
        while (fgets(line, sizeof line, f)) {
                for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
                        if (strncmp(line, sets[i], strlen(sets[i])) == 0) {
                                if (strtoull(line + strlen(sets[i]), NULL, 16) != 0)
                                        return say(BROKE, "capabilities: %s", line);
                                right++;
                        }
                }
                if (sscanf(line, "NoNewPrivs: %60s", value) == 1 ||
                    sscanf(line, "Seccomp: %60s", value) == 1) {
                        const bool is_seccomp = line[0] == 'S';
                        if (strcmp(value, is_seccomp ? "2" : "1") != 0 && !(is_seccomp && is_unfiltered))
                                return say(BROKE, "%s", line);
                        right++;
                }
        }
        fclose(f);
        return right == 7 ? say(HELD, "no rights") : say(BROKE, "%d of 7 lines of the status", right);
}

/* Runs in a program with a set-user-id bit or with file capabilities, which must give no rights. */
static enum verdict attempt_exec_rights(char **args)
{
        const uid_t wanted = (uid_t)strtoul(args[0], NULL, 10);
        uid_t r, e, s;
        gid_t rg, eg, sg;

        if (getresuid(&r, &e, &s) < 0 || getresgid(&rg, &eg, &sg) < 0)
                return say(WEAK, "getresuid");
        if (r != wanted || e != wanted || s != wanted || rg != wanted || eg != wanted || sg != wanted)
                return say(BROKE, "uid %u %u %u gid %u %u %u", r, e, s, rg, eg, sg);
        return attempt_rights((char *[]){ NULL });
}

static enum verdict attempt_become(char **args)
{
        (void)args;
        if (getuid() != 0 && (setuid(0) == 0 || setresuid(0, 0, 0) == 0 || setgid(0) == 0))
                return say(BROKE, "root");
        if (setuid(65533) == 0 || setgid(65533) == 0)
                return say(BROKE, "somebody else");
        return say(HELD, "%s", strerrorname_np(errno));
}

/* Tries an ioctl that types into the terminal: the next process that reads the terminal would get that as input. */
static enum verdict attempt_tty(char **args)
{
        const unsigned long number = strtoul(args[0], NULL, 16);
        char c[8] = "x";

        long r = syscall(SYS_ioctl, 0, number, c);
        if (r >= 0)
                return say(BROKE, "ioctl %lx", number);
        if (errno != EPERM)
                return say(WEAK, "ioctl %lx: %s, not from the filter", number, strerrorname_np(errno));
        return say(HELD, "ioctl %lx", number);
}

static enum verdict attempt_devices(char **args)
{
        static const char *const known = " null zero full random urandom tty ";
        const bool is_tty = args[0] && strcmp(args[0], "tty") == 0;
        DIR *d = opendir("/dev");

        for (struct dirent *e; d && (e = readdir(d));) {
                struct stat st;
                char word[300];
                if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                snprintf(word, sizeof word, " %s ", e->d_name);
                if (S_ISBLK(st.st_mode))
                        return say(BROKE, "block device %s", e->d_name);
                if (S_ISCHR(st.st_mode) && !strstr(known, word) && strcmp(e->d_name, "ptmx") != 0 &&
                    !(is_tty && strcmp(e->d_name, "console") == 0))
                        return say(BROKE, "device %s", e->d_name);
        }
        if (!d)
                return say(WEAK, "/dev cannot be read");
        DIR *pts = opendir("/dev/pts");
        for (struct dirent *e; pts && (e = readdir(pts));) {
                if (is_number(e->d_name) && !is_tty)
                        return say(BROKE, "a terminal of another: %s", e->d_name);
        }
        return say(HELD, "only harmless devices");
}

/* mount-flags PATH…: checks that each mount is read-only, and that no program in it gets rights (nosuid). */
static enum verdict attempt_mount_flags(char **args)
{
        struct statvfs v;

        if (statvfs(setting("BOX_W"), &v) < 0 || !(v.f_flag & ST_NOSUID))
                return say(BROKE, "the workspace has programs with rights");
        for (; *args; args++) {
                if (statvfs(*args, &v) < 0)
                        continue;
                if (!(v.f_flag & ST_RDONLY) || !(v.f_flag & ST_NOSUID))
                        return say(BROKE, "%s: flags %lx", *args, v.f_flag);
        }
        return say(HELD, "read-only, without rights");
}

static enum verdict attempt_mknod(char **args)
{
        (void)args;
        if (mknod("scratch/null", S_IFCHR | 0666, makedev(1, 3)) == 0)
                return say(BROKE, "a character device");
        if (mknod("scratch/disk", S_IFBLK | 0666, makedev(254, 0)) == 0)
                return say(BROKE, "a block device");
        if (mknod("/dev/mem", S_IFCHR | 0666, makedev(1, 1)) == 0)
                return say(BROKE, "memory");
        return say(HELD, "%s", strerrorname_np(errno));
}

/* Opens a device that another process has put into the workspace. */
static enum verdict attempt_planted_device(char **args)
{
        (void)args;
        return must_fail(open("device", O_RDWR), "open of a device in the workspace");
}

static enum verdict attempt_private_shm(char **args)
{
        if (access(join("/dev/shm", args[0]), F_OK) == 0)
                return say(BROKE, "the host's shared memory is here");
        /* The test looks for these names outside of the sandbox. */
        char name[300];
        snprintf(name, sizeof name, "/%s.inside", args[0]);
        int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
        if (fd < 0)
                return say(WEAK, "/dev/shm does not work: %s", strerrorname_np(errno));
        if (posix_fallocate(fd, 0, 1L << 30) == 0)
                return say(BROKE, "a gigabyte fits into /dev/shm");
        return say(HELD, "own shared memory, bounded");
}

static enum verdict attempt_ipc(char **args)
{
        const key_t key = (key_t)setting_number("BOX_KEY");

        if (shmget(key, 0, 0) >= 0 || semget(key, 0, 0) >= 0 || msgget(key, 0) >= 0)
                return say(BROKE, "System V objects of the host");
        int error = errno;
        if (mq_open(args[0], O_RDONLY) >= 0)
                return say(BROKE, "a message queue of the host");
        return say(HELD, "%s", strerrorname_np(error));
}

static enum verdict attempt_limits(char **args)
{
        struct rlimit limit;

        (void)args;
        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return say(WEAK, "getrlimit");
        limit.rlim_max += 1;
        if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
                return say(BROKE, "a hard limit can be raised");
        if (setpriority(PRIO_PROCESS, 0, -20) == 0)
                return say(BROKE, "priority can be raised");
        struct timeval tv = { .tv_usec = -1 };
        if (settimeofday(&tv, NULL) == 0)
                return say(BROKE, "the clock can be set");
        return say(HELD, "%s", strerrorname_np(errno));
}

/* Tries to change the mode of the terminal, which is one of the machine's and belongs to the server's user. */
static enum verdict tty_mode(char **args)
{
        (void)args;
        for (int fd = 0; fd < 3; fd++) {
                char path[32];
                snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
                if (!isatty(fd))
                        return say(WEAK, "no terminal");
                if (fchmod(fd, 0666) == 0 || chmod(path, 0666) == 0 || chmod("/dev/console", 0666) == 0 ||
                    fchmodat(AT_FDCWD, path, 0666, 0) == 0)
                        return say(BROKE, "the mode of descriptor %d", fd);
                if (fchown(fd, getuid(), getgid()) == 0 || chown(path, getuid(), getgid()) == 0)
                        return say(BROKE, "the owner of descriptor %d", fd);
                if (futimens(fd, NULL) == 0 || utimensat(AT_FDCWD, path, NULL, 0) == 0)
                        return say(BROKE, "the times of descriptor %d", fd);
                int again = open(path, O_RDWR | O_NOCTTY);
                if (again < 0 || fchmod(again, 0666) == 0)
                        return say(again < 0 ? WEAK : BROKE, "the terminal opened again");
                close(again);
        }
        return say(HELD, "mode, owner and times are out of reach");
}

const struct attempt proc_attempts[] = {
        { "tty-mode", tty_mode },
        { "host-settings", attempt_host_settings },
        { "walk", attempt_walk },
        { "proc-paths", attempt_proc_paths },
        { "init-fds", attempt_init_fds },
        { "mem", attempt_mem },
        { "write-exe", attempt_write_exe },
        { "see-processes", attempt_see_processes },
        { "descriptors", attempt_descriptors },
        { "victim", attempt_victim },
        { "kill-all", attempt_kill_all },
        { "rights", attempt_rights },
        { "exec-rights", attempt_exec_rights },
        { "become", attempt_become },
        { "tty", attempt_tty },
        { "devices", attempt_devices },
        { "mount-flags", attempt_mount_flags },
        { "mknod", attempt_mknod },
        { "planted-device", attempt_planted_device },
        { "private-shm", attempt_private_shm },
        { "ipc", attempt_ipc },
        { "limits", attempt_limits },
        { NULL, NULL },
};
