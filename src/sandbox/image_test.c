/* image_test: an image holds the operations, texts and placeholders of its plan. */
#include "unit.h"

#include "base/arena.h"
#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/image.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static struct sock_filter code[] = { { 6, 0, 0, 0x7fff0000 }, { 6, 0, 0, 0 } };
static const struct seccomp_filter filter = { .code = code, .count = ARRAY_LEN(code) };
static const struct image_extra extra = { .filter = &filter, .landlock_abi = 5 };

static struct image *image_of(const struct plan *p, int *ret_fd)
{
        *ret_fd = image_make(p, &extra);
        ok(*ret_fd >= 0);
        struct image *i = image_map(*ret_fd);
        ok(i != NULL);
        return i;
}

static void image_end(struct image *i, int fd)
{
        image_unmap(i);
        close(fd);
}

/* Returns the text at an offset, which must end with a NUL inside of the block. */
static const char *text_at(const struct image *i, uint32_t offset)
{
        ok(offset >= sizeof(*i) && offset < i->bytes);
        ok(memchr(image_at(i, offset), 0, i->bytes - offset) != NULL);
        return image_at(i, offset);
}

static const void *array_at(const struct image *i, uint32_t offset, uint32_t count, size_t size)
{
        eq_u64(offset % 8, 0);
        ok(count == 0 || (offset >= sizeof(*i) && offset + count * size <= i->bytes));
        return image_at(i, offset);
}

TEST(an_image_holds_what_the_plan_holds)
{
        struct plan_op ops[] = {
                { .kind = PLAN_WRITE, .is_directory = true, .path = S("/w"), .dev = 7, .ino = 8 },
                { .kind = PLAN_LINK, .path = S("/a/link"), .text = S("../to") },
                { .kind = PLAN_HIDE, .is_guarded = true, .path = S("/w/.git"), .is_directory = true },
                { .kind = PLAN_HIDE, .may_be_missing = true, .path = S("/proc/x") },
        };
        struct plan_placeholder placeholders[] = {
                { .path = S("/w/.git"), .is_directory = true, .op = 2, .dev = 7, .ino = UINT64_MAX },
                { .path = S("/top"), .op = 3, .dev = 1, .ino = 2 },
        };
        const struct plan plan = { .has_view = true,
                                   .root = PLAN_ROOT_READ,
                                   .ops = ops,
                                   .op_count = ARRAY_LEN(ops),
                                   .placeholders = placeholders,
                                   .placeholder_count = ARRAY_LEN(placeholders) };
        int fd;
        struct image *i = image_of(&plan, &fd);
        ok(i->has_view && !i->has_network && i->needs_user && !i->is_over);
        eq_int(i->root, PLAN_ROOT_READ);
        eq_int(i->landlock_abi, 5);
        eq_u64(i->uid, geteuid());
        eq_u64(i->gid, getegid());

        eq_u64(i->op_count, ARRAY_LEN(ops));
        const struct image_op *made = array_at(i, i->ops, i->op_count, sizeof(*made));
        for (size_t n = 0; n < ARRAY_LEN(ops); n++) {
                eq_int(made[n].kind, ops[n].kind);
                eq_int(made[n].is_directory, ops[n].is_directory);
                eq_int(made[n].may_be_missing, ops[n].may_be_missing);
                eq_int(made[n].is_guarded, ops[n].is_guarded);
                eq_u64(made[n].dev, ops[n].dev);
                eq_u64(made[n].ino, ops[n].ino);
                eq_str(text_at(i, made[n].path), ops[n].path.p + 1);
                eq_str(text_at(i, made[n].text), ops[n].text.n ? ops[n].text.p : "");
        }

        eq_u64(i->placeholder_count, 2);
        const struct image_placeholder *placeholder =
                array_at(i, i->placeholders, i->placeholder_count, sizeof(*placeholder));
        eq_str(text_at(i, placeholder[0].path), "/w/.git");
        eq_str(text_at(i, placeholder[0].name), ".git");
        ok(placeholder[0].is_directory && placeholder[0].op == 2 && placeholder[0].fd == -1);
        eq_u64(placeholder[0].parent_dev, 7);
        eq_u64(placeholder[0].parent_ino, UINT64_MAX);
        eq_str(text_at(i, placeholder[1].path), "/top");
        eq_str(text_at(i, placeholder[1].name), "top");
        ok(!placeholder[1].is_directory && placeholder[1].op == 3 && placeholder[1].fd == -1);

        eq_u64(i->filter_count, ARRAY_LEN(code));
        assert_memory_equal(array_at(i, i->filter, i->filter_count, sizeof(code[0])), code, sizeof(code));
        image_end(i, fd);
}

TEST(an_image_of_nothing_but_the_network_is_small)
{
        const struct plan plan = { .has_view = false, .has_network = false };
        int fd;
        struct image *i = image_of(&plan, &fd);
        ok(!i->has_view && !i->has_network);
        eq_u64(i->op_count + i->placeholder_count, 0);
        ok(image_has_init(i));
        eq_int(i->needs_user, geteuid() != 0);
        image_end(i, fd);
}

TEST(what_one_side_notes_the_other_sees)
{
        struct plan_placeholder placeholders[] = { { .path = S("/x/y") } };
        const struct plan plan = { .has_view = true, .placeholders = placeholders, .placeholder_count = 1 };
        int fd;
        struct image *one = image_of(&plan, &fd), *two = image_map(fd);
        ok(two != NULL && two != one);
        ((struct image_placeholder *)(uintptr_t)image_at(one, one->placeholders))->fd = 42;
        one->is_over = 1;
        eq_int(((const struct image_placeholder *)image_at(two, two->placeholders))->fd, 42);
        eq_int(two->is_over, 1);
        image_unmap(two);
        image_end(one, fd);
}

TEST(the_size_of_an_image_cannot_change)
{
        const struct plan plan = { .has_view = true };
        int fd;
        struct image *i = image_of(&plan, &fd);
        eq_int(ftruncate(fd, 0), -1);
        eq_int(ftruncate(fd, 1 << 20), -1);
        eq_int(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
        ok(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        image_end(i, fd);
}

TEST(an_image_that_would_be_too_large_is_refused)
{
        struct plan_op *ops = mem_alloc(PLAN_OPS_MAX * sizeof(*ops));
        char *path = mem_alloc(1024);
        memset(path, 'x', 1024);
        path[0] = '/';
        for (size_t n = 0; n < PLAN_OPS_MAX; n++)
                ops[n] = (struct plan_op){ .kind = PLAN_HIDE, .path = slice_from(path, 1024) };
        struct plan plan = { .has_view = true, .ops = ops, .op_count = PLAN_OPS_MAX };
        eq_int(image_make(&plan, &extra), -E2BIG);
        plan.op_count = 1024;
        int fd;
        struct image *i = image_of(&plan, &fd);
        const struct image_op *made = image_at(i, i->ops);
        for (uint32_t n = 0; n < i->op_count; n++)
                eq_u64(strlen(text_at(i, made[n].path)), 1023);
        image_end(i, fd);
        free(path);
        free(ops);
}

TEST(what_is_no_image_is_not_mapped)
{
        _close_ int fd = memfd_create("test", MFD_CLOEXEC);
        ok(fd >= 0);
        ok(image_map(fd) == NULL);
        ok(image_map(-1) == NULL);
        image_unmap(NULL);
}
