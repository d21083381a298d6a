/* procs: all processes of one server, found by the number that the spawner knows them by.
 *
 * Also the one place that replaces a spawner that was killed. Its keepers end their trees and still report through its
 * socket; so it is kept, retired, until that has ended, while new commands go to its successor. Starts that none of its
 * keepers tells of soon have failed: the order was never taken, or is stuck in a keeper that ends what comes of it.
 */
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "proc/process_internal.h"
#include "proc/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#define STARTS_END_MS 100 /* a keeper in the middle of a start normally needs a few */
#define REPORTS_WAIT_MS 1 /* one turn, in which what is there is read */

/* One spawner, of its life or its afterlife. */
struct spawn_line {
        struct list link; /* procs::retired */
        struct procs *procs;
        struct spawner *spawner;
        struct watch *watch;
        struct timer *starts_end; /* of a retired one, while starts may be under way */
};

static struct process *find(void *arg, uint32_t number)
{
        const struct spawn_line *line = arg;
        const struct procs *ps = line->procs;
        struct process *p = ps->table_size ? ps->table[number % ps->table_size] : NULL;
        return p && p->number == number ? p : NULL;
}

/* Of a start that was given up only the end counts. */
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

static struct spawn_line *line_free(struct spawn_line *line)
{
        if (!line)
                return NULL;
        list_remove(&line->link);
        line->watch = watch_free(line->watch);
        line->starts_end = timer_free(line->starts_end);
        line->spawner = spawner_free(line->spawner);
        free(line);
        return NULL;
}

static void start_spawner(struct procs *ps);

/* Whether it was begun nobody knows; if so, its keeper ends it. `gone` waits for that. */
static void give_up(struct process *p)
{
        p->is_given_up = true;
        process_on_failed(p, "spawner", ESRCH);
}

static void on_starts_end(void *arg)
{
        struct spawn_line *line = arg;
        struct procs *ps = line->procs;
        struct pollfd reports = { .fd = spawn_fd(line->spawner), .events = POLLIN };
        if (poll(&reports, 1, 0) > 0) { /* may say more of them: first that */
                timer_start(line->starts_end, REPORTS_WAIT_MS);
                return;
        }
        line->starts_end = timer_free(line->starts_end);
        for (uint32_t i = 0; i < ps->table_size; i++) {
                struct process *p = ps->table[i];
                if (p && p->line == line && p->state == PROC_STARTING)
                        give_up(p);
        }
}

/* No more orders to it; what its keepers still say is heard. */
static void retire(struct procs *ps)
{
        struct spawn_line *line = ps->line;
        log_error("spawner lost", "processes=%u", ps->used);
        list_append(&ps->retired, &line->link);
        line->starts_end = timer_new(ps->loop, on_starts_end, line);
        timer_start(line->starts_end, STARTS_END_MS);
        ps->line = NULL;
        ps->spawner = NULL;
        start_spawner(ps);
}

/* Spawner and keepers are gone: so is everything that they ran. */
static void on_lost(void *arg)
{
        struct spawn_line *line = arg;
        struct procs *ps = line->procs;
        if (line == ps->line)
                retire(ps);
        for (uint32_t i = 0; i < ps->table_size; i++) {
                struct process *p = ps->table[i];
                if (!p || p->line != line)
                        continue;
                if (p->state == PROC_STARTING)
                        give_up(p);
                forget(p);
        }
        line_free(line);
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
static void sent(struct spawn_line *line)
{
        watch_set(line->watch, WATCH_READ | (spawn_wants_write(line->spawner) ? WATCH_WRITE : 0u));
}

/* Commands of a retired spawner are being ended by their keepers: no order reaches them, none is needed. */
static bool takes_orders(const struct process *p)
{
        return p->procs->line && p->line == p->procs->line;
}

void procs_kill(struct process *p)
{
        if (!takes_orders(p))
                return;
        spawn_kill(p->line->spawner, p->number);
        sent(p->line);
}

void procs_signal(struct process *p, int signo, enum spawn_scope scope)
{
        if (!takes_orders(p)) {
                p->events->signalled(p, 0); /* nobody is left to get it */
                return;
        }
        spawn_signal(p->line->spawner, p->number, signo, scope);
        sent(p->line);
}

static void on_ready(void *arg, UNUSED unsigned events)
{
        struct spawn_line *line = arg;
        struct procs *ps = line->procs;
        spawn_on_ready(line->spawner);
        /* It may be lost, and freed, by now; the current one may have to wait for room. */
        if (ps->line)
                sent(ps->line);
}

static int try_start_spawner(struct procs *ps, struct err *err)
{
        struct spawn_line *line = mem_new(struct spawn_line);
        list_init(&line->link);
        line->procs = ps;
        line->spawner = spawner_new(&spawn_events, line, err);
        if (!line->spawner) {
                line_free(line);
                return err->code;
        }
        line->watch = watch_new(ps->loop, spawn_fd(line->spawner), on_ready, line);
        sent(line);
        ps->line = line;
        ps->spawner = line->spawner;
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
        ps->scratch = mem_alloc(chunk_bytes);
        ps->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (ps->null_fd < 0)
                return err_set(err, 0, -errno, "/dev/null: %s", errno_text(errno));
        return try_start_spawner(ps, err);
}

static void end_stranger(void *arg, pid_t pid)
{
        struct procs *ps = arg;
        if (pid == ps->spared || (ps->spawner && pid == spawn_pid(ps->spawner)))
                return;
        (void)kill(pid, SIGKILL); /* an unreaped child of ours: nobody else can have its number */
}

void procs_reap(struct procs *ps)
{
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
                if (pid == ps->spared)
                        ps->spared = 0;
                else if (ps->spawner && pid == spawn_pid(ps->spawner))
                        retire(ps);
        /* Keepers of a retired spawner are children of ours now, and end their trees themselves; only when the last of
         * them is gone is what is left nobody's. Its death brings the next signal, so this goes on until nobody is. */
        bool may_sweep = ps->is_sweeping && list_is_empty(&ps->retired);
        int r = may_sweep ? tree_each_child(end_stranger, ps) : 0;
        if (r < 0)
                log_warn_r(r, "cannot look for orphans");
}

void procs_release(struct procs *ps)
{
        ps->line = line_free(ps->line);
        ps->spawner = NULL;
        struct spawn_line *line;
        while ((line = list_first(&ps->retired, struct spawn_line, link)))
                line_free(line);
        ps->null_fd = fd_close(ps->null_fd);
        free(TAKE(ps->table));
        free(TAKE(ps->scratch));
}

/* A spawner that has just been killed must not be given one more command. */
static bool is_spawner_dead(const struct procs *ps)
{
        siginfo_t info = { 0 };
        return waitid(P_PID, (id_t)spawn_pid(ps->spawner), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               info.si_pid != 0;
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
        if (ps->spawner && is_spawner_dead(ps))
                procs_reap(ps);
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
        p->line = ps->line;
        ps->table[p->number % ps->table_size] = p;
        ps->used++;
        sent(ps->line);
        return 0;
}
