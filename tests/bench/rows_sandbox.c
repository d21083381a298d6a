/* rows_sandbox: starting commands in a sandbox.
 *
 * The profile is what agents use: the machine read-only, a workspace writable but for its `.git`, two places in it denied,
 * no network. In the first round a command checks that the profile is enforced, because a server that enforces less would be
 * faster.
 */
#include "base/mem.h"
#include "base/uri.h"
#include "bench.h"
#include "client.h"
#include "machine.h"
#include "machine_files.h"
#include "tails.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define WARM_UP 2
#define JSON_MAX 3072
#define KEYS 3 /* files that the pattern matches */

static const char argv_true[] = "[\"/bin/true\"]";

/* What a start in a sandbox sends beside the command. */
struct box {
        struct buf cwd;  /* URI of the workspace */
        struct buf more; /* the member `sandbox` */
};

static void box_release(struct box *b)
{
        buf_release(&b->cwd);
        buf_release(&b->more);
}
#define _box_ CLEANUP(box_release)

#define DENY(what) ",{\"access\":\"deny\",\"path\":{\"type\":" what "}}"

/* Makes the profile for a workspace. `denied` holds more entries, with the comma before. */
static void box_init(struct box *b, const struct turn *t, const char *workspace, const char *denied)
{
        _free_ char *path = mem_printf("%s/%s", t->dir, workspace);
        buf_init(&b->cwd, JSON_MAX);
        buf_init(&b->more, JSON_MAX);
        must(uri_from_path(&b->cwd, slice_from_str(path)) == 0);
        must(buf_printf(&b->more,
                        ",\"sandbox\":{\"cwd\":\"%s\",\"workspaceRoots\":[\"%s\"],"
                        "\"windowsSandboxLevel\":\"disabled\",\"permissions\":{\"type\":\"managed\","
                        "\"network\":\"restricted\",\"file_system\":{\"type\":\"restricted\",\"entries\":["
                        "{\"access\":\"read\",\"path\":{\"type\":\"special\",\"value\":{\"kind\":\"root\"}}},"
                        "{\"access\":\"write\",\"path\":{\"type\":\"special\",\"value\":"
                        "{\"kind\":\"project_roots\"}}}%s]}}}",
                        b->cwd.p, b->cwd.p, denied) == 0);
}

static int start_to_closed(struct client *c, const struct box *b, bool tty, struct err *err)
{
        char id[16];
        struct slice message;
        snprintf(id, sizeof(id), "p%u", c->ids);
        int r = client_start_with(c, id, argv_true, tty, b->cwd.p, b->more.p, err);
        return r < 0 ? r : client_await(c, NAME_CLOSED, &message, err);
}

/* Runs a script in the sandbox, which succeeds when the profile allows and denies what it should. */
static int box_check(struct client *c, const struct box *b, const char *script, struct err *err)
{
        struct slice message;
        _free_ char *argv = mem_printf("[\"/bin/sh\",\"-c\",\"%s\"]", script);
        int r = client_start_with(c, "check", argv, false, b->cwd.p, b->more.p, err);
        if (r == 0)
                r = client_await(c, S("\"process/exited\""), &message, err);
        if (r == 0 && !message_has(message, S("\"exitCode\":0")))
                r = err_set(err, 0, -EPROTO, "the sandbox is not what was asked for: %.*s", SLICE(message));
        return r < 0 ? r : client_await(c, NAME_CLOSED, &message, err);
}

static int run_true(struct turn *t, struct client *c, const struct box *b, bool tty, struct err *err)
{
        int r = 0;
        for (size_t n = 0; r == 0 && n < WARM_UP; n++)
                r = start_to_closed(c, b, tty, err);
        for (size_t n = 0; r == 0 && turn_goes_on(t, n); n++) {
                uint64_t start = now_ns();
                r = start_to_closed(c, b, tty, err);
                samples_add(&t->into[0], us_since(start));
        }
        return r;
}

/* --- a workspace -------------------------------------------------------------------------------------------------- */

#define WORKSPACE "workspace"
#define SECRET_FILE WORKSPACE "/secret"
#define SECRET_DIR WORKSPACE "/private"

static int prepare_workspace(const char *dir, UNUSED size_t bytes, struct err *err)
{
        static const char *const dirs[] = { WORKSPACE, WORKSPACE "/.git", SECRET_DIR };
        for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
                _free_ char *path = mem_printf("%s/%s", dir, dirs[i]);
                if (mkdir(path, 0755) < 0)
                        return files_failed(err, path);
        }
        _free_ char *secret = mem_printf("%s/" SECRET_FILE, dir);
        return file_make(secret, 1, err);
}

static void box_of_workspace(struct box *b, const struct turn *t)
{
        _buf_ struct buf file = BUF_INIT(JSON_MAX), dir = BUF_INIT(JSON_MAX);
        _free_ char *file_path = mem_printf("%s/" SECRET_FILE, t->dir);
        _free_ char *dir_path = mem_printf("%s/" SECRET_DIR, t->dir);
        must(uri_from_path(&file, slice_from_str(file_path)) == 0 &&
             uri_from_path(&dir, slice_from_str(dir_path)) == 0);
        _free_ char *denied =
                mem_printf(DENY("\"path\",\"path\":\"%s\"") DENY("\"path\",\"path\":\"%s\""), file.p, dir.p);
        box_init(b, t, WORKSPACE, denied);
}

static int true_in_workspace(struct turn *t, bool tty, struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        _box_ struct box b;
        box_of_workspace(&b, t);
        int r = client_open_session(&c, t, CLIENT_ROOM_SMALL, err);
        if (r == 0 && t->is_first)
                r = box_check(&c, &b,
                              "echo x > new && rm new && ! cat secret && ! ls private && ! touch .git/x && "
                              "! mkdir .codex && ! test -w /usr",
                              err);
        return r < 0 ? r : run_true(t, &c, &b, tty, err);
}

static int true_on_pipes(struct turn *t, struct err *err)
{
        return true_in_workspace(t, false, err);
}

static int tails_in_workspace(struct turn *t, struct err *err)
{
        _box_ struct box b;
        box_of_workspace(&b, t);
        return tails_run(t, &(struct tails){ .cwd = b.cwd.p, .more = b.more.p, .commands = TAILS_TURN }, err);
}

static int true_on_pty(struct turn *t, struct err *err)
{
        return true_in_workspace(t, true, err);
}

/* --- what the check costs ----------------------------------------------------------------------------------------- */

/* A server of the program farhand-layers, with some of its defences switched off, and a client of it. */
struct lesser {
        struct contender server;
        struct client client;
};

static int lesser_open(struct lesser *l, const struct turn *t, const char *program, const char *off,
                       struct err *err)
{
        l->client = CLIENT_INIT;
        contender_init(&l->server, WHO_OURS, program, t->server->home);
        must(setenv("FARHAND_LAYERS_OFF", off, 1) == 0);
        int r = contender_start(&l->server, err);
        must(unsetenv("FARHAND_LAYERS_OFF") == 0);
        struct turn own = *t;
        own.server = &l->server;
        return r < 0 ? r : client_open_session(&l->client, &own, CLIENT_ROOM_SMALL, err);
}

static void lesser_close(struct lesser *l)
{
        client_close(&l->client);
        contender_stop(&l->server);
}

static int true_timed(struct lesser *l, const struct box *b, double *ret_us, struct err *err)
{
        uint64_t start = now_ns();
        int r = start_to_closed(&l->client, b, false, err);
        *ret_us = us_since(start);
        return r;
}

/* Starts alternate between the two servers, and the difference of neighbouring starts is measured: it is far smaller than the
 * noise in each of them. */
static int starts_compare(struct turn *t, struct lesser all[2], const struct box *b, struct err *err)
{
        int r = 0;
        for (size_t n = 0; r == 0 && turn_goes_on(t, n); n++) {
                double us[2] = { 0 };
                for (size_t i = 0; r == 0 && i < 2; i++) {
                        size_t who =
                                (i + n) %
                                2; /* the second run is slower, because the sandbox of the first is being taken down */
                        r = true_timed(&all[who], b, &us[who], err);
                }
                if (r < 0 || n < WARM_UP)
                        continue;
                samples_add(&t->into[0], us[0]);
                samples_add(&t->into[1], us[1]);
                samples_add(&t->into[2], us[0] - us[1]);
        }
        return r;
}

static int check_of_view(struct turn *t, struct err *err)
{
        if (t->server->who != WHO_OURS)
                return 0;
        struct lesser all[2] = { { .client = CLIENT_INIT }, { .client = CLIENT_INIT } };
        _box_ struct box b;
        _free_ char *program = beside_bench("farhand-layers");
        box_of_workspace(&b, t);
        int r = lesser_open(&all[0], t, program, "", err);
        if (r == 0)
                r = lesser_open(&all[1], t, program, "check", err);
        t->started_ns = now_ns();
        if (r == 0)
                r = starts_compare(t, all, &b, err);
        lesser_close(&all[0]);
        lesser_close(&all[1]);
        return r;
}

/* --- a large tree and a pattern ----------------------------------------------------------------------------------- */

static int prepare_searched(const char *dir, UNUSED size_t bytes, struct err *err)
{
        _free_ char *root = mem_printf("%s/" TREE_IN, dir);
        int r = mkdir(root, 0755) < 0 ? files_failed(err, root) : tree_make(root, &tree_searched, err);
        for (unsigned i = 0; r == 0 && i < KEYS; i++) {
                char at[TREE_PATH_MAX], key[TREE_PATH_MAX];
                tree_file(at, i * (tree_searched.dirs / KEYS), 0);
                snprintf(key, sizeof(key), "%.*s.key", (int)strcspn(at, "."), at);
                _free_ char *from = mem_printf("%s/%s", root, at), *to = mem_printf("%s/%s", root, key);
                if (rename(from, to) < 0)
                        r = files_failed(err, from);
        }
        return r;
}

/* The first sandboxed start of a server reads the whole tree. The page cache is warm for each contender alike. */
static int true_beside_tree(struct turn *t, struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        _box_ struct box b;
        box_init(&b, t, TREE_IN, DENY("\"glob_pattern\",\"pattern\":\"**/*.key\""));
        int r = contender_start(t->server, err);
        if (r == 0)
                r = client_open_session(&c, t, CLIENT_ROOM_SMALL, err);
        uint64_t start = t->started_ns = now_ns();
        if (r == 0)
                r = start_to_closed(&c, &b, false, err);
        samples_add(&t->into[1], us_since(start));
        if (r == 0 && t->is_first)
                r = box_check(&c, &b, "cat d000/file-00001.txt && ! cat d000/file-00000.key", err);
        if (r == 0)
                r = run_true(t, &c, &b, false, err);
        contender_stop(t->server);
        return r;
}

/* The limit of the machine: starts a process, and lists the whole tree. */
static int machine_beside_tree(struct turn *t, struct err *err)
{
        struct turn search = *t;
        search.into = &t->into[1];
        int r = machine_spawn(t, err);
        return r < 0 ? r : machine_search(&search, err);
}

#define GOALS                                                               \
        {                                                                   \
                { GOAL_REFERENCE, 1.0 / 15, "15 x faster than reference" }, \
                        { GOAL_MACHINE, 3, "<= 3 x posix_spawn" },          \
        }

const struct row rows_sandbox[] = {
        { .name = "sandbox-pipes",
          .has_acks = true,
          .budget_ms = 200,
          .prepare = prepare_workspace,
          .server = true_on_pipes,
          .machine = machine_spawn,
          .metrics = { { "latency", "`/bin/true` in a sandbox, pipes", UNIT_US, .goals = GOALS } } },
        { .name = "sandbox-pty",
          .has_acks = true,
          .budget_ms = 200,
          .prepare = prepare_workspace,
          .server = true_on_pty,
          .machine = machine_spawn,
          .metrics = { { "latency", "`/bin/true` in a sandbox, PTY", UNIT_US, .goals = GOALS } } },
        { .name = "sandbox-tails",
          .budget_ms = 1000,
          .prepare = prepare_workspace,
          .server = tails_in_workspace,
          .machine = tails_machine,
          .metrics = TAILS_METRICS("`/bin/true` in a sandbox, 16 in flight in one session",
                                   { .kind = GOAL_NONE }) },
        { .name = "sandbox-check",
          .is_solitary = true,
          .budget_ms = 800,
          .prepare = prepare_workspace,
          .server = check_of_view,
          .metrics = { { .name = "checked",
                         .title = "`/bin/true` in a sandbox, test build",
                         .unit = UNIT_US },
                       { .name = "unchecked",
                         .title = "- its mounts not compared with the plan before",
                         .unit = UNIT_US },
                       { .name = "cost", .title = "- what that comparison costs", .unit = UNIT_US } } },
        { .name = "sandbox-glob",
          .is_solitary = true,
          .is_long = true,
          .rounds = 5,
          .budget_ms = 200,
          .prepare = prepare_searched,
          .server = true_beside_tree,
          .machine = machine_beside_tree,
          .metrics = { { "warm", "the same with a pattern denied in 300,000 files", UNIT_US,
                         .goals = { { GOAL_VALUE, 10000, "< 10 ms" } } },
                       { .name = "cold", .title = "- the first time", .unit = UNIT_US } } },
        { 0 },
};
