/* procs: all processes of one server, found by the number that the spawner knows them by.
 *
 * Also the one place that replaces a spawner that was killed: its processes are reported as gone, the next start works.
 */
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "proc/process_internal.h"
#include "proc/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

static struct process *find(struct procs *ps, uint32_t number)
{
        struct process *p = ps->table_size ? ps->table[number % ps->table_size] : NULL;
        return p && p->number == number ? p : NULL;
}

static void on_started(void *arg, uint32_t number, pid_t pid)
{
        struct process *p = find(arg, number);
        if (p)
                process_on_started(p, pid);
}

static void on_failed(void *arg, uint32_t number, const char *step, int os_errno)
{
        struct process *p = find(arg, number);
        if (p)
                process_on_failed(p, step, os_errno);
}

static void on_exited(void *arg, uint32_t number, const struct spawn_exit *exit)
{
        struct process *p = find(arg, number);
        if (p)
                process_on_exited(p, exit);
}

static void on_signalled(void *arg, uint32_t number, int os_errno)
{
        struct process *p = find(arg, number);
        if (p)
                p->events->signalled(p, os_errno);
}

static void forget(struct procs *ps, struct process *p)
{
        ps->table[p->number % ps->table_size] = NULL;
        ps->used--;
        process_on_gone(p);
}

static void on_gone(void *arg, uint32_t number)
{
        struct process *p = find(arg, number);
        if (p)
                forget(arg, p);
}

static void start_spawner(struct procs *ps);

static void on_lost(void *arg)
{
        struct procs *ps = arg;
        log_error("spawner lost", "processes=%u", ps->used);
        ps->spawner_watch = watch_free(ps->spawner_watch);
        ps->spawner = spawner_free(ps->spawner);
        for (uint32_t i = 0; i < ps->table_size; i++)
                if (ps->table[i])
                        forget(ps, ps->table[i]);
        start_spawner(ps);
        ps->is_sweeping = true;
        procs_reap(ps);
}

static const struct spawn_events spawn_events = {
        .started = on_started,
        .failed = on_failed,
        .exited = on_exited,
        .signalled = on_signalled,
        .gone = on_gone,
        .lost = on_lost,
};

/* After a message to the spawner: it may have to wait for room. */
static void sent(struct procs *ps)
{
        if (ps->spawner_watch)
                watch_set(ps->spawner_watch,
                          WATCH_READ | (spawn_wants_write(ps->spawner) ? WATCH_WRITE : 0u));
}

void procs_kill(struct procs *ps, uint32_t number)
{
        if (!ps->spawner)
                return;
        spawn_kill(ps->spawner, number);
        sent(ps);
}

void procs_signal(struct procs *ps, uint32_t number, int signo, enum spawn_scope scope)
{
        if (!ps->spawner)
                return;
        spawn_signal(ps->spawner, number, signo, scope);
        sent(ps);
}

static void on_ready(void *arg, UNUSED unsigned events)
{
        struct procs *ps = arg;
        spawn_on_ready(ps->spawner);
        if (ps->spawner)
                sent(ps);
}

static int try_start_spawner(struct procs *ps, struct err *err)
{
        ps->spawner = spawner_new(&spawn_events, ps, err);
        if (!ps->spawner)
                return err->code;
        ps->spawner_watch = watch_new(ps->loop, spawn_fd(ps->spawner), on_ready, ps);
        sent(ps);
        return 0;
}

static void start_spawner(struct procs *ps)
{
        struct err err = ERR_INIT;
        if (try_start_spawner(ps, &err) < 0)
                log_error("no spawner", "why=%s", log_quote(slice_from_str(err.text)));
}

int procs_init(struct procs *ps, struct loop *loop, size_t chunk_bytes, uint64_t retained_cap,
               struct err *err)
{
        *ps = (struct procs){ .loop = loop, .chunk_bytes = chunk_bytes, .retained_cap = retained_cap };
        ps->scratch = mem_alloc(chunk_bytes);
        ps->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (ps->null_fd < 0)
                return err_set(err, 0, -errno, "/dev/null: %s", errno_text(errno));
        return try_start_spawner(ps, err);
}

static void end_stranger(void *arg, pid_t pid)
{
        struct procs *ps = arg;
        if (ps->spawner && pid == spawn_pid(ps->spawner))
                return;
        (void)kill(pid, SIGKILL); /* an unreaped child of ours: nobody else can have its number */
}

void procs_reap(struct procs *ps)
{
        while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
        /* Keepers end their trees themselves when the spawner dies; only when the last of them is gone is what is left
         * nobody's. Its death brings the next signal, so this goes on until nobody is left. */
        int r = ps->is_sweeping ? tree_each_child(end_stranger, ps) : 0;
        if (r < 0)
                log_warn_r(r, "cannot look for orphans");
}

void procs_release(struct procs *ps)
{
        ps->spawner_watch = watch_free(ps->spawner_watch);
        ps->spawner = spawner_free(ps->spawner);
        ps->null_fd = fd_close(ps->null_fd);
        free(TAKE(ps->table));
        free(TAKE(ps->scratch));
}

/* Doubles the table until every number in use has its own slot. */
static void grow(struct procs *ps)
{
        uint32_t size = ps->table_size ? ps->table_size * 2 : 64;
        struct process **table = mem_zalloc(size * sizeof(*table));
        for (uint32_t i = 0; i < ps->table_size; i++)
                if (ps->table[i])
                        table[ps->table[i]->number % size] = ps->table[i];
        free(ps->table);
        ps->table = table;
        ps->table_size = size;
}

int procs_add(struct procs *ps, struct process *p, const struct spawn_request *start)
{
        if (!ps->spawner) {
                start_spawner(ps); /* it could not be started last time */
                if (!ps->spawner)
                        return -EAGAIN;
        }
        if (ps->used * 2 >= ps->table_size)
                grow(ps);
        do
                p->number = ps->next_number++;
        while (ps->table[p->number % ps->table_size]);

        int r = spawn_start(ps->spawner, p->number, start);
        if (r < 0)
                return r;
        ps->table[p->number % ps->table_size] = p;
        ps->used++;
        sent(ps);
        return 0;
}
