/* window: how long a command in a sandbox can read what is denied, when somebody outside replaces it meanwhile.
 *
 * A mask is a mount, and the kernel takes it off when the file below it is replaced. The server ends the command then; this
 * program measures what the command gets to see until it is dead. In every run a command whose processes do nothing but open
 * and read the denied path is started; then the path is replaced here. Each process notes, in a file that both map, when it
 * first and last read something.
 *
 * Every build has one run in turn, so that whatever else the machine does hits all of them alike. docs/PERFORMANCE.md shows
 * results.
 */
#include "base/args.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/uri.h"
#include "bench.h"
#include "client.h"
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define READERS_MAX 16
#define READERS 2
#define RUNS 200
#define HOGS_PER_CPU 2
#define HOGS_MAX 256
#define READY_MS 20000
#define AFTER_MS 300000 /* how long a run waits for the end of its command before it fails */
#define JSON_MAX 8192
#define SPIN "--spin"

struct options {
        const char *server, *reference, *shape;
        uint64_t runs, readers;
        bool is_idle_only, is_loaded_only;
};

/* --- the command -------------------------------------------------------------------------------------------------- */

struct reader {
        _Atomic uint64_t first_ns, last_ns;
        _Atomic uint32_t reads;
        _Atomic uint32_t old_reads; /* reads that got the file from before the replacement */
        _Atomic uint32_t is_ready;
};

/* What the processes of the command report to this program: mapped from a file in the workspace. */
struct state {
        struct reader readers[READERS_MAX];
};

static struct state *state_map(const char *path)
{
        _close_ int fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
                return NULL;
        struct state *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        return s == MAP_FAILED ? NULL : s;
}

static void look(const char *path, struct reader *r)
{
        char content[8];
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return;
        ssize_t n = read(fd, content, sizeof(content));
        if (n > 0) {
                uint64_t now = now_ns();
                if (r->reads == 0)
                        r->first_ns = now;
                r->last_ns = now;
                r->old_reads += content[0] == 'o';
                r->reads++; /* last: the process may be killed in between */
        }
        close(fd);
}

/* Forks the readers. Each but the first makes a session of its own, as a command would that tries to escape its end. */
static int spin(const char *path, const char *state, unsigned readers)
{
        struct state *s = state_map(state);
        if (!s)
                return 1;
        unsigned me = 0;
        while (++me < readers)
                if (fork() == 0) {
                        (void)setsid();
                        break;
                }
        struct reader *r = &s->readers[me % readers];
        r->is_ready = 1;
        for (;;)
                look(path, r);
}

/* --- the load ----------------------------------------------------------------------------------------------------- */

/* The processes that keep the machine busy. */
static pid_t hogs[HOGS_MAX];
static size_t hog_count;

static bool child_begin(void)
{
        pid_t self = getpid();
        pid_t pid = hog_count < HOGS_MAX ? fork() : -1;
        if (pid > 0)
                hogs[hog_count++] = pid;
        if (pid != 0)
                return false;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != self)
                _exit(1);
        return true;
}

/* Makes load as another client, whose command writes output as fast as the server reads it. */
static NORETURN void flood(const struct turn *t)
{
        struct client c = CLIENT_INIT;
        struct err err = ERR_INIT;
        struct slice message;
        int r = client_open_session(&c, t, CLIENT_ROOM_LARGE, &err);
        if (r == 0)
                r = client_start(&c, "flood", "[\"/usr/bin/yes\"]", false, &err);
        while (r == 0)
                r = client_next(&c, &message, &err);
        _exit(1);
}

static void load_begin(const struct turn turns[], size_t count)
{
        long cpus = sysconf(_SC_NPROCESSORS_ONLN);
        for (long i = 0; i < cpus * HOGS_PER_CPU; i++)
                if (child_begin())
                        for (;;)
                                __asm__ volatile("");
        for (size_t i = 0; i < count; i++)
                if (child_begin())
                        flood(&turns[i]);
}

static void load_end(void)
{
        for (; hog_count > 0; hog_count--) {
                kill(hogs[hog_count - 1], SIGKILL);
                while (waitpid(hogs[hog_count - 1], NULL, 0) < 0 && errno == EINTR)
                        continue;
        }
}

/* --- one run ------------------------------------------------------------------------------------------------------ */

struct place {
        const char *dir;
        char *workspace, *above, *secret, *other, *state;
        bool is_above; /* true: the directory of the denied file is replaced; false: the file itself */
};

static void place_init(struct place *p, const char *dir, bool is_above)
{
        *p = (struct place){ .dir = dir, .is_above = is_above };
        p->workspace = mem_printf("%s/w", dir);
        p->above = mem_printf("%s/w/d", dir);
        p->secret = mem_printf("%s/w/d/secret", dir);
        p->other = is_above ? mem_printf("%s/new", dir) : mem_printf("%s/w/d/secret.new", dir);
        p->state = mem_printf("%s/w/state", dir);
        (void)mkdir(p->workspace, 0755);
        (void)mkdir(p->above, 0755);
}

static void place_release(struct place *p)
{
        free(p->workspace);
        free(p->above);
        free(p->secret);
        free(p->other);
        free(p->state);
}

static int text_put(const char *path, const char *text, struct err *err)
{
        _close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0 || fd_write_all(fd, slice_from_str(text)) < 0)
                return files_failed(err, path);
        return 0;
}

/* Restores the files as they were before the first run; runs may have exchanged the two directories. */
static int place_fill(const struct place *p, struct err *err)
{
        struct state none = { 0 };
        int r = text_put(p->secret, "old\n", err);
        if (r == 0 && p->is_above) {
                _free_ char *inside = mem_printf("%s/secret", p->other);
                (void)mkdir(p->other, 0755);
                r = text_put(inside, "new\n", err);
        } else if (r == 0) {
                r = text_put(p->other, "new\n", err);
        }
        _close_ int fd = open(p->state, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (r == 0 && (fd < 0 || fd_write_all(fd, slice_from(&none, sizeof(none))) < 0))
                r = files_failed(err, p->state);
        return r;
}

static int place_break(const struct place *p)
{
        return p->is_above ? renameat2(AT_FDCWD, p->other, AT_FDCWD, p->above, RENAME_EXCHANGE)
                           : rename(p->other, p->secret);
}

static int await_ready(const struct state *s, uint64_t readers, struct err *err)
{
        uint64_t start = now_ns();
        for (uint64_t i = 0; i < readers; i++)
                while (!s->readers[i].is_ready) {
                        if (us_since(start) > READY_MS * 1e3 || is_interrupted())
                                return err_set(err, 0, -ETIMEDOUT, "the command does not begin");
                        (void)poll(NULL, 0, 1);
                }
        (void)poll(NULL, 0, 3); /* each reader is in its loop by then */
        return 0;
}

/* The results of all runs of one build. */
struct figures {
        size_t runs, readable, old_readable;
        struct samples length; /* us from the first successful read to the last; 0: no read succeeded */
        struct samples after;  /* us from rename(2) to the last successful read; 0: no read succeeded */
        struct samples told;   /* us from rename(2) until the client receives process/exited */
};

static void figures_add(struct figures *f, const struct state *s, uint64_t readers, uint64_t returned_ns)
{
        uint64_t first = UINT64_MAX, last = 0, old = 0;
        for (uint64_t i = 0; i < readers; i++) {
                const struct reader *r = &s->readers[i];
                if (r->reads == 0)
                        continue;
                first = MIN(first, r->first_ns);
                last = MAX(last, r->last_ns);
                old += r->old_reads;
        }
        f->runs++;
        f->readable += last > 0;
        f->old_readable += old > 0;
        samples_add(&f->length, last > 0 ? (double)(last - first) / 1e3 : 0);
        samples_add(&f->after, last > returned_ns ? (double)(last - returned_ns) / 1e3 : 0);
}

static char *sandbox_json(const struct place *p, const char *cwd)
{
        _buf_ struct buf denied = BUF_INIT(JSON_MAX);
        must(uri_from_path(&denied, slice_from_str(p->secret)) == 0);
        return mem_printf(
                ",\"sandbox\":{\"cwd\":\"%s\",\"workspaceRoots\":[\"%s\"],"
                "\"windowsSandboxLevel\":\"disabled\",\"permissions\":{\"type\":\"managed\","
                "\"network\":\"restricted\",\"file_system\":{\"type\":\"restricted\",\"entries\":["
                "{\"access\":\"read\",\"path\":{\"type\":\"special\",\"value\":{\"kind\":\"root\"}}},"
                "{\"access\":\"write\",\"path\":{\"type\":\"special\",\"value\":{\"kind\":\"project_roots\"}}"
                "},"
                "{\"access\":\"deny\",\"path\":{\"type\":\"path\",\"path\":\"%s\"}}]}}}",
                cwd, cwd, denied.p);
}

static int await_end(struct client *c, struct err *err)
{
        struct slice message;
        int r = client_await(c, S("\"process/exited\""), &message, err);
        if (r == 0 && !message_has(message, S("\"sandboxBroken\"")))
                r = err_set(err, 0, -EPROTO, "it was not ended: %.*s", SLICE(message));
        return r;
}

static int run_once(const struct turn *t, const struct place *p, uint64_t readers, struct figures *into,
                    struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        _buf_ struct buf cwd = BUF_INIT(JSON_MAX);
        char self[4096] = "";
        if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
                return files_failed(err, "/proc/self/exe");
        must(uri_from_path(&cwd, slice_from_str(p->workspace)) == 0);
        _free_ char *more = sandbox_json(p, cwd.p);
        _free_ char *argv = mem_printf("[\"%s\",\"" SPIN "\",\"%s\",\"%s\",\"%u\"]", self, p->secret,
                                       p->state, (unsigned)readers);
        int r = place_fill(p, err);
        struct state *s = r == 0 ? state_map(p->state) : NULL;
        if (r == 0 && !s)
                r = files_failed(err, p->state);
        if (r == 0)
                r = client_open_session(&c, t, CLIENT_ROOM_SMALL, err);
        if (r == 0)
                r = client_start_with(&c, "p", argv, false, cwd.p, more, err);
        struct slice message;
        if (r == 0)
                r = client_await(&c, NAME_RESULT, &message, err);
        if (r == 0)
                r = await_ready(s, readers, err);
        if (r == 0 && place_break(p) < 0)
                r = files_failed(err, p->other);
        uint64_t returned_ns = now_ns();
        if (r == 0)
                r = await_end(&c, err);
        if (r == 0) {
                samples_add(&into->told, us_since(returned_ns));
                r = client_await(&c, NAME_CLOSED, &message, err);
        }
        if (r == 0)
                figures_add(into, s, readers, returned_ns);
        if (s)
                munmap(s, sizeof(*s));
        return r;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static void print_quantiles(const struct samples *s)
{
        static const double fractions[] = { 0.5, 0.99, 1 };
        printf(" |");
        for (size_t i = 0; i < ARRAY_LEN(fractions); i++) {
                double us = samples_quantile(s, fractions[i]);
                printf(us < 1000 ? "%s%.0f us" : "%s%.1f ms", i ? " / " : " ", us < 1000 ? us : us / 1000);
        }
}

static void print_row(const char *who, const char *when, const struct figures *f)
{
        printf("| %s | %s | %zu of %zu | %zu", who, when, f->readable, f->runs, f->old_readable);
        print_quantiles(&f->length);
        print_quantiles(&f->after);
        print_quantiles(&f->told);
        printf(" |\n");
        fflush(stdout);
}

/* --- the runs ----------------------------------------------------------------------------------------------------- */

struct session {
        const struct options *options;
        struct contender servers[2];
        size_t count;
        struct place place;
};

static int measure(struct session *s, bool is_loaded, struct err *err)
{
        struct figures figures[2] = { 0 };
        struct turn turns[2] = { { .server = &s->servers[0] }, { .server = &s->servers[1] } };
        int r = 0;
        for (size_t i = 0; r == 0 && i < s->count; i++)
                r = contender_start(&s->servers[i], err);
        if (r == 0 && is_loaded)
                load_begin(turns, s->count);
        for (uint64_t n = 0; r == 0 && n < s->options->runs * s->count; n++) {
                size_t who = n % s->count;
                r = run_once(&turns[who], &s->place, s->options->readers, &figures[who], err);
                if (r < 0)
                        (void)err_wrap(err, "%s", s->servers[who].program);
        }
        load_end();
        for (size_t i = 0; i < s->count; i++) {
                contender_stop(&s->servers[i]);
                if (r == 0)
                        print_row(s->servers[i].program, is_loaded ? "busy" : "idle", &figures[i]);
                samples_release(&figures[i].length);
                samples_release(&figures[i].after);
                samples_release(&figures[i].told);
        }
        return r;
}

static int run_all(const struct options *o, const char *home)
{
        struct err err = ERR_INIT;
        struct session s = { .options = o, .count = o->reference ? 2 : 1 };
        contender_init(&s.servers[0], WHO_OURS, o->server, home);
        contender_init(&s.servers[1], WHO_REFERENCE, o->reference, home);
        place_init(&s.place, home, strcmp(o->shape, "above") == 0);
        printf("| server | machine | readable in | of these the old content | from the first read to the "
               "last: median / "
               "p99 / max | last read after the rename | end told after the rename |\n"
               "| --- | --- | --: | --: | --: | --: | --: |\n");
        int r = o->is_loaded_only ? 0 : measure(&s, false, &err);
        if (r == 0 && !o->is_idle_only)
                r = measure(&s, true, &err);
        place_release(&s.place);
        if (r < 0)
                fprintf(stderr, "window: %s\n", err.text);
        return r < 0 ? 1 : 0;
}

static enum args_result options_parse(int argc, char **argv, struct options *o)
{
        const struct arg table[] = {
                { "server", ARG_STRING, "FILE", "our server", .target = &o->server },
                { "reference", ARG_STRING, "FILE", "another build of it, measured in turn with the first",
                  .target = &o->reference },
                { "shape", ARG_STRING, "SHAPE",
                  "what is replaced: the denied file, or with `above` the directory that it is in",
                  .target = &o->shape },
                { "runs", ARG_U64, "N", "runs of each (default 200)", .target = &o->runs, .min = 1,
                  .max = 100000 },
                { "readers", ARG_U64, "N", "processes that read (default 2)", .target = &o->readers, .min = 1,
                  .max = READERS_MAX },
                { "idle", ARG_FLAG, NULL, "only on the machine as it is", .target = &o->is_idle_only },
                { "busy", ARG_FLAG, NULL, "only with every processor and the server busy",
                  .target = &o->is_loaded_only },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "window [OPTIONS]",
                .about = "Measure for how long a denied file can be read when it is replaced from outside.",
                .table = table,
        };
        int rest;
        return args_parse(&spec, argc, argv, &rest);
}

int main(int argc, char **argv)
{
        if (argc == 5 && strcmp(argv[1], SPIN) == 0)
                return spin(argv[2], argv[3], (unsigned)strtoul(argv[4], NULL, 10));
        struct options o = { .server = "build/farhand", .shape = "file", .runs = RUNS, .readers = READERS };
        switch (options_parse(argc, argv, &o)) {
        case ARGS_OK:
                break;
        case ARGS_HELP:
                return 0;
        case ARGS_BAD:
                return 2;
        }
        struct err err = ERR_INIT;
        _free_ char *home = dir_make("/var/tmp", &err);
        if (!home) {
                fprintf(stderr, "window: %s\n", err.text);
                return 1;
        }
        interrupts_catch();
        int code = run_all(&o, home);
        dir_remove(home);
        return code;
}
