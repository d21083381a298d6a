/* fs_put: `farhand fs put`: copies a file of this machine to an environment.
 *
 * A small file is one fs/writeFile, which replaces the old content as a whole. A larger file is written to a temporary file beside
 * the target, which is then renamed to the target. As with fs/writeFile, the target is written in place when it is a link, has
 * several names or another owner, or when no file can be made beside it.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "base/random.h"
#include "farfs/fs_flow.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#define SMALL_BYTES ((size_t)256 * 1024)

struct put {
        struct fs fs;
        bool keeps_mode;
        int fd; /* the file of this machine */
        struct stat st;
        const char *here, *there; /* the two paths as the user named them */
        const char *path;         /* the absolute path of the file of the server */
        bool has_old;
        struct farhand_metadata old;
        char *temporary;        /* a file beside the target; NULL: the target is written in place */
        char head[SMALL_BYTES]; /* the first bytes of the file */
        size_t head_bytes;
};

static bool is_refused(const struct farhand_error *error)
{
        int e = farhand_error_errno(error);
        return e == EACCES || e == EPERM || e == EROFS;
}

static struct farhand_file *open_there(struct put *p, const char *path, struct farhand_error *ret_error)
{
        struct farhand_file_options options = FARHAND_FILE_OPTIONS_INIT;
        options.mode = FARHAND_FILE_REPLACE;
        struct farhand_file *file = farhand_file_open(p->fs.client, path, &options, ret_error);
        if (file && farhand_file_wait(file, -1, ret_error) == 0)
                return file;
        farhand_file_free(file);
        return NULL;
}

/* Opens a temporary file beside the target. Returns NULL when that fails: then the target is to be written in place if p->temporary
 * is NULL, and otherwise *ret_error says why. */
static struct farhand_file *open_temporary(struct put *p, struct farhand_error *ret_error)
{
        struct farhand_metadata m;
        uint64_t number;
        if (!farhand_has_capability(p->fs.client, "fsControlV1") ||
            (p->has_old && (p->old.is_symlink || !p->old.is_file || p->old.links != 1)))
                return NULL;
        random_bytes(&number, sizeof(number));
        const char *slash = strrchr(p->path, '/');
        p->temporary = mem_printf("%.*s.farhand-%016" PRIx64, (int)(slash + 1 - p->path), p->path, number);
        struct farhand_file *file = open_there(p, p->temporary, ret_error);
        if (!file && p->has_old && is_refused(ret_error)) {
                free(TAKE(p->temporary));
                return NULL;
        }
        if (!file || !p->has_old)
                return file;
        if (farhand_stat(p->fs.client, p->temporary, &m, ret_error) == 0 && m.uid == p->old.uid &&
            m.gid == p->old.gid)
                return file;
        farhand_file_free(file);
        (void)farhand_remove(p->fs.client, p->temporary, false, true, NULL);
        free(TAKE(p->temporary));
        return NULL;
}

static int64_t modified_ms(const struct put *p)
{
        return (int64_t)p->st.st_mtim.tv_sec * 1000 + p->st.st_mtim.tv_nsec / 1000000;
}

/* Gives the written file its mode, its time and its final name. */
static int settle(struct put *p, struct farhand_error *ret_error)
{
        const char *written = p->temporary ? p->temporary : p->path;
        int mode = p->keeps_mode                ? (int)(p->st.st_mode & 07777)
                   : p->temporary && p->has_old ? (int)p->old.mode
                                                : -1;
        int r = 0;
        if (mode >= 0)
                r = farhand_set_metadata(p->fs.client, written, mode, p->keeps_mode ? modified_ms(p) : -1,
                                         ret_error);
        if (r == 0 && p->temporary)
                r = farhand_rename(p->fs.client, p->temporary, p->path, ret_error);
        return r;
}

static void put_large(struct put *p)
{
        struct farhand_error error = { 0 };
        struct fs_flow flow = { .fs = &p->fs, .there = p->there, .here = p->here, .guards_signals = true };
        flow.file = open_temporary(p, &error);
        if (!flow.file && !p->temporary)
                flow.file = open_there(p, p->path, &error);
        if (!flow.file)
                fs_complain(&p->fs, p->there, &error);
        int r = flow.file ? fs_flow_in(&flow, p->fd, slice_from(p->head, p->head_bytes)) : -1;
        if (r == 0) {
                r = settle(p, &error);
                if (r < 0)
                        fs_complain(&p->fs, p->there, &error);
        }
        bool was_open = flow.file != NULL;
        farhand_file_free(flow.file);
        if (r < 0 && p->temporary && was_open && !fs_is_lost(&p->fs))
                (void)farhand_remove(p->fs.client, p->temporary, false, true, NULL);
        if (r < 0)
                p->fs.has_failed = true;
        free(p->temporary);
        fs_flow_end(&flow);
}

static void put_small(struct put *p)
{
        struct farhand_error error;
        int mode = p->keeps_mode ? (int)(p->st.st_mode & 07777) : -1;
        int r = farhand_write_file(p->fs.client, p->path, p->head, p->head_bytes, mode, &error);
        if (r == 0 && p->keeps_mode)
                r = farhand_set_metadata(p->fs.client, p->path, mode, modified_ms(p), &error);
        if (r < 0)
                fs_complain(&p->fs, p->there, &error);
}

/* Reads the beginning of a regular file. Returns 1 when the file has no more bytes, 0 when it has, or -errno. */
static int read_head(struct put *p)
{
        while (S_ISREG(p->st.st_mode) && p->head_bytes < sizeof(p->head)) {
                ssize_t n = read(p->fd, p->head + p->head_bytes, sizeof(p->head) - p->head_bytes);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : 1;
                p->head_bytes += (size_t)n;
        }
        return 0;
}

static int open_here(struct put *p)
{
        bool is_stdin = strcmp(p->here, "-") == 0;
        p->fd = is_stdin ? STDIN_FILENO : open(p->here, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (p->fd < 0 || fstat(p->fd, &p->st) < 0)
                return -errno;
        return S_ISDIR(p->st.st_mode) ? -EISDIR : read_head(p);
}

static void put(struct put *p)
{
        struct farhand_error error;
        p->path = fs_path(&p->fs, p->there);
        if (!p->path)
                return;
        int r = open_here(p);
        if (r < 0) {
                fs_complain_errno(&p->fs, p->here, -r);
                return;
        }
        p->has_old = farhand_stat(p->fs.client, p->path, &p->old, &error) == 0;
        if (p->has_old && p->old.is_directory && strcmp(p->here, "-") != 0) {
                p->path = fs_join(&p->fs, p->path, fs_last_name(&p->fs, p->here));
                p->has_old = farhand_stat(p->fs.client, p->path, &p->old, &error) == 0;
        }
        if (p->has_old && p->old.is_directory)
                fs_complain_errno(&p->fs, p->there, EISDIR);
        else if (r == 1)
                put_small(p);
        else
                put_large(p);
}

int fs_put(int argc, char **argv)
{
        struct put *p = mem_new(struct put);
        const struct arg table[] = {
                REMOTE_ARGS(&p->fs.remote),
                { "preserve", ARG_FLAG, NULL, "keep the mode and the time", .letter = 'p',
                  .target = &p->keeps_mode },
                { .name = NULL },
        };
        const struct args spec = { .usage = "farhand fs put [OPTIONS] LOCAL|- PATH",
                                   .about = "Write a file of here, or stdin, to a file of there.",
                                   .table = table,
                                   .is_mixed = true,
                                   .operands = OFFER_FILE };
        p->fd = -1;
        int rest = 0, code = fs_begin(&p->fs, &spec, argc, argv, 2, 2, &rest);
        if (code < 0) {
                p->here = argv[rest];
                p->there = argv[rest + 1];
                put(p);
        }
        if (p->fd > STDERR_FILENO)
                fd_close(p->fd);
        code = fs_end(&p->fs, code);
        free(p);
        return code;
}
