/* state: finds, makes and checks the directory for files that must outlive a server. */
#include "fsop/state.h"

#include "base/fd.h"
#include "base/limits.h"
#include "fsop/fsop.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define VOLATILE_PLACE "/dev/shm/farhand-"
#define ID_MAP_BYTES (64 * KIB) /* the kernel allows 340 lines */

static int check_length(int n, struct err *err)
{
        return n < PATH_MAX ? 0 : fsop_fail(err, ENAMETOOLONG);
}

int state_directory_of_user(char *ret, struct err *err)
{
        const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
        int n;

        if (state && state[0] == '/')
                n = snprintf(ret, PATH_MAX, "%s/farhand", state);
        else if (home && home[0] == '/')
                n = snprintf(ret, PATH_MAX, "%s/.local/state/farhand", home);
        else
                return err_set(err, 0, -ENOENT, "no state directory: neither XDG_STATE_HOME nor HOME is set");
        return check_length(n, err);
}

static int lasting_directory(char *ret, struct err *err)
{
        if (geteuid() != 0)
                return state_directory_of_user(ret, err);
        return check_length(snprintf(ret, PATH_MAX, "/var/lib/farhand"), err);
}

static uint64_t next_number(struct slice *line)
{
        uint64_t n;
        *line = slice_trim(*line);
        return slice_to_u64(slice_split(line, ' '), UINT32_MAX, &n) < 0 ? 0 : n;
}

/* Returns the number that our user has outside of our user namespace: inside, any user may be root, while /dev/shm is often shared
 * with the rest of the machine. A line of the map has the first number inside, the first number outside, and the count. */
static unsigned outer_uid(void)
{
        _buf_ struct buf map = BUF_INIT(ID_MAP_BYTES);
        uint64_t own = geteuid();
        struct slice rest = S("");
        if (fd_read_file("/proc/self/uid_map", ID_MAP_BYTES, &map) == 0)
                rest = buf_slice(&map);
        while (rest.n > 0) {
                struct slice line = slice_split(&rest, '\n');
                uint64_t inside = next_number(&line), outside = next_number(&line);
                if (own >= inside && own - inside < next_number(&line))
                        return (unsigned)(outside + own - inside);
        }
        return (unsigned)own;
}

int state_directory(unsigned n, char *ret, struct err *err)
{
        if (n == 0)
                return lasting_directory(ret, err);
        if (n >= STATE_DIRECTORIES)
                return fsop_fail(err, ERANGE);
        (void)snprintf(ret, PATH_MAX, VOLATILE_PLACE "%u", outer_uid());
        return 0;
}

static void make_directories(const char *path)
{
        char part[PATH_MAX];

        /* Failures are ignored here: a directory that could not be made cannot be opened either, and that error is reported. */
        for (size_t i = 1; i < sizeof(part); i++) {
                if (path[i] != '/' && path[i] != '\0')
                        continue;
                memcpy(part, path, i);
                part[i] = '\0';
                (void)mkdir(part, 0700);
                if (path[i] == '\0')
                        return;
        }
}

int state_open(const char *path, struct err *err)
{
        /* In /dev/shm, which every user may write, only the last directory of the path is made. */
        bool is_volatile = strncmp(path, VOLATILE_PLACE, sizeof(VOLATILE_PLACE) - 1) == 0;
        if (is_volatile)
                (void)mkdir(path, 0700);
        else
                make_directories(path);

        _close_ int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;
        if (fd < 0 || fstat(fd, &st) < 0) {
                fsop_fail(err, errno);
                return err_wrap(err, "%s", path);
        }
        if (st.st_uid != geteuid() || (st.st_mode & (is_volatile ? 077 : 022)))
                return err_set(err, 0, -EPERM, "%s: not ours alone to write", path);
        return TAKE_FD(fd);
}
