/* fsop_test: how paths are opened, with and without openat2, and the error texts that clients know. */
#include "fsop/fsop.h"

#include "fsop/rig.h"
#include "fsop/rig_forbid_internal.h"
#include "unit.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

TEST(refusal_of_the_system_has_its_number_and_the_words_that_clients_know)
{
        struct err err = ERR_INIT;

        eq_int(fsop_fail(&err, ENOENT), -ENOENT);
        eq_str(err.text, "No such file or directory (os error 2)");
        eq_int(err.os_errno, ENOENT);
        eq_int(err.code, -ENOENT);
        eq_int(fsop_fail(&err, -ELOOP), -ELOOP);
        eq_str(err.text, "Symbolic link loop (os error 40)");
        eq_int(err.os_errno, ELOOP);
}

TEST(refusal_of_ours_has_no_number_and_is_cut_between_characters)
{
        struct err err = ERR_INIT;
        char longest[ERR_TEXT_BYTES + 100];

        err.os_errno = ENOENT;
        eq_int(fsop_refuse(&err, "path `%s` is not a file", "/x"), -EINVAL);
        eq_str(err.text, "path `/x` is not a file");
        eq_int(err.os_errno, 0);

        longest[0] = 'x';
        for (size_t i = 1; i < sizeof(longest); i += 2)
                memcpy(longest + i, "\xc3\xa4", MIN(2, sizeof(longest) - i));
        longest[sizeof(longest) - 1] = '\0';
        eq_int(fsop_refuse(&err, "%s", longest), -EINVAL);
        eq_int(strlen(err.text), ERR_TEXT_BYTES - 1);
        eq_int(err.text[ERR_TEXT_BYTES - 2] & 0xff, 0xa4);
        eq_int(fsop_refuse(&err, "y%s", longest), -EINVAL);
        eq_int(strlen(err.text), ERR_TEXT_BYTES - 2);
}

/* The results of fsop_open for the paths in the rig of open_rig, with links followed and not. 0: a descriptor. */
static const struct {
        const char *path;
        int flags, follow, no_follow;
} opens[] = {
        { "file", O_RDONLY, 0, 0 },
        { "file/", O_RDONLY, -ENOTDIR, -ENOTDIR },
        { "file/x", O_RDONLY, -ENOTDIR, -ENOTDIR },
        { "missing", O_RDONLY, -ENOENT, -ENOENT },
        { "dir", O_RDONLY | O_DIRECTORY, 0, 0 },
        { "dir/", O_RDONLY | O_DIRECTORY, 0, 0 },
        { "dir//.//../dir/inner", O_RDONLY, 0, 0 },
        { "", O_PATH, 0, 0 },
        { "to-file", O_RDONLY, 0, -ELOOP },
        { "to-file", O_PATH, 0, -ELOOP },
        { "to-file", O_PATH | O_NOFOLLOW, 0, 0 },
        { "to-dir", O_RDONLY | O_DIRECTORY, 0, -ELOOP },
        { "to-dir/", O_RDONLY, 0, -ELOOP },
        { "to-dir/.", O_RDONLY, 0, -ENOTDIR },
        { "to-dir/inner", O_RDONLY, 0, -ENOTDIR },
        { "dir/up/file", O_RDONLY, 0, -ENOTDIR },
        { "to-nothing", O_RDONLY, -ENOENT, -ELOOP },
        { "loop", O_RDONLY, -ELOOP, -ELOOP },
        { "loop/x", O_RDONLY, -ELOOP, -ENOTDIR },
        { "fifo", O_RDONLY, 0, 0 },
        { "fifo", O_WRONLY, -ENXIO, -ENXIO },
        { "new/", O_WRONLY | O_CREAT, -EISDIR, -EISDIR },
        { "file", O_WRONLY | O_CREAT | O_EXCL, -EEXIST, -EEXIST },
};

static struct rig open_rig(void)
{
        struct rig rig = rig_new();

        rig_file(&rig, "file", S("content"));
        rig_directory(&rig, "dir");
        rig_file(&rig, "dir/inner", S("x"));
        rig_link(&rig, "dir/up", "..");
        rig_link(&rig, "to-file", "file");
        rig_link(&rig, "to-dir", "dir");
        rig_link(&rig, "to-nothing", "nothing");
        rig_link(&rig, "loop", "loop");
        rig_fifo(&rig, "fifo");
        return rig;
}

/* Opens all paths of `opens`, and counts the wrong results. */
static int count_wrong_opens(const struct rig *rig)
{
        int wrong = 0;

        for (size_t i = 0; i < 2 * ARRAY_LEN(opens); i++) {
                bool follow = i % 2;
                int wanted = follow ? opens[i / 2].follow : opens[i / 2].no_follow;
                _close_ int fd =
                        fsop_open(rig_path(rig, opens[i / 2].path), opens[i / 2].flags, 0644, follow);
                if (MIN(fd, 0) == wanted && (fd < 0 || fcntl(fd, F_GETFD) == FD_CLOEXEC))
                        continue;
                fprintf(stderr, "%s flags %o follow %d: %d, not %d\n", opens[i / 2].path,
                        (unsigned)opens[i / 2].flags, follow, fd, wanted);
                wrong++;
        }
        return wrong;
}

TEST(open_follows_links_or_says_where_one_is)
{
        _rig_ struct rig rig = open_rig();

        eq_int(count_wrong_opens(&rig), 0);
}

/* Counts the wrong opens in a child where openat2 fails with `answer`, as on an old kernel or in a container that forbids it. */
static int wrong_opens_without_openat2(const struct rig *rig, int answer)
{
        pid_t pid = fork();

        ok(pid >= 0);
        if (pid == 0) {
                if (!rig_forbid(SCMP_SYS(openat2), answer))
                        _exit(77);
                _exit(count_wrong_opens(rig));
        }

        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        ok(WIFEXITED(status));
        return WEXITSTATUS(status);
}

TEST(open_gives_the_same_answers_without_openat2)
{
        _rig_ struct rig rig = open_rig();

        int wrong = wrong_opens_without_openat2(&rig, ENOSYS);
        if (wrong == 77)
                rig_skip(&rig);
        eq_int(wrong, 0);
        eq_int(wrong_opens_without_openat2(&rig, EPERM), 0);
}

TEST(open_creates_with_the_mode_asked_for)
{
        _rig_ struct rig rig = rig_new();
        mode_t before = umask(022);
        struct stat st;

        _close_ int fd = fsop_open(rig_path(&rig, "new"), O_WRONLY | O_CREAT | O_EXCL, S_IFREG | 0666, false);
        umask(before);
        ok(fd >= 0);
        eq_int(fstat(fd, &st), 0);
        eq_int(st.st_mode & 07777, 0644);
}

TEST(open_takes_only_absolute_paths_that_the_system_takes)
{
        char path[PATH_MAX + 10];

        eq_int(fsop_open("file", O_RDONLY, 0, true), -EINVAL);
        eq_int(fsop_open("", O_RDONLY, 0, false), -EINVAL);

        memset(path, '/', sizeof(path) - 1);
        path[sizeof(path) - 1] = '\0';
        eq_int(fsop_open(path, O_PATH, 0, true), -ENAMETOOLONG);
        eq_int(fsop_open(path, O_PATH, 0, false), -ENAMETOOLONG);

        memset(path + 1, 'n', NAME_MAX + 1);
        path[NAME_MAX + 2] = '\0';
        eq_int(fsop_open(path, O_PATH, 0, true), -ENAMETOOLONG);
        eq_int(fsop_open(path, O_PATH, 0, false), -ENAMETOOLONG);
}

/* Checks that fsop_open_parent opens `directory` of the rig and returns the name `wanted`. */
static void parent_is(const struct rig *rig, const char *path, bool follow, const char *directory,
                      struct slice wanted)
{
        struct slice name;
        struct stat got, want;
        _close_ int fd = fsop_open_parent(rig_path(rig, path), follow, &name);

        ok(fd >= 0);
        eq_slice(name, wanted);
        ok(fcntl(fd, F_GETFL) & O_PATH);
        eq_int(fstat(fd, &got), 0);
        eq_int(stat(rig_path(rig, directory), &want), 0);
        eq_u64(got.st_ino, want.st_ino);
}

static int parent_error(const struct rig *rig, const char *path, bool follow)
{
        struct slice name = { NULL, 0 };
        int r = fsop_open_parent(rig_path(rig, path), follow, &name);

        assert_null(name.p);
        return r;
}

TEST(parent_is_opened_and_the_last_name_left_alone)
{
        _rig_ struct rig rig = open_rig();

        parent_is(&rig, "file", true, "", S("file"));
        parent_is(&rig, "to-file", false, "", S("to-file"));
        parent_is(&rig, "dir/none//", false, "dir", S("none"));
        parent_is(&rig, "to-dir//inner", true, "dir", S("inner"));
        parent_is(&rig, "dir/../dir/x", false, "dir", S("x"));
        eq_int(parent_error(&rig, "to-dir/inner", false), -ENOTDIR);
        eq_int(parent_error(&rig, "dir/up/file", false), -ENOTDIR);
        eq_int(parent_error(&rig, "file/x", true), -ENOTDIR);
        eq_int(parent_error(&rig, "missing/x", false), -ENOENT);
        eq_int(parent_error(&rig, "loop/x", true), -ELOOP);
        eq_int(parent_error(&rig, "dir/.", true), -EINVAL);
        eq_int(parent_error(&rig, "dir/..", true), -EINVAL);
}

TEST(parent_of_the_root_does_not_exist)
{
        struct slice name;
        char path[PATH_MAX + 10];

        eq_int(fsop_open_parent("/", true, &name), -EINVAL);
        eq_int(fsop_open_parent("///", false, &name), -EINVAL);
        eq_int(fsop_open_parent("x", false, &name), -EINVAL);

        _close_ int fd = fsop_open_parent("//proc", false, &name);
        ok(fd >= 0);
        eq_slice(name, S("proc"));

        memset(path, '/', sizeof(path) - 1);
        path[sizeof(path) - 1] = '\0';
        eq_int(fsop_open_parent(path, true, &name), -ENAMETOOLONG);
}

static const char *regular_error(const char *path, bool follow, struct err *err)
{
        struct stat st;
        int fd = -1;

        *err = ERR_INIT;
        int r = fsop_open_regular(path, follow, &fd, &st, err);
        eq_int(r, err->code);
        eq_int(fd, -1);
        return err->text;
}

TEST(regular_file_is_opened_for_reading)
{
        _rig_ struct rig rig = open_rig();
        struct err err = ERR_INIT;
        struct stat st;
        char bytes[16];

        for (int follow = 0; follow < 2; follow++) {
                int opened = -1;
                eq_int(fsop_open_regular(rig_path(&rig, "file"), follow, &opened, &st, &err), 0);
                _close_ int fd = opened;
                eq_int(st.st_size, 7);
                eq_int(read(fd, bytes, sizeof(bytes)), 7);
        }
}

TEST(whatever_is_not_a_regular_file_is_refused_without_waiting)
{
        _rig_ struct rig rig = open_rig();
        struct err err;
        char wanted[2 * PATH_MAX];

        const char *names[] = { "dir", "fifo", "" };
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                const char *path = rig_path(&rig, names[i]);
                snprintf(wanted, sizeof(wanted), "path `%s` is not a file", path);
                eq_str(regular_error(path, true, &err), wanted);
                eq_int(err.os_errno, 0);
                eq_int(err.code, -EINVAL);
                eq_str(regular_error(path, false, &err), "path is not a regular file");
                eq_int(err.code, -EINVAL);
        }
        eq_str(regular_error("/dev/null", true, &err), "path `/dev/null` is not a file");
        eq_str(regular_error("/dev/null", false, &err), "path is not a regular file");
        eq_str(regular_error(rig_path(&rig, "to-file"), false, &err), "Symbolic link loop (os error 40)");
        eq_str(regular_error(rig_path(&rig, "to-dir/inner"), false, &err), "Not a directory (os error 20)");
        eq_str(regular_error(rig_path(&rig, "missing"), true, &err),
               "No such file or directory (os error 2)");
        eq_int(err.os_errno, ENOENT);
}

TEST(socket_is_not_opened)
{
        _rig_ struct rig rig = rig_new();
        struct err err;
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        snprintf(address.sun_path, sizeof(address.sun_path), "%s", rig_path(&rig, "s"));
        _close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        eq_int(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        eq_str(regular_error(address.sun_path, true, &err), "No such device or address (os error 6)");
}
