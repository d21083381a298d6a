/* static_program: looks at the usual places for a farhand that can be sent, and reads it. */
#include "transport/static_program.h"

#include "base/arena.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/printable.h"
#include "transport/programs.h"

#include <elf.h>
#include <errno.h>
#include <nettle/sha2.h>

static const struct architecture {
        const char *machine; /* as uname -m prints it; names of files have it too */
        const char *alias;   /* another name that systems use */
        unsigned elf;        /* e_machine in the head of the file */
        const char *make;    /* the target of our Makefile, and the directory in build/ */
} architectures[] = {
        { "x86_64", "amd64", EM_X86_64, "static" },
        { "aarch64", "arm64", EM_AARCH64, "static-arm64" },
};

static const struct architecture *find_architecture(struct slice machine)
{
        for (size_t i = 0; i < ARRAY_LEN(architectures); i++)
                if (slice_eq(machine, slice_from_str(architectures[i].machine)) ||
                    slice_eq(machine, slice_from_str(architectures[i].alias)))
                        return &architectures[i];
        return NULL;
}

/* Returns whether this is a program for that architecture which needs no loader. */
static bool is_fit(struct slice file, const struct architecture *wanted)
{
        Elf64_Ehdr head;
        Elf64_Phdr part;
        if (file.n < sizeof(head))
                return false;
        memcpy(&head, file.p, sizeof(head));
        if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
            head.e_machine != wanted->elf || head.e_phentsize != sizeof(part) || head.e_phoff > file.n ||
            head.e_phnum * sizeof(part) > file.n - head.e_phoff)
                return false;
        for (size_t i = 0; i < head.e_phnum; i++) {
                memcpy(&part, file.p + head.e_phoff + i * sizeof(part), sizeof(part));
                if (part.p_type == PT_INTERP)
                        return false;
        }
        return head.e_phnum > 0;
}

/* Reads the file if it is fit. Returns 0; -ENOENT when it is not there or not fit; or -errno. */
static int try_file(const char *path, const struct architecture *wanted, struct buf *ret)
{
        buf_truncate(ret, 0);
        int r = fd_read_file(path, STATIC_PROGRAM_MAX, ret);
        if (r == 0 && !is_fit(buf_slice(ret), wanted))
                r = -ENOENT;
        return r;
}

/* Returns the paths at which the program may be, the most particular one first, and NULL behind the last. */
static const char *const *places(struct arena *a, const struct architecture *wanted, const char *directory,
                                 const char *given_farhand)
{
        const char **list = arena_alloc(a, 5 * sizeof(*list));
        size_t n = 0;
        if (directory) {
                list[n++] = arena_printf(a, "%s/farhand-%s", directory, wanted->machine);
        } else {
                _free_ char *farhand = programs_farhand(given_farhand);
                const char *slash = strrchr(farhand, '/');
                int length = slash ? (int)(slash - farhand) : 0;
                const char *beside = slash ? arena_printf(a, "%.*s", length, farhand) : ".";
                list[n++] =
                        arena_printf(a, "%s/../libexec/farhand/static/farhand-%s", beside, wanted->machine);
                list[n++] = arena_printf(a, "%s/%s/farhand", beside, wanted->make); /* in a build tree */
                list[n++] = arena_dup(a, slice_from_str(farhand));
        }
        list[n] = NULL;
        return list;
}

/* Appends the line with size and digest of a program, and the program. */
static int append(struct buf *out, struct slice program, struct err *err)
{
        struct sha256_ctx hash;
        uint8_t digest[SHA256_DIGEST_SIZE];
        char hex[2 * SHA256_DIGEST_SIZE + 1], *room;
        sha256_init(&hash);
        sha256_update(&hash, program.n, (const uint8_t *)program.p);
        sha256_digest(&hash, sizeof(digest), digest);
        for (size_t i = 0; i < sizeof(digest); i++)
                (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
        int r = buf_printf(out, "%zu %s\n", program.n, hex);
        r = r < 0 ? r : buf_reserve_or_fail(out, program.n, &room);
        if (r < 0)
                return err_set(err, 0, r, "no memory for the program to send: %s", errno_text(r));
        memcpy(room, program.p, program.n);
        buf_commit(out, program.n);
        return 0;
}

int static_program_append(struct buf *out, struct slice machine, struct slice system, const char *directory,
                          const char *farhand, struct err *err)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf program = BUF_INIT(STATIC_PROGRAM_MAX);
        const struct architecture *wanted = find_architecture(machine);
        if (!slice_eq(system, S("Linux")))
                return err_set(err, 0, -ENOEXEC, "the machine runs %s; farhand runs on Linux only",
                               printable_text(&a, system));
        if (!wanted)
                return err_set(err, 0, -ENOEXEC,
                               "farhand " FARHAND_VERSION
                               " is not installed there, and there is none to send "
                               "to a machine of architecture %s: build and install it there",
                               printable_text(&a, machine));
        const char *const *place = places(&a, wanted, directory, farhand);
        const char *first = *place;
        for (; *place; place++) {
                int r = try_file(*place, wanted, &program);
                if (r == 0)
                        return append(out, buf_slice(&program), err);
                if (r != -ENOENT && r != -ENOTDIR && *place == first)
                        return err_set(err, 0, r, "the program to send, %s: %s", *place, errno_text(r));
        }
        return err_set(err, 0, -ENOENT,
                       "farhand " FARHAND_VERSION
                       " is not installed there, and there is no static one for %s "
                       "to send (%s): install farhand there, or build one here with `make %s`",
                       wanted->machine, first, wanted->make);
}
