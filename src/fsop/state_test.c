/* state_test: which directory becomes the state directory, and that other users cannot change it. */
#include "fsop/state.h"

#include "base/fd.h"
#include "base/mem.h"
#include "fsop/rig.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns the path of a choice, or the error text when there is none. */
static const char *choice(unsigned n, char path[PATH_MAX])
{
        struct err err = ERR_INIT;
        if (state_directory(n, path, &err) < 0)
                (void)snprintf(path, PATH_MAX, "%.1000s", err.text);
        return path;
}

TEST(the_first_choice_is_named_by_variables_and_for_root_it_is_that_of_the_machine)
{
        char path[PATH_MAX];
        _free_ char *old_state = getenv("XDG_STATE_HOME") ? mem_strdup(getenv("XDG_STATE_HOME")) : NULL;
        _free_ char *old_home = getenv("HOME") ? mem_strdup(getenv("HOME")) : NULL;
        bool is_root = geteuid() == 0;
        setenv("XDG_STATE_HOME", "/x", 1);
        setenv("HOME", "/h", 1);
        eq_str(choice(0, path), is_root ? "/var/lib/farhand" : "/x/farhand");
        setenv("XDG_STATE_HOME", "relative", 1);
        eq_str(choice(0, path), is_root ? "/var/lib/farhand" : "/h/.local/state/farhand");
        unsetenv("XDG_STATE_HOME");
        unsetenv("HOME");
        if (!is_root)
                ok(strstr(choice(0, path), "neither XDG_STATE_HOME nor HOME"));
        if (old_state)
                setenv("XDG_STATE_HOME", old_state, 1);
        if (old_home)
                setenv("HOME", old_home, 1);
}

TEST(the_second_choice_is_one_that_no_sandbox_shows)
{
        char path[PATH_MAX], want[64];
        struct err err = ERR_INIT;
        snprintf(want, sizeof(want), "/dev/shm/farhand-%u", (unsigned)geteuid());
        eq_str(choice(1, path), want);
        eq_int(state_directory(STATE_DIRECTORIES, path, &err), -ERANGE);
}

/* Enters a user namespace in which this user has the number 7. Returns 0 when the second choice is named after the number outside,
 * 77 when there are no user namespaces. */
static int look_from_inside(const char *want)
{
        char path[PATH_MAX], map[64];
        int n = snprintf(map, sizeof(map), "7 %u 1", (unsigned)geteuid());
        if (unshare(CLONE_NEWUSER) < 0)
                return 77;
        _close_ int fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, map, (size_t)n) != n || geteuid() != 7)
                return 77;
        return strcmp(choice(1, path), want) == 0 ? 0 : 1;
}

/* Any user can be root in a user namespace, so /dev/shm/farhand-0 would belong to the first user who made it. */
TEST(the_second_choice_has_the_number_that_others_see)
{
        char want[64];
        int status;
        snprintf(want, sizeof(want), "/dev/shm/farhand-%u", (unsigned)geteuid());
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0)
                _exit(look_from_inside(want));
        eq_int(waitpid(pid, &status, 0), pid);
        ok(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77) {
                print_message("skipped: no user namespaces\n");
                skip();
        }
        eq_int(WEXITSTATUS(status), 0);
}

/* Every user can write to /dev/shm, so the directory may be another user's. */
TEST(a_directory_in_dev_shm_is_used_when_it_is_ours_alone)
{
        char path[64], deeper[80];
        struct err err = ERR_INIT;
        struct stat st;
        if (stat("/dev/shm", &st) < 0) {
                print_message("skipped: there is no /dev/shm\n");
                skip();
        }
        snprintf(path, sizeof(path), "/dev/shm/farhand-unit-%d", (int)getpid());
        snprintf(deeper, sizeof(deeper), "%s/deeper", path);
        eq_int(state_open(deeper, &err), -ENOENT); /* directories above it are not made */
        int fd = state_open(path, &err);
        ok(fd >= 0);
        close(fd);
        eq_int(stat(path, &st), 0);
        eq_int(st.st_mode & 07777, 0700);
        eq_int(chmod(path, 0750), 0);
        eq_int(state_open(path, &err), -EPERM);
        eq_int(rmdir(path), 0);
        eq_int(symlink("/tmp", path), 0);
        eq_int(state_open(path, &err), -ENOTDIR);
        eq_int(unlink(path), 0);
        if (geteuid() != 0)
                return;
        ok(mkdir(path, 0700) == 0 && chown(path, 65534, 65534) == 0);
        eq_int(state_open(path, &err), -EPERM);
        eq_int(rmdir(path), 0);
}
