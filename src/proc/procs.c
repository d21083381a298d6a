/* procs: all processes of one server, found by the number that the spawner knows them by.
 *
 * This is also the one place that replaces a spawner that was killed. The keepers of a killed spawner end their trees and still
 * report through its socket; so its entry is kept, retired, until that socket is closed, while new commands go to the next
 * spawner. A start that no keeper reports soon has failed: the dead spawner did not take the order, or the start hangs in a keeper
 * that will end the command.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "keeper/tree.h"
#include "proc/process_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define STARTS_END_MS 100    /* after this time the starts of a lost spawner fail; a keeper needs a few ms */
#define REFUSED_AGAIN_MS 500 /* how long to wait when the system had no process or descriptor for a spawner */
#define REPORTS_WAIT_MS 1    /* enough for one turn of the loop, which reads the reports that have come */

/* One spawner, in use or retired. */
struct spawner_entry {
        struct list link; /* procs::retired */
        struct procs *procs;
        struct spawner *spawner;
        struct watch *watch;
        struct timer *again;      /* runs when work is due although the socket is not ready (spawn_wait_ms) */
        struct timer *starts_end; /* gives up the starts that a retired spawner has not reported; else NULL */
        uint64_t born_ms;
};

static struct process *find(void *arg, uint32_t number)
{
        const struct spawner_entry *entry = arg;
        const struct procs *ps = entry->procs;
        struct process *p = ps->table_size ? ps->table[number % ps->table_size] : NULL;
        return p && p->number == number ? p : NULL;
}

/* Finds a process like `find`, but not one whose start was given up: for such a process only `gone` counts. */
static struct process *find_heard(void *arg, uint32_t number)
{
        struct process *p = find(arg, number);
        return p && !p->is_given_up ? p : NULL;
}

static void on_started(void *arg, uint32_t number, pid_t pid)
{
        struct process *p = find_heard(arg, number);
        if (p)
                process_on_started(p, pid);
}

static void on_failed(void *arg, uint32_t number, const char *step, int os_errno, uint32_t op)
{
        struct process *p = find_heard(arg, number);
        if (!p)
                return;
        p->failed_op = op;
        process_on_failed(p, step, os_errno);
}

static void on_exited(void *arg, uint32_t number, const struct spawn_exit *exit)
{
        struct process *p = find_heard(arg, number);
        if (p)
                process_on_exited(p, exit);
}

static void on_signalled(void *arg, uint32_t number, int os_errno)
{
        struct process *p = find_heard(arg, number);
        if (p)
                p->events->signalled(p, os_errno);
}

static void forget(struct process *p)
{
        struct procs *ps = p->procs;
        ps->table[p->number % ps->table_size] = NULL;
        ps->used--;
        process_on_gone(p);
}

static void on_gone(void *arg, uint32_t number)
{
        struct process *p = find(arg, number);
        if (p)
                forget(p);
}

static void on_held(void *arg, uint32_t number)
{
        const struct process *p = find(arg, number);
        if (p)
                log_warn("a command kept a pipe locked and was ended", "proc=%u pid=%d", number, (int)p->pid);
}

static struct spawner_entry *entry_free(struct spawner_entry *entry)
{
        if (!entry)
                return NULL;
        list_remove(&entry->link);
        entry->watch = watch_free(entry->watch);
        entry->again = timer_free(entry->again);
        entry->starts_end = timer_free(entry->starts_end);
        entry->spawner = spawner_free(entry->spawner);
        free(entry);
        return NULL;
}

static void start_spawner(struct procs *ps);

/* Fails a start when it is not known whether the command was started. If it was, its keeper ends it. `gone` follows later. */
static void give_up(struct process *p)
{
        p->is_given_up = true;
        process_on_failed(p, "spawner", ESRCH);
}

static void on_starts_end(void *arg)
{
        struct spawner_entry *entry = arg;
        struct procs *ps = entry->procs;
        struct pollfd reports = { .fd = spawn_fd(entry->spawner), .events = POLLIN };
        if (poll(&reports, 1, 0) > 0) { /* the reports may be about these starts, and are read first */
                timer_start(entry->starts_end, REPORTS_WAIT_MS);
                return;
        }
        entry->starts_end = timer_free(entry->starts_end);
        for (uint32_t i = 0; i < ps->table_size; i++) {
                struct process *p = ps->table[i];
                if (p && p->spawner_entry == entry && p->state == PROC_STARTING)
                        give_up(p);
        }
}

/* ---- spawners that cannot run here ---- */

bool procs_explain(const struct procs *ps, struct err *err)
{
        return spawn_deaths_explain(&ps->deaths, err);
}

static void on_retry(void *arg)
{
        struct procs *ps = arg;
        if (!ps->spawner)
                start_spawner(ps);
        if (!ps->spawner) /* descriptors or processes are short, which may pass; starts wait for the next attempt */
                timer_start(ps->retry, MAX(spawn_deaths_wait_ms(&ps->deaths), (uint64_t)REFUSED_AGAIN_MS));
}

static void on_unable(void *arg, const char *call, int os_errno)
{
        struct spawner_entry *entry = arg;
        spawn_deaths_unable(&entry->procs->deaths, call, os_errno);
}

/* Sends no more orders to the spawner, and starts the next one, at once or when it is due. Reports of its keepers are still read.
 * `status`: the exit status of the spawner, or NULL while it is not known. */
static void retire(struct procs *ps, const int *status)
{
        struct spawner_entry *entry = ps->current;
        spawn_deaths_lost(&ps->deaths, spawn_pid(entry->spawner), clock_mono_ms() - entry->born_ms);
        if (status)
                spawn_deaths_ended(&ps->deaths, *status);
        list_append(&ps->retired, &entry->link);
        entry->starts_end = timer_new(ps->loop, on_starts_end, entry);
        timer_start(entry->starts_end, STARTS_END_MS);
        ps->current = NULL;
        ps->spawner = NULL;
        if (ps->deaths.count == 0) {
                log_error("spawner lost", "processes=%u", ps->used);
                start_spawner(ps);
        } else {
                timer_start(ps->retry, spawn_deaths_wait_ms(&ps->deaths));
        }
}

/* Called when the spawner and its keepers are gone, and so is everything that they ran. */
static void on_lost(void *arg)
{
        struct spawner_entry *entry = arg;
        struct procs *ps = entry->procs;
        int status; /* not known yet when the socket of the spawner closes a moment before its process has ended */
        if (entry == ps->current)
                retire(ps, waitpid(spawn_pid(ps->spawner), &status, WNOHANG) > 0 ? &status : NULL);
        for (uint32_t i = 0; i < ps->table_size; i++) {
                struct process *p = ps->table[i];
                if (!p || p->spawner_entry != entry)
                        continue;
                if (p->state == PROC_STARTING)
                        give_up(p);
                forget(p);
        }
        entry_free(entry);
        ps->is_sweeping = true;
        procs_reap(ps);
}

static const struct spawn_events spawn_events = {
        .started = on_started,
        .failed = on_failed,
        .exited = on_exited,
        .signalled = on_signalled,
        .held = on_held,
        .gone = on_gone,
        .unable = on_unable,
        .lost = on_lost,
};

/* To be called after an order to the spawner, which may have to wait for room. */
static void watch_spawner(struct spawner_entry *entry)
{
        watch_set(entry->watch, WATCH_READ | (spawn_wants_write(entry->spawner) ? WATCH_WRITE : 0u));
        int wait_ms = spawn_wait_ms(entry->spawner);
        if (wait_ms >= 0)
                timer_start(entry->again, (uint64_t)wait_ms);
        else
                timer_stop(entry->again);
}

/* The keepers of a retired spawner are ending its commands: orders do not reach them, and are not needed. */
static bool takes_orders(const struct process *p)
{
        return p->procs->current && p->spawner_entry == p->procs->current;
}

void procs_kill(struct process *p)
{
        if (!takes_orders(p))
                return;
        spawn_kill(p->spawner_entry->spawner, p->number);
        watch_spawner(p->spawner_entry);
}

void process_signal(struct process *p, int signo, enum spawn_scope scope)
{
        if (!takes_orders(p)) {
                p->events->signalled(p, 0); /* no process is left to get the signal */
                return;
        }
        spawn_signal(p->spawner_entry->spawner, p->number, signo, scope);
        watch_spawner(p->spawner_entry);
}

static void on_ready(void *arg, UNUSED unsigned events)
{
        struct spawner_entry *entry = arg;
        struct procs *ps = entry->procs;
        spawn_on_ready(entry->spawner);
        /* This spawner may be lost, and freed, by now; orders to the current one may have to wait for room. */
        if (ps->current)
                watch_spawner(ps->current);
}

static void on_again(void *arg)
{
        on_ready(arg, 0);
}

static int try_start_spawner(struct procs *ps, struct err *err)
{
        struct spawner_entry *entry = mem_new(struct spawner_entry);
        list_init(&entry->link);
        entry->procs = ps;
        entry->spawner = spawner_new(&spawn_events, entry, err);
        if (!entry->spawner) {
                entry_free(entry);
                return err->code;
        }
        int r = watch_new(ps->loop, spawn_fd(entry->spawner), WATCH_READ, on_ready, entry, &entry->watch);
        if (r < 0) {
                entry_free(entry);
                return err_set(err, 0, r, "spawner: %s", errno_text(r));
        }
        entry->born_ms = clock_mono_ms();
        entry->again = timer_new(ps->loop, on_again, entry);
        watch_spawner(entry);
        ps->current = entry;
        ps->spawner = entry->spawner;
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
        list_init(&ps->retired);
        ps->retry = timer_new(loop, on_retry, ps);
        ps->scratch = mem_alloc(chunk_bytes);
        ps->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (ps->null_fd < 0)
                return err_set(err, 0, -errno, "/dev/null: %s", errno_text(errno));
        return try_start_spawner(ps, err);
}

void procs_add_other(struct procs *ps, pid_t pid)
{
        for (size_t i = 0; i < ARRAY_LEN(ps->others); i++)
                if (ps->others[i] == 0) {
                        ps->others[i] = pid;
                        return;
                }
}

/* Returns the place of a child that is no command, or NULL. */
static pid_t *other_of(struct procs *ps, pid_t pid)
{
        for (size_t i = 0; i < ARRAY_LEN(ps->others); i++)
                if (ps->others[i] == pid)
                        return &ps->others[i];
        return NULL;
}

static void end_stranger(void *arg, pid_t pid)
{
        struct procs *ps = arg;
        if (other_of(ps, pid) || (ps->spawner && pid == spawn_pid(ps->spawner)))
                return;
        (void)kill(pid, SIGKILL); /* a child that has not been reaped: no other process can have its pid */
}

void procs_reap(struct procs *ps)
{
        pid_t pid;
        int status;
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
                if (other_of(ps, pid))
                        *other_of(ps, pid) = 0;
                else if (ps->spawner && pid == spawn_pid(ps->spawner))
                        retire(ps, &status);
                else if (pid == ps->deaths.pid)
                        spawn_deaths_ended(&ps->deaths, status);
        /* The keepers of a retired spawner are children of the server now, and end their trees themselves. Only when the last
         * keeper is gone do the processes that are left have no owner. Each death brings another SIGCHLD, so this is repeated until
         * no process is left. */
        bool may_sweep = ps->is_sweeping && list_is_empty(&ps->retired);
        int r = may_sweep ? tree_each_child(end_stranger, ps) : 0;
        if (r < 0)
                log_warn_r(r, "cannot look for orphans");
}

void procs_release(struct procs *ps)
{
        ps->retry = timer_free(ps->retry);
        ps->current = entry_free(ps->current);
        ps->spawner = NULL;
        struct spawner_entry *entry;
        while ((entry = list_first(&ps->retired, struct spawner_entry, link)))
                entry_free(entry);
        ps->null_fd = fd_close(ps->null_fd);
        free(TAKE(ps->table));
        free(TAKE(ps->scratch));
}

/* Returns whether the spawner has just been killed: then it must not get another command. */
static bool is_spawner_dead(const struct procs *ps)
{
        siginfo_t info = { 0 };
        return waitid(P_PID, (id_t)spawn_pid(ps->spawner), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               info.si_pid != 0;
}

/* A process below a keeper can become a child of the server only when both its keeper and its spawner have died. */
enum lineage procs_lineage(const struct procs *ps, pid_t pid, int proc_dir)
{
        struct lineage_roots roots = {
                .server = getpid(),
                .spawner = ps->spawner ? spawn_pid(ps->spawner) : 0,
                .has_orphans = ps->is_sweeping || !list_is_empty(&ps->retired) || !ps->spawner ||
                               is_spawner_dead(ps),
        };
        memcpy(roots.others, ps->others, sizeof(roots.others));
        return lineage_find(pid, proc_dir, &roots);
}

/* Doubles the table until each number in use has a slot of its own. */
static void grow_table(struct procs *ps)
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

/* Makes sure that there is a spawner, or says why there is none. */
static int spawner_ensure(struct procs *ps, struct err *err)
{
        if (ps->spawner && is_spawner_dead(ps))
                procs_reap(ps);
        if (ps->spawner)
                return 0;
        if (procs_explain(ps, err)) /* then a timer makes the next attempt */
                return err->code;
        int r = try_start_spawner(ps, err); /* the last attempt failed */
        if (r < 0) {
                err->step = "spawner";
                err->os_errno = -r;
        }
        return r;
}

int procs_add(struct procs *ps, struct process *p, const struct command_spec *command,
              const int stdio[static 3], struct err *err)
{
        int r = spawner_ensure(ps, err);
        if (r < 0)
                return r;
        if (ps->used * 2 >= ps->table_size)
                grow_table(ps);
        do
                p->number = ps->next_number++;
        while (ps->table[p->number % ps->table_size]);

        r = spawn_start(ps->spawner, p->number, command, stdio);
        if (r < 0)
                return r;
        p->spawner_entry = ps->current;
        ps->table[p->number % ps->table_size] = p;
        ps->used++;
        watch_spawner(ps->current);
        return 0;
}
