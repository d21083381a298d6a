/* spawn_command: makes an order from the description of a command, with its strings and its descriptors (keeper/spawn_msg.h). */
#include "base/fd.h"
#include "base/mem.h"
#include "proc/spawn_internal.h"
#include "sandbox/bwrap.h"

#include <errno.h>
#include <sys/mman.h>

/* Counts the strings of a list and adds their bytes. Stops above SPAWN_REQUEST_MAX, which the caller checks. */
static uint32_t list_measure(const char *const *list, size_t *bytes)
{
        uint32_t n = 0;
        for (; list[n] && *bytes <= SPAWN_REQUEST_MAX; n++)
                *bytes += strlen(list[n]) + 1;
        return n;
}

static char *string_pack(char *at, const char *s)
{
        size_t n = strlen(s) + 1;
        memcpy(at, s, n);
        return at + n;
}

static char *list_pack(char *at, const char *const *list)
{
        for (; *list; list++)
                at = string_pack(at, *list);
        return at;
}

void command_pack(const struct command_spec *c, char *at)
{
        at = string_pack(at, c->cwd);
        at = list_pack(at, c->argv);
        at = list_pack(at, c->env);
        (void)list_pack(at, c->candidates);
}

int command_memfd(const struct command_spec *c, size_t bytes)
{
        _free_ char *all = mem_alloc(bytes);
        command_pack(c, all);
        _close_ int fd = memfd_create("farhand-start", MFD_CLOEXEC);
        if (fd < 0)
                return -errno;
        int r = fd_write_all(fd, slice_from(all, bytes));
        if (r < 0)
                return r;
        return TAKE_FD(fd);
}

int command_describe(const struct command_spec *c, uint32_t number, struct spawn_order *ret)
{
        size_t bytes = strlen(c->cwd) + 1;
        *ret = (struct spawn_order){
                .kind = SPAWN_START,
                .number = number,
                .command = { .is_tty = c->is_tty, .limits = c->limits },
                .tree = spawn_limits_tree(&c->limits),
                .wants_cgroup = c->wants_cgroup,
                .has_image = c->has_image,
                .has_bwrap = c->bwrap,
                .is_intercepted = c->is_intercepted,
                .asking = c->asking,
                .session = c->session,
        };
        if (c->inlets && c->inlets->count > INLETS_MAX)
                return -EINVAL;
        if (c->inlets)
                ret->inlets = *c->inlets;
        if (ret->tree.processes > 0)
                ret->tree.processes += c->helpers;
        ret->command.argc = list_measure(c->argv, &bytes);
        ret->command.envc = list_measure(c->env, &bytes);
        ret->command.candidatec = list_measure(c->candidates, &bytes);
        ret->command.bytes = bytes;
        return bytes > SPAWN_REQUEST_MAX ? -E2BIG : 0;
}

/* The files may have been changed: the process that executes them compares them with what was found at the server's start. */
size_t command_programs(const struct bwrap *bwrap, int ret[static SPAWN_PROGRAMS])
{
        if (!bwrap)
                return 0;
        const struct helper *init = &bwrap->init_file;
        ret[0] = bwrap->program_file.file;
        ret[1] = init->copy >= 0 ? init->copy : init->file;
        return SPAWN_PROGRAMS;
}

size_t command_fds(const struct command_spec *c, const int stdio[static SPAWN_STDIO], int memfd,
                   int ret[static SPAWN_FDS_MAX])
{
        size_t n = 0;
        for (; n < SPAWN_STDIO; n++)
                ret[n] = stdio[n];
        if (memfd >= 0)
                ret[n++] = memfd;
        if (c->has_image)
                ret[n++] = c->image_fd;
        n += command_programs(c->bwrap, ret + n);
        if (c->is_intercepted) {
                ret[n++] = c->intercept_config;
                ret[n++] = c->intercept_socket;
        }
        if (c->inlets && c->inlets->count > 0)
                ret[n++] = c->inlet_socket;
        return n;
}
