/* first_program: finds the file of a command's first program as execvp would, and asks the rules about it. */
#include "session/first_program.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "intercept/message.h"
#include "intercept/pack.h"
#include "intercept/preloaded.h"
#include "intercept/tested.h"
#include "proto/process.h"
#include "sandbox/helper.h"
#include "session/task_internal.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#define WRAPPER "farhand-execve-wrapper"
#define FRAME_ID 1 /* the frame of a question must have an id, but the id of this question is never used */

static struct intercept_options options_of(const struct process_intercept *in)
{
        static const enum intercept_unmatched unmatched[] = {
                [INTERCEPT_REST_HEURISTIC] = INTERCEPT_UNMATCHED_HEURISTIC,
                [INTERCEPT_REST_RUN] = INTERCEPT_UNMATCHED_RUN,
                [INTERCEPT_REST_ASK] = INTERCEPT_UNMATCHED_ASK,
        };
        static const enum intercept_scope scopes[] = {
                [INTERCEPT_SCOPE_ALL] = INTERCEPT_ALL,
                [INTERCEPT_SCOPE_SHELL] = INTERCEPT_SHELL,
                [INTERCEPT_SCOPE_BELOW] = INTERCEPT_BELOW,
        };
        return (struct intercept_options){
                .scope = scopes[in->scope],
                .names = in->has_full_names ? INTERCEPT_FULL : INTERCEPT_BASE,
                .on_prompt = in->denies_prompts ? INTERCEPT_PROMPT_DENY : INTERCEPT_PROMPT_ASK,
                .on_unmatched = unmatched[in->rest],
                .reports = in->reports,
        };
}

/* Reads the rules, and packs them for the broker. */
static int read_rules(struct arena *a, const struct process_intercept *in, struct interception *ret,
                      struct exec_rules **ret_rules, struct err *err)
{
        struct exec_rules_text *texts = arena_alloc(a, (in->rule_count + 1) * sizeof(*texts));
        for (size_t i = 0; i < in->rule_count; i++)
                texts[i] = (struct exec_rules_text){ in->rules[i].name, in->rules[i].text };
        *ret_rules = exec_rules_new(texts, in->rule_count, NULL, err);
        if (!*ret_rules) {
                err->client_code = RPC_INVALID_PARAMS;
                err->reason = "badRules";
                return err->code;
        }
        ret->options = options_of(in);
        ret->config = intercept_pack(&ret->options, texts, in->rule_count);
        if (ret->config >= 0)
                return 0;
        int e = -ret->config;
        err->step = "intercept";
        err->os_errno = e;
        return err_set(err, RPC_INTERNAL, -e, "the rules cannot be handed over: %s (os error %d)",
                       errno_text(e), e);
}

static int denied(const char *reason, struct err *err)
{
        err->reason = "execDenied";
        return err_set(err, RPC_INVALID_REQUEST, -EPERM, "Execution denied: %s", reason);
}

/* Joins the arguments that fit, each with its NUL. Returns how many fit; *ret_omitted is how many bytes the others have. */
static uint32_t join(const struct intercept_exec *exec, struct buf *ret, uint64_t *ret_omitted)
{
        uint32_t count = 0;
        *ret_omitted = 0;
        for (size_t i = 0; i < exec->argc; i++) {
                size_t n = exec->argv[i].n + 1;
                if (*ret_omitted > 0 || n > ret->cap - ret->n) {
                        *ret_omitted += n;
                        continue;
                }
                must(buf_append(ret, exec->argv[i]) == 0 && buf_append_char(ret, 0) == 0);
                count++;
        }
        return count;
}

static int write_frame(struct arena *a, const struct intercept_exec *exec, const struct intercept_verdict *v,
                       struct interception *ret, struct err *err)
{
        bool is_ask = v->action == INTERCEPT_ASK;
        _buf_ struct buf argv = BUF_INIT(LIMIT_INTERCEPT_ARGV_BYTES),
                         frame = BUF_INIT(LIMIT_INTERCEPT_FRAME_BYTES);
        struct intercept_message m = {
                .kind = is_ask ? INTERCEPT_MSG_ASK : INTERCEPT_MSG_TOLD,
                .question = { .id = is_ask ? FRAME_ID : 0,
                              .action = v->action,
                              .accepted = v->accepted,
                              .file = intercept_path(a, exec),
                              .cwd = exec->cwd },
        };
        struct intercept_question *q = &m.question;
        q->argc = join(exec, &argv, &q->omitted_bytes);
        q->argv = buf_slice(&argv);
        if (v->rule) {
                q->rule_text = slice_from_str(v->rule->text_name);
                q->rule_line = v->rule->line;
                q->justification = v->rule->justification;
        }
        if ((is_ask && q->omitted_bytes > 0) || intercept_message_write(&frame, &m) < 0)
                return denied("it is too long to be asked about", err);
        ret->frame_bytes = frame.n;
        ret->frame = buf_take(&frame);
        return 0;
}

static int decide(struct arena *a, const struct process_start *in, const struct exec_rules *rules,
                  struct interception *ret, struct err *err)
{
        struct slice *argv = arena_alloc(a, in->argc * sizeof(*argv));
        memcpy(argv, in->argv, in->argc * sizeof(*argv));
        if (in->arg0.p)
                argv[0] = in->arg0;
        const struct intercept_exec exec = { in->program, in->cwd, argv, in->argc };
        struct intercept_verdict v;
        intercept_decide(&ret->options, rules, a, &exec, &v);
        if (v.action == INTERCEPT_DENY)
                return denied(v.reason, err);
        ret->action = v.action;
        return write_frame(a, &exec, &v, ret, err);
}

/* Returns 0 if the kernel lets the starts of programs wait for a decision, or else a negative number with *err. */
static int check_kernel(struct err *err)
{
        struct intercept_tested tested = intercept_test();
        if (!tested.step)
                return 0;
        int e = intercept_refuse(&tested, err);
        err->client_code = RPC_INTERNAL;
        return e;
}

/* Finds the wrapper, and checks that it can be executed: a shell without its wrapper executes nothing at all. */
static int find_wrapper(const struct process_intercept *in, struct interception *ret, struct err *err)
{
        char installed[PATH_MAX];
        const char *path = in->wrapper                            ? in->wrapper
                           : helper_find(WRAPPER, installed) == 0 ? installed
                                                                  : NULL;
        int e = !path ? ENOENT : access(path, X_OK) < 0 ? errno : 0;
        ret->asking = EXEC_ASKED_BY_SHELL;
        if (e == 0) {
                ret->wrapper = slice_dup(slice_from_str(path));
                return 0;
        }
        err->client_code = RPC_INTERNAL;
        err->reason = "interceptUnavailable";
        err->step = "wrapper";
        err->os_errno = e;
        err->remedy = "name a wrapper that can be executed on the server's machine, such as " WRAPPER;
        return err_set(err, RPC_INTERNAL, -e, "the wrapper %s cannot be executed: %s (os error %d)",
                       path ? path : WRAPPER, errno_text(e), e);
}

static int find_library(struct interception *ret, struct err *err)
{
        const char *missing = "";
        struct preloaded found;
        int e = -preloaded_find(&found, &missing);
        if (e == 0) {
                ret->asking = EXEC_ASKED_BY_SHELL;
                ret->wrapper = mem_strdup(found.wrapper);
                ret->library = mem_strdup(found.library);
                return 0;
        }
        err->client_code = RPC_INTERNAL;
        err->reason = "interceptUnavailable";
        err->step = "preload";
        err->os_errno = e;
        err->remedy = "install it beside the server, or in ../libexec/farhand, under a path without a "
                      "colon, space, semicolon or dollar";
        return err_set(err, RPC_INTERNAL, -e,
                       "no program can be intercepted by preloading: %s: %s (os error %d)", missing,
                       errno_text(e), e);
}

static int choose_mechanism(const struct process_intercept *in, struct interception *ret, struct err *err)
{
        struct err kernel = ERR_INIT, ignored = ERR_INIT;
        switch (in->mechanism) {
        case INTERCEPT_MECHANISM_WRAPPER:
                return find_wrapper(in, ret, err);
        case INTERCEPT_MECHANISM_PRELOAD:
                return find_library(ret, err);
        case INTERCEPT_MECHANISM_SECCOMP:
                return check_kernel(err);
        case INTERCEPT_MECHANISM_ANY:
                break;
        }
        int r = check_kernel(&kernel);
        /* Want of memory or processes, which a command can bring about, must not make the interception weaker. */
        if (r == 0 || (intercept_means() == INTERCEPT_BY_PRELOAD && find_library(ret, &ignored) == 0))
                return 0;
        *err = kernel;
        return r;
}

int interception_make(struct arena *a, struct process_start *in, const char *const *env,
                      struct interception *ret, struct err *err)
{
        _exec_rules_ struct exec_rules *rules = NULL;
        int r = choose_mechanism(&in->intercept, ret, err);
        if (r == 0)
                r = read_rules(a, &in->intercept, ret, &rules, err);
        if (r == 0)
                r = task_program_find(a, in, env, &in->program, err);
        if (r == 0 && ret->options.scope == INTERCEPT_ALL)
                r = decide(a, in, rules, ret, err);
        if (r < 0)
                interception_release(ret);
        return r;
}

void interception_release(struct interception *i)
{
        fd_close(i->config);
        free(i->frame);
        free(i->wrapper);
        free(i->library);
        *i = INTERCEPTION_NONE;
}
