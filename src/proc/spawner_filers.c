/* spawner_filers: see spawner_internal.h. A filer does file requests in a sandbox (server/filer.h); here it is a process that
 * is neither a keeper nor left by one. */
#include "proc/spawner_internal.h"

#include "base/mem.h"
#include "base/sys.h"
#include "proc/spawn.h"
#include "sandbox/enter.h"
#include "sandbox/image.h"

#include <errno.h>

struct filer {
        struct list link; /* state::filers */
        pid_t pid;
};

static struct filer *filer_find(const struct state *s, pid_t pid)
{
        struct filer *f;
        list_each (f, &s->filers, link)
                if (f->pid == pid)
                        return f;
        return NULL;
}

bool filers_have(const struct state *s, pid_t pid)
{
        return filer_find(s, pid) != NULL;
}

bool filers_forget(struct state *s, pid_t pid)
{
        struct filer *f = filer_find(s, pid);
        if (!f)
                return false;
        list_remove(&f->link);
        free(f);
        return true;
}

/* A copy of ourselves, not of a keeper: it has a heap. It is the first process of its namespaces. */
void filers_start(struct state *s, const int fds[], size_t fd_count)
{
        if (fd_count != 2 || !s->setup.filer)
                return; /* its socket closes */
        struct image *image = image_map(fds[1]);
        long pid = image ? sys6(SYS_clone, (long)enter_flags(image) | SIGCHLD, 0, 0, 0, 0, 0) : -ENOMEM;
        if (pid == 0)
                s->setup.filer->run(fds[0], image);
        image_unmap(image);
        if (pid < 0) {
                s->setup.filer->failed(fds[0], (int)-pid);
                return;
        }
        struct filer *f = mem_new(struct filer);
        f->pid = (pid_t)pid;
        list_append(&s->filers, &f->link);
}

void filers_kill(const struct state *s)
{
        const struct filer *f;
        list_each (f, &s->filers, link)
                (void)sys_kill(f->pid, SIGKILL);
}
