/* fs_get: `farhand fs cat` and `farhand fs get`: copy files of an environment to stdout and to files of this machine. */
#include "base/fd.h"
#include "base/mem.h"
#include "farfs/fs_flow.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens a file of the server, and waits for its first block or an error. Returns NULL after it has printed the error on stderr. */
static struct farhand_file *open_there(struct fs *fs, const char *given, const char *path)
{
        struct farhand_file_options options = FARHAND_FILE_OPTIONS_INIT;
        struct farhand_error error;
        struct farhand_metadata m;
        struct farhand_file *file = farhand_file_open(fs->client, path, &options, &error);
        if (file && farhand_file_wait(file, -1, &error) == 0)
                return file;
        /* Servers tell in different words that the path is a directory, so it is looked up. */
        if (farhand_error_errno(&error) == 0 && farhand_stat(fs->client, path, &m, NULL) == 0 &&
            m.is_directory)
                fs_complain_errno(fs, given, EISDIR);
        else
                fs_complain(fs, given, &error);
        farhand_file_free(file);
        return NULL;
}

/* Returns 0, or -1 when the file could not be printed as a whole. */
static int print_file(struct fs *fs, const char *given)
{
        const char *path = fs_path(fs, given);
        struct farhand_file *file = path ? open_there(fs, given, path) : NULL;
        if (!file)
                return -1;
        struct fs_flow flow = { .fs = fs, .file = file, .there = given, .here = "stdout" };
        int r = fs_flow_out(&flow, STDOUT_FILENO);
        fs_flow_end(&flow);
        farhand_file_free(file);
        return r;
}

int fs_cat(int argc, char **argv)
{
        struct fs fs = { 0 };
        const struct arg table[] = { REMOTE_ARGS(&fs.remote), { .name = NULL } };
        const struct args spec = { .usage = "farhand fs cat [OPTIONS] PATH...",
                                   .about = "Print files, one behind the other.",
                                   .table = table,
                                   .is_mixed = true,
                                   .operands = OFFER_FILE };
        int rest = 0, code = fs_begin(&fs, &spec, argc, argv, 1, -1, &rest);
        for (int i = rest; code < 0 && i < argc && !fs_is_lost(&fs); i++)
                (void)print_file(&fs, argv[i]); /* print_file has printed its error */
        return fs_end(&fs, code);
}

/* ---- get ---- */

struct get {
        struct fs fs;
        bool keeps_mode;
        const char *given;  /* the file of the server, as the user named it */
        const char *path;   /* the absolute path of the file of the server */
        const char *target; /* the file of this machine */
        char *temporary;    /* a file beside the target; NULL: the target is written in place */
        struct stat old;    /* what the target was before, if has_old */
        bool has_old;
};

static mode_t new_file_mode(void)
{
        mode_t mask = umask(0);
        (void)umask(mask);
        return 0666 & ~mask;
}

/* Opens the file to write: a temporary file, or the target itself when that is a link, has several names or is no regular file, or
 * when no file can be made beside it. Returns the descriptor, or -1 after it has printed why on stderr. */
static int open_here(struct get *g)
{
        g->has_old = lstat(g->target, &g->old) == 0;
        const char *slash = strrchr(g->target, '/');
        int directory_bytes = slash ? (int)(slash + 1 - g->target) : 0;
        int fd = -1;
        if (!g->has_old || (S_ISREG(g->old.st_mode) && g->old.st_nlink == 1 && g->old.st_uid == geteuid())) {
                g->temporary = mem_printf("%.*s.farhand-XXXXXX", directory_bytes, g->target);
                fd = mkostemp(g->temporary, O_CLOEXEC);
                if (fd >= 0)
                        return fd;
                free(TAKE(g->temporary));
        }
        fd = open(g->target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
        if (fd < 0)
                fs_complain_errno(&g->fs, g->target, errno);
        return fd;
}

/* Gives the new file its mode, its time and its final name. */
static int settle(struct get *g, int fd)
{
        struct farhand_metadata m = { 0 };
        struct farhand_error error;
        if (g->keeps_mode && farhand_stat(g->fs.client, g->path, &m, &error) < 0) {
                fs_complain(&g->fs, g->given, &error);
                return -1;
        }
        mode_t mode = g->has_old ? g->old.st_mode & 07777 : new_file_mode();
        bool is_told = g->keeps_mode && m.has_mode;
        if ((g->temporary || is_told) && fchmod(fd, is_told ? m.mode : mode) < 0) {
                fs_complain_errno(&g->fs, g->target, errno);
                return -1;
        }
        const struct timespec when = { .tv_sec = (time_t)(m.modified_ms / 1000),
                                       .tv_nsec = (long)(m.modified_ms % 1000) * 1000000 };
        const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, when };
        if (g->keeps_mode)
                (void)futimens(fd, times); /* a special file may have no time */
        if (g->temporary && rename(g->temporary, g->target) < 0) {
                fs_complain_errno(&g->fs, g->target, errno);
                return -1;
        }
        return 0;
}

static void write_here(struct get *g, struct farhand_file *file)
{
        struct fs_flow flow = {
                .fs = &g->fs, .file = file, .there = g->given, .here = g->target, .guards_signals = true
        };
        int fd = open_here(g);
        int r = fd < 0 ? -1 : fs_flow_out(&flow, fd);
        if (r == 0)
                r = settle(g, fd);
        /* On a network file system a full disk may show only at the close. */
        if (fd >= 0 && close(fd) < 0 && r == 0)
                fs_complain_errno(&g->fs, g->target, errno);
        if (r < 0) {
                g->fs.has_failed = true;
                if (g->temporary)
                        (void)unlink(g->temporary);
        }
        free(g->temporary);
        fs_flow_end(&flow);
}

static void get(struct get *g, const char *given, const char *target)
{
        struct stat st;
        g->given = given;
        g->path = fs_path(&g->fs, given);
        if (!g->path)
                return;
        g->target = target;
        if (stat(target, &st) == 0 && S_ISDIR(st.st_mode))
                g->target = fs_join(&g->fs, target, fs_last_name(&g->fs, g->path));
        struct farhand_file *file = open_there(&g->fs, given, g->path);
        if (file)
                write_here(g, file);
        farhand_file_free(file);
}

int fs_get(int argc, char **argv)
{
        struct get g = { 0 };
        const struct arg table[] = {
                REMOTE_ARGS(&g.fs.remote),
                { "preserve", ARG_FLAG, NULL, "keep the mode and the time", .letter = 'p',
                  .target = &g.keeps_mode },
                { .name = NULL },
        };
        const struct args spec = { .usage = "farhand fs get [OPTIONS] PATH LOCAL|-",
                                   .about = "Write a file of there to a file of here, or to stdout.",
                                   .table = table,
                                   .is_mixed = true,
                                   .operands = OFFER_FILE };
        int rest = 0, code = fs_begin(&g.fs, &spec, argc, argv, 2, 2, &rest);
        if (code < 0 && strcmp(argv[rest + 1], "-") == 0)
                (void)print_file(&g.fs, argv[rest]);
        else if (code < 0)
                get(&g, argv[rest], argv[rest + 1]);
        return fs_end(&g.fs, code);
}
