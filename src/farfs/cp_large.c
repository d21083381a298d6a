/* cp_large: copies one file as a stream into its part, which is renamed to the destination when it is complete.
 *
 * A part that an earlier copy has left is continued when digests say that the source begins with the same bytes. On a server without
 * fsBatchV1 there is no part: the destination itself is written.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "farfs/cp.h"
#include "farfs/cp_claim.h"
#include "farfs/fs_flow.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)256 * 1024)
#define WINDOW 4 /* blocks of 256 KiB under way: each is held twice, and more make nothing faster */
#define CUTS_MAX \
        100 /* how often a rename or a removal is tried; another try follows only when the connection was lost */

struct large {
        struct cp *cp;
        struct cp_dir *from, *to;
        const char *from_name, *to_name;
        struct cp_part part;
        const char *written; /* the name that is written to */
        struct cp_meta meta; /* of the source, when it was opened */
        int in, out;         /* descriptors of this machine; -1: the file is far_in or far_out */
        struct farhand_file *far_in, *far_out;
        struct farhand_file *claim; /* holds the lock of a part on a server until it is renamed */
        uint64_t offset;            /* how many bytes of the part were kept */
        uint64_t done;              /* how many bytes the copy has, with those that were kept */
};

/* ---- opening ---- */

static int open_source(struct large *l)
{
        struct stat st;
        if (!cp_is_near(l->from->side))
                return 0;
        l->in = cp_near_open(l->from->fd, l->from_name, &st);
        if (l->in < 0) {
                cp_complain_errno(l->from, l->from_name, -l->in);
                return -1;
        }
        cp_meta_from_stat(&st, &l->meta);
        return 0;
}

/* Finds how much of the file an earlier copy has left. */
static uint64_t find_offset(void *arg)
{
        struct large *l = arg;
        struct cp_meta part;
        bool can_compare = (cp_is_near(l->from->side) || l->from->side->has_batch) &&
                           (cp_is_near(l->to->side) || l->to->side->has_batch);
        if (l->written != l->part.name || !can_compare || cp_look(l->to, l->written, &part) < 0 ||
            part.kind != CP_FILE || part.size == 0 || part.size > l->meta.size)
                return 0;
        return cp_compare(l->from, l->from_name, l->to, l->written, part.size, true) == 1 ? part.size : 0;
}

/* Opens the part, or makes it. What somebody else has put under its name is removed first. */
static int open_part(struct large *l)
{
        const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
        struct stat st;
        int fd = openat(l->to->fd, l->written, flags, 0600);
        if (fd < 0 && errno != ELOOP)
                return -errno;
        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
            st.st_uid == geteuid())
                return fd;
        fd_close(fd);
        if (unlinkat(l->to->fd, l->written, 0) < 0)
                return -errno;
        fd = openat(l->to->fd, l->written, flags | O_EXCL, 0600);
        return fd < 0 ? -errno : fd;
}

static int open_near(struct large *l)
{
        int r = l->out = open_part(l);
        if (r >= 0 && flock(l->out, LOCK_EX | LOCK_NB) < 0) {
                cp_complain_text(l->to, l->to_name, "another copy to this file is under way");
                return -1;
        }
        if (r >= 0) {
                l->offset = find_offset(l);
                if (ftruncate(l->out, (off_t)l->offset) < 0 || lseek(l->out, (off_t)l->offset, SEEK_SET) < 0)
                        r = -errno;
        }
        if (r < 0)
                cp_complain_errno(l->to, l->written, -r);
        return r < 0 ? -1 : 0;
}

static bool is_private(const struct cp_meta *meta)
{
        return meta->has_mode && (meta->mode & 044) != 044;
}

static struct farhand_file *open_stream(struct cp_dir *dir, const char *name, enum farhand_file_mode mode,
                                        uint64_t offset)
{
        struct farhand_file_options options = FARHAND_FILE_OPTIONS_INIT;
        struct farhand_error error;
        _free_ char *path = cp_path(dir, name);
        options.mode = mode;
        options.offset = offset;
        options.window = WINDOW;
        struct farhand_file *file = farhand_file_open(dir->side->fs.client, path, &options, &error);
        if (!file)
                cp_complain(dir, name, &error);
        return file;
}

static int open_far(struct large *l)
{
        struct farhand_error error;
        if (l->written != l->part.name) {
                cp_tell_lack(l->to->side);
        } else {
                l->claim = cp_claim(l->to, l->written, is_private(&l->meta), find_offset, l, &l->offset);
                if (!l->claim)
                        return -1;
        }
        l->far_out = open_stream(l->to, l->written, l->claim ? FARHAND_FILE_RESUME : FARHAND_FILE_REPLACE,
                                 l->offset);
        if (!l->far_out)
                return -1;
        if (farhand_file_wait(l->far_out, -1, &error) < 0) {
                cp_complain(l->to, l->written, &error);
                return -1;
        }
        _free_ char *path = cp_path(l->to, l->written);
        if (l->offset > 0 && is_private(&l->meta) &&
            farhand_set_metadata(l->to->side->fs.client, path, 0600, -1, &error) < 0) {
                cp_complain(l->to, l->written, &error);
                return -1;
        }
        return 0;
}

static int open_all(struct large *l)
{
        if (open_source(l) < 0 || (cp_is_near(l->to->side) ? open_near(l) : open_far(l)) < 0)
                return -1;
        l->done = l->offset;
        l->cp->counts.resumed_bytes += l->offset;
        if (l->in >= 0 && lseek(l->in, (off_t)l->offset, SEEK_SET) < 0) {
                cp_complain_errno(l->from, l->from_name, errno);
                return -1;
        }
        if (l->in < 0)
                l->far_in = open_stream(l->from, l->from_name, FARHAND_FILE_READ, l->offset);
        return l->in < 0 && !l->far_in ? -1 : 0;
}

/* ---- the stream ---- */

/* Returns how many bytes were read, 0 at the end, -EAGAIN when none have come yet, or -1; then stderr was told. */
static int64_t read_some(struct large *l, char *piece)
{
        struct farhand_error error;
        if (l->in >= 0) {
                ssize_t n;
                while ((n = read(l->in, piece, PIECE_BYTES)) < 0 && errno == EINTR)
                        ;
                if (n < 0)
                        cp_complain_errno(l->from, l->from_name, errno);
                return n < 0 ? -1 : n;
        }
        int64_t n = farhand_file_read(l->far_in, piece, PIECE_BYTES, &error);
        if (n >= 0 || n == -EAGAIN)
                return n;
        cp_complain(l->from, l->from_name, &error);
        return -1;
}

/* Writes the whole piece. Returns 0, or -1; then stderr was told. */
static int write_piece(struct large *l, const char *piece, size_t n)
{
        struct farhand_error error;
        if (l->out >= 0) {
                int r = cp_near_write_all(l->out, slice_from(piece, n));
                if (r < 0)
                        cp_complain_errno(l->to, l->to_name, -r);
                return r < 0 ? -1 : 0;
        }
        for (size_t at = 0; at < n;) {
                int64_t some = farhand_file_write(l->far_out, piece + at, n - at, &error);
                if (some == -EAGAIN) {
                        cp_wait(l->cp, -1, 0);
                        continue;
                }
                if (some < 0) {
                        cp_complain(l->to, l->to_name, &error);
                        return -1;
                }
                at += (size_t)some;
        }
        return 0;
}

static int finish_stream(struct large *l)
{
        struct farhand_error error;
        int r;
        if (!l->far_out)
                return 0;
        while ((r = farhand_file_finish(l->far_out, &error)) == -EAGAIN)
                cp_wait(l->cp, -1, 0);
        if (r < 0)
                cp_complain(l->to, l->to_name, &error);
        return r < 0 ? -1 : 0;
}

/* Moves all bytes from the source to the destination. Returns 0, or -1; then stderr was told. */
static int carry(struct large *l)
{
        _free_ char *piece = mem_alloc(PIECE_BYTES);
        for (;;) {
                int64_t n = read_some(l, piece);
                if (n == -EAGAIN) {
                        cp_wait(l->cp, -1, 0);
                        continue;
                }
                if (n <= 0)
                        return n < 0 ? -1 : finish_stream(l);
                l->done += (uint64_t)n;
                if (l->done > l->meta.size) {
                        cp_complain_text(l->from, l->from_name, "it grew while it was copied");
                        return -1;
                }
                if (write_piece(l, piece, (size_t)n) < 0)
                        return -1;
                l->cp->progress.file_done = l->done;
                cp_progress_update(l->cp);
        }
}

/* ---- the end ---- */

/* Returns whether the source is what it was at the beginning. */
static bool is_unchanged(struct large *l)
{
        struct cp_meta now;
        struct stat st;
        if (l->in >= 0) {
                if (fstat(l->in, &st) < 0)
                        return false;
                cp_meta_from_stat(&st, &now);
        } else if (cp_look(l->from, l->from_name, &now) < 0) {
                return false;
        }
        if (l->done == l->meta.size && now.size == l->meta.size && now.modified_ms == l->meta.modified_ms)
                return true;
        cp_complain_text(l->from, l->from_name, "it was changed while it was copied");
        return false;
}

/* Renames a file of a server. When the connection is lost before the answer, the old name is looked at: the rename was done if that
 * name is gone. */
static int rename_far(struct cp_dir *dir, const char *from, const char *to, struct farhand_error *ret_error)
{
        _free_ char *from_path = cp_path(dir, from), *to_path = cp_path(dir, to);
        struct cp_meta left;
        for (int i = 0; i < CUTS_MAX; i++) {
                int r = farhand_rename(dir->side->fs.client, from_path, to_path, ret_error);
                if (r != -ECONNRESET || cp_is_lost(dir->cp))
                        return r;
                if (cp_look(dir, from, &left) == 0 && left.kind == CP_NOTHING)
                        return 0;
        }
        return -ECONNRESET;
}

/* Gives the part its mode and its time, and renames it to the destination; so does settle_near. */
static int settle_far(struct large *l)
{
        struct farhand_error error;
        if (l->written != l->part.name)
                return 0;
        if (!cp_claim_is_held(l->to, l->to_name, l->claim))
                return -1;
        _free_ char *path = cp_path_json(l->to, l->written);
        _free_ char *mode =
                l->meta.has_mode ? mem_printf(",\"mode\":%u", l->meta.mode & 0777) : mem_strdup("");
        _free_ char *params =
                mem_printf("{\"path\":%s%s,\"modifiedAtMs\":%jd}", path, mode, (intmax_t)l->meta.modified_ms);
        int r = cp_call(l->to->side, "fs/setMetadata", params, NULL, &error);
        if (r == 0)
                r = rename_far(l->to, l->written, l->to_name, &error);
        if (r < 0)
                cp_complain(l->to, l->to_name, &error);
        return r;
}

static mode_t new_file_mode(void)
{
        mode_t mask = umask(0);
        (void)umask(mask);
        return 0666 & ~mask;
}

static int settle_near(struct large *l)
{
        if (!l->meta.has_mode) {
                cp_tell_lack(l->from->side);
                l->meta.has_mode = true;
                l->meta.mode = (uint32_t)new_file_mode();
        }
        int r = cp_near_finish(l->out, &l->meta);
        if (r == 0 && renameat(l->to->fd, l->written, l->to->fd, l->to_name) < 0)
                r = -errno;
        if (close(TAKE_FD(l->out)) < 0 && r == 0)
                r = -errno;
        if (r < 0)
                cp_complain_errno(l->to, l->to_name, -r);
        return r;
}

void cp_large(struct cp_dir *from, const struct cp_entry *entry, struct cp_dir *to, const char *name)
{
        struct large l = { .cp = from->cp,
                           .from = from,
                           .to = to,
                           .from_name = entry->name,
                           .to_name = name,
                           .part = cp_part_name(name),
                           .meta = entry->meta,
                           .in = -1,
                           .out = -1 };
        l.written = cp_is_near(to->side) || to->side->has_batch ? l.part.name : name;
        from->cp->progress.file_size = entry->meta.size;
        from->cp->progress.file_done = 0;
        from->cp->progress.name = entry->name;
        int r = open_all(&l);
        if (r == 0)
                r = carry(&l);
        if (r == 0 && is_unchanged(&l) && (l.out >= 0 ? settle_near(&l) : settle_far(&l)) == 0)
                cp_done(from, entry->name, to, name, l.done - l.offset);
        from->cp->progress.file_size = 0;
        farhand_file_free(l.far_in);
        farhand_file_free(l.far_out);
        farhand_file_free(l.claim);
        fd_close(l.in);
        fd_close(l.out);
}

/* ---- stdin and stdout ---- */

void cp_stdin(struct cp_dir *to, const char *name)
{
        struct cp_part part = cp_part_name(name);
        const char *written = to->side->has_batch ? part.name : name;
        struct cp_meta old;
        struct farhand_error error;
        if (cp_look(to, name, &old) < 0)
                return;
        if (old.kind == CP_DIRECTORY) {
                cp_complain_errno(to, name, EISDIR);
                return;
        }
        bool has_part = written != name;
        uint64_t none = 0;
        struct farhand_file *claim =
                has_part ? cp_claim(to, written, old.kind == CP_FILE && is_private(&old), NULL, NULL, &none)
                         : NULL;
        if (has_part && !claim)
                return;
        struct farhand_file *file = open_stream(to, written, FARHAND_FILE_REPLACE, 0);
        struct fs_flow flow = { .fs = &to->side->fs, .file = file, .there = name, .here = "stdin" };
        int r = file ? fs_flow_in(&flow, STDIN_FILENO, (struct slice){ 0 }) : -1;
        if (r < 0)
                to->cp->counts.failed++;
        farhand_file_free(file);
        _free_ char *path = cp_path(to, written);
        if (r == 0 && has_part && !cp_claim_is_held(to, name, claim))
                r = -1;
        if (r == 0 && has_part && old.kind == CP_FILE && old.has_mode)
                r = farhand_set_metadata(to->side->fs.client, path, (int)(old.mode & 0777), -1, &error);
        if (r == 0 && has_part)
                r = rename_far(to, written, name, &error);
        farhand_file_free(claim);
        if (r == 0)
                to->cp->counts.files++;
        else if (r != -1)
                cp_complain(to, name, &error);
}

void cp_stdout(struct cp_dir *from, const char *name)
{
        struct farhand_file *file = open_stream(from, name, FARHAND_FILE_READ, 0);
        struct fs_flow flow = { .fs = &from->side->fs, .file = file, .there = name, .here = "stdout" };
        if (file && fs_flow_out(&flow, STDOUT_FILENO) == 0)
                from->cp->counts.files++;
        else
                from->cp->counts.failed++;
        farhand_file_free(file);
}
