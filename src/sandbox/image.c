/* image: lays out a plan as a block of memory, with two passes over the same code: the first counts the bytes, the second
 * writes them. */
#include "sandbox/image.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGNMENT 8

/* The block and the offset of its next free byte. While `block` is NULL, bytes are only counted. */
struct layout {
        char *block;
        size_t n;
};

static uint32_t put(struct layout *l, const void *p, size_t n)
{
        size_t at = (l->n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (l->block && n > 0)
                memcpy(l->block + at, p, n);
        l->n = at + n;
        return (uint32_t)at;
}

static uint32_t put_text(struct layout *l, struct slice s)
{
        if (l->block) {
                if (s.n > 0) /* most operations have no text */
                        memcpy(l->block + l->n, s.p, s.n);
                l->block[l->n + s.n] = 0;
        }
        l->n += s.n + 1;
        return (uint32_t)(l->n - s.n - 1);
}

/* Removes the leading slash; no operation is on the root itself. */
static struct slice relative(struct slice path)
{
        return slice_from(path.p + 1, path.n - 1);
}

static void lay_ops(struct layout *l, const struct plan *p, struct image *image)
{
        struct image_op op = { 0 };
        image->op_count = (uint32_t)p->op_count;
        image->ops = put(l, NULL, 0);
        for (size_t i = 0; i < p->op_count; i++)
                (void)put(l, &op, sizeof(op));
        for (size_t i = 0; i < p->op_count; i++) {
                const struct plan_op *from = &p->ops[i];
                op = (struct image_op){
                        .kind = (uint16_t)from->kind,
                        .is_directory = from->is_directory,
                        .may_be_missing = from->may_be_missing,
                        .is_guarded = from->is_guarded,
                        .path = put_text(l, relative(from->path)),
                        .text = put_text(l, from->text),
                        .dev = from->dev,
                        .ino = from->ino,
                };
                if (l->block)
                        memcpy(l->block + image->ops + i * sizeof(op), &op, sizeof(op));
        }
}

static void lay_placeholders(struct layout *l, const struct plan *p, const struct image_extra *extra,
                             struct image *image)
{
        const struct bwrap_arguments *arguments = extra->bwrap ? extra->arguments : NULL;
        const struct placeholder_locks *locks = extra->locks;
        struct image_placeholder placeholder = { 0 };
        if (locks && p->placeholder_count > 0)
                image->locks = put_text(l, slice_from_str(locks->path));
        image->placeholder_count = (uint32_t)p->placeholder_count;
        image->placeholders = put(l, NULL, 0);
        for (size_t i = 0; i < p->placeholder_count; i++)
                (void)put(l, &placeholder, sizeof(placeholder));
        for (size_t i = 0; i < p->placeholder_count; i++) {
                const struct plan_placeholder *from = &p->placeholders[i];
                size_t name = from->path.n;
                while (from->path.p[name - 1] != '/')
                        name--;
                placeholder = (struct image_placeholder){
                        .path = put_text(l, from->path),
                        .is_directory = from->is_directory,
                        .op = (uint32_t)from->op,
                        .fd = -1,
                        .dir = -1,
                        .spent = -1,
                        .parent_dev = from->dev,
                        .parent_ino = from->ino,
                };
                placeholder.name = placeholder.path + (uint32_t)name;
                if (locks) {
                        struct slice last = slice_from(from->path.p + name, from->path.n - name);
                        placeholder.byte = placeholder_lock_byte(locks, from->dev, from->ino, last);
                        placeholder.common_byte = placeholder_common_byte(from->dev, from->ino, last);
                }
                if (l->block)
                        ((struct image_op *)(void *)(l->block + image->ops))[placeholder.op]
                                .is_on_placeholder = true;
                if (arguments)
                        placeholder.bwrap = arguments->placeholders[i];
                if (l->block)
                        memcpy(l->block + image->placeholders + i * sizeof(placeholder), &placeholder,
                               sizeof(placeholder));
        }
}

static void lay_bwrap(struct layout *l, const struct image_extra *extra, struct image *image)
{
        if (extra->backend != BACKEND_BUBBLEWRAP)
                return;
        if (!image->needs_user) {
                image->backend = BACKEND_NAMESPACES; /* root needs no bwrap */
                return;
        }
        struct slice text = buf_slice(&extra->arguments->text), others = buf_slice(&extra->arguments->others);
        image->program = extra->bwrap->program_file.mark;
        image->init = extra->bwrap->init_file.mark;
        image->init_is_copy = extra->bwrap->init_file.copy >= 0;
        image->finishes = extra->bwrap->finish_errno == 0;
        image->arguments = put(l, text.p, text.n);
        image->arguments_bytes = (uint32_t)text.n;
        image->arguments_others = put(l, others.p, others.n);
        image->empties = extra->arguments->empties;
}

static void lay(struct layout *l, const struct plan *p, const struct image_extra *extra)
{
        uid_t uid = geteuid();
        bool has_namespaces = extra->backend != BACKEND_LANDLOCK;
        struct image image = {
                .backend = extra->backend,
                .has_view = p->has_view,
                .has_network = p->has_network,
                .root = p->root,
                .needs_user = has_namespaces && (p->has_view || uid != 0),
                .uid = uid,
                .gid = getegid(),
                .limits = extra->limits,
                .lock_fd = -1,
                .common_fd = -1,
                .hides_proc = extra->hides_proc,
                .landlock_abi = (uint32_t)extra->landlock_abi,
        };
        (void)put(l, &image, sizeof(image));
        image.filter_count = (uint32_t)extra->filter->count;
        image.filter = put(l, extra->filter->code, extra->filter->count * sizeof(*extra->filter->code));
        lay_ops(l, p, &image);
        lay_placeholders(l, p, extra, &image);
        lay_bwrap(l, extra, &image);
        image.bytes = (uint32_t)l->n;
        if (l->block)
                memcpy(l->block, &image, sizeof(image));
}

int image_make(const struct plan *p, const struct image_extra *extra)
{
        struct layout count = { 0 };
        lay(&count, p, extra);
        if (count.n > IMAGE_BYTES_MAX)
                return -E2BIG;
        _free_ char *block = mem_zalloc(count.n);
        struct layout layout = { .block = block };
        lay(&layout, p, extra);
        _close_ int fd = memfd_create("farhand-plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return -errno;
        int r = fd_write_all(fd, slice_from(block, layout.n));
        if (r == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
                r = -errno;
        return r < 0 ? r : TAKE_FD(fd);
}

struct image *image_map(int fd)
{
        uint32_t bytes;
        unsigned tries = 0;
        long r;
        do
                r = sys_call4(SYS_pread64, fd, &bytes, sizeof(bytes), offsetof(struct image, bytes));
        while (sys_again(r, &tries));
        if (r != sizeof(bytes))
                return NULL;
        return sys_map(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
}

void image_unmap(struct image *i)
{
        if (i)
                (void)munmap(i, i->bytes);
}
