/* doctor: `farhand doctor`: says what works here and what does not, why, and what would help.
 *
 * The verdict is not concluded from single findings: this program itself is run in a read-only sandbox, as the server would run
 * a command, with the back end that the server would choose. Everything is bounded in time and changes nothing on the machine.
 */
#include "cmd/cmd.h"

#include "base/args.h"
#include "base/fd.h"
#include "cmd/confined.h"
#include "cmd/findings.h"
#include "cmd/runner.h"
#include "confine/prepare.h"
#include "sandbox/backend.h"
#include "wire/jsonw.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#define SANDBOX_MS 20000
#define JSON_BYTES_MAX 65536

/* ---- the list of findings ---- */

struct finding *findings_add(struct findings *f, const char *name, enum finding_status status,
                             const char *fmt, ...)
{
        static struct finding overflow;
        struct finding *one = f->count < FINDINGS_MAX ? &f->list[f->count++] : &overflow;
        *one = (struct finding){ .name = name, .status = status };
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(one->text, sizeof(one->text), fmt, ap);
        va_end(ap);
        return one;
}

void findings_add_result(struct findings *f, const char *name, enum finding_status when_not, int r,
                         const char *remedy)
{
        if (r >= 0) {
                findings_add(f, name, FINDING_OK, "works");
                return;
        }
        struct finding *one = findings_add(f, name, when_not, "%s", errno_text(r));
        one->os_errno = -r;
        one->remedy = remedy;
}

/* ---- trying the sandbox ---- */

static void add_err(struct findings *f, const struct err *err)
{
        struct finding *one = findings_add(f, "sandbox", FINDING_FAIL, "%s", err->text);
        one->os_errno = err->os_errno;
        one->remedy = err->remedy;
}

/* Runs `farhand --version` in the sandbox, because the machine may have no other program. */
static int start_self(struct runner *r, struct confined *confined, struct arena *a, int null,
                      enum backend wish, struct err *err)
{
        struct profile_entry root = { .kind = TARGET_SPECIAL,
                                      .special = SPECIAL_ROOT,
                                      .access = ACCESS_READ };
        const struct profile read_only = { .kind = PROFILE_MANAGED, .entries = &root, .count = 1 };
        const struct slice cwd = S("/");
        const struct place place = { .cwd = cwd, .roots = &cwd, .root_count = 1 };
        static const char *const argv[] = { "farhand", "--version", NULL };
        /* A build with sanitizers cannot look for leaks in a sandbox. Other builds ignore the variable. */
        static const char *const env[] = { "ASAN_OPTIONS=detect_leaks=0", NULL };
        char self[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        if (n < 0)
                return err_set(err, 0, -errno, "/proc/self/exe: %s", errno_text(errno));
        self[n] = '\0';
        int result = confined_make(confined, a, &read_only, &place, wish, err);
        if (result < 0)
                return result;
        const struct command_spec command = {
                .argv = argv,
                .env = env,
                .candidates = runner_candidates(a, self, ""),
                .cwd = "/",
                .has_image = true,
                .image_fd = confined->sandbox.image_fd,
                .bwrap = preparer_bwrap(&confined->confine.preparer, confined->sandbox.image),
        };
        const int stdio[] = { null, null, null };
        return runner_start(r, &command, stdio, err);
}

static void add_outcome(struct findings *f, const struct runner *r, const struct confined *confined,
                        bool is_over)
{
        struct err err = ERR_INIT;
        if (r->has_failed && prepare_is_step(r->step)) {
                prepare_explain(confined->sandbox.image_fd, r->step, r->os_errno, r->op, &err);
                add_err(f, &err);
        } else if (r->has_failed) {
                findings_add(f, "sandbox", FINDING_FAIL, "%s: %s", r->step, errno_text(r->os_errno))
                        ->os_errno = r->os_errno;
        } else if (!is_over || !r->has_exited) {
                findings_add(f, "sandbox", FINDING_FAIL, "a command did not end in %d seconds",
                             SANDBOX_MS / 1000);
        } else if (!WIFEXITED(r->status) || WEXITSTATUS(r->status) != 0) {
                findings_add(f, "sandbox", FINDING_FAIL, "a command ended with the status %d", r->status);
        } else {
                findings_add(f, "sandbox", FINDING_OK, "a command ran read-only, without network");
        }
}

static void try_sandbox(struct findings *f, struct runner *r, enum backend wish)
{
        _arena_ struct arena a = ARENA_INIT;
        _close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        struct confined confined = CONFINED_INIT;
        struct err err = ERR_INIT;
        if (null < 0)
                findings_add_result(f, "sandbox", FINDING_FAIL, -errno, "look at /dev/null");
        else if (start_self(r, &confined, &a, null, wish, &err) < 0)
                add_err(f, &err);
        else
                add_outcome(f, r, &confined, runner_wait(r, SANDBOX_MS));
        runner_close(r);
        confined_release(&confined);
}

/* ---- printing the findings ---- */

static const char *const status_words[] = {
        [FINDING_OK] = "ok", [FINDING_WARN] = "warn", [FINDING_FAIL] = "fail"
};

/* Says whether all profiles, some profiles or none can be enforced. */
static const char *verdict(const struct backends *b, bool can_enforce)
{
        if (!can_enforce)
                return "Sandboxes cannot be enforced here: whatever asks for one is refused.";
        if (b->chosen == BACKEND_LANDLOCK)
                return "Sandboxes can be enforced here, but only those that deny and protect nothing inside "
                       "of what "
                       "they allow.";
        return "Sandboxes can be enforced here.";
}

static void print_text(const struct findings *f, const struct backends *b, bool can_enforce)
{
        for (size_t i = 0; i < f->count; i++) {
                const struct finding *one = &f->list[i];
                printf("%-5s %-19s %s", status_words[one->status], one->name, one->text);
                if (one->os_errno)
                        printf(" (%s)", errno_name(one->os_errno));
                putchar('\n');
                if (one->remedy)
                        printf("%-5s %-19s remedy: %s\n", "", "", one->remedy);
        }
        printf("\n%s\n", verdict(b, can_enforce));
}

static int print_json(const struct findings *f, const struct backends *b, bool can_enforce)
{
        _buf_ struct buf out = BUF_INIT(JSON_BYTES_MAX);
        struct jsonw w;
        jsonw_begin(&w, &out);
        jsonw_object(&w);
        jsonw_member_str(&w, "version", FARHAND_VERSION);
        jsonw_member_bool(&w, "canEnforce", can_enforce);
        jsonw_member_str(&w, "backend", backend_name(b->chosen));
        jsonw_key(&w, "findings");
        jsonw_array(&w);
        for (size_t i = 0; i < f->count; i++) {
                const struct finding *one = &f->list[i];
                jsonw_object(&w);
                jsonw_member_str(&w, "name", one->name);
                jsonw_member_str(&w, "status", status_words[one->status]);
                jsonw_member_str(&w, "text", one->text);
                if (one->os_errno)
                        jsonw_member_str(&w, "errno", errno_name(one->os_errno));
                if (one->remedy)
                        jsonw_member_str(&w, "remedy", one->remedy);
                jsonw_object_end(&w);
        }
        jsonw_array_end(&w);
        jsonw_object_end(&w);
        int r = jsonw_end(&w);
        if (r == 0)
                printf("%s\n", out.p);
        return r;
}

int cmd_doctor(int argc, char **argv)
{
        bool is_json = false;
        const char *backend = "auto";
        enum backend wish;
        const struct arg table[] = {
                { "json", ARG_FLAG, NULL, "print one JSON object", .target = &is_json },
                { "sandbox-backend", ARG_STRING, "NAME", "as of farhand serve: " BACKEND_WISHES,
                  .target = &backend },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "farhand doctor [--json] [--sandbox-backend NAME]",
                .about = "Try what a sandbox needs, and say what works here. Exit code 0: sandboxes can be "
                         "enforced.",
                .table = table,
        };
        enum args_result parsed = args_parse(&spec, argc, argv, NULL);
        if (parsed != ARGS_OK)
                return args_exit_code(parsed);
        if (backend_parse(slice_from_str(backend), &wish) < 0) {
                (void)args_refuse("sandbox-backend", backend, BACKEND_WISHES);
                return 2;
        }

        static struct findings f;
        struct backends backends;
        struct runner runner;
        struct err err = ERR_INIT;
        bool has_spawner = runner_open(&runner, &err) == 0;
        backends_test(wish, true, &backends);
        findings_kernel(&f);
        findings_backends(&f, &backends);
        findings_host(&f);
        if (has_spawner)
                try_sandbox(&f, &runner, wish);
        else
                add_err(&f, &err);
        bool can_enforce = f.list[f.count - 1].status == FINDING_OK;
        int r = 0;
        if (is_json)
                r = print_json(&f, &backends, can_enforce);
        else
                print_text(&f, &backends, can_enforce);
        backends_release(&backends);
        return r == 0 && fflush(stdout) == 0 && can_enforce ? 0 : 1;
}
