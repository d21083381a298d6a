/* sandbox: `farhand sandbox`: reads its options and makes the profile under which a command is run here.
 *
 * The profile comes from a file or is made from flags; without either the command may read everything, write nothing and
 * reach no network. When the profile cannot be enforced the command is not run. Exit codes are like those of env(1) and
 * timeout(1): that of the command, 128+n for a signal, 127 and 126 when it cannot be executed, and 125 for our own failures.
 */
#include "cmd/cmd.h"

#include "base/args.h"
#include "base/fd.h"
#include "base/limits.h"
#include "cmd/git_access.h"
#include "cmd/sandbox_run.h"
#include "confine/prepare.h"
#include "plan/landlock_plan.h"
#include "policy/env.h"
#include "proto/legacy.h"
#include "proto/profile.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#define PROFILE_FILE_MAX (4 * MIB)
#define EXPLAIN_BYTES_MAX (64 * MIB)
#define DIRECTORIES_MAX 256

struct request {
        const char *profile_file;
        bool is_read_only, is_workspace_write;
        bool has_network, has_git, wants_explain, is_quiet;
        const char *cwd_name;
        const char *backend_name;
        enum backend backend;
        char *directories[DIRECTORIES_MAX]; /* the arguments of --workspace-write */
        size_t directory_count;
        char **argv; /* the command; NULL-terminated, may be empty with --explain */
};

/* The profile and its place, made from the request. */
struct planned_sandbox {
        struct arena arena;
        struct profile profile;
        struct place place;
        struct git_access git;
};

static int usage_error(const char *what, const char *more)
{
        fprintf(stderr, "error: %s%s\n\nFor more information, try '--help'.\n", what, more);
        return SANDBOX_EXIT_OURS;
}

/* ---- the command line ---- */

/* Takes the directories behind --workspace-write out of argv, so that only options are left. Returns false when there are
 * too many directories. */
static bool take_directories(int *argc, char **argv, struct request *req)
{
        int kept = 0;
        bool is_taking = false;
        for (int i = 0; i < *argc; i++) {
                bool is_directory = is_taking && argv[i][0] != '-';
                if (!is_directory) {
                        is_taking = strcmp(argv[i], "--workspace-write") == 0;
                        argv[kept++] = argv[i];
                        continue;
                }
                if (req->directory_count == DIRECTORIES_MAX)
                        return false;
                req->directories[req->directory_count++] = argv[i];
        }
        argv[kept] = NULL;
        *argc = kept;
        return true;
}

static int check_modes(const struct request *req)
{
        int modes = (req->profile_file != NULL) + req->is_read_only + req->is_workspace_write;
        if (modes > 1)
                return usage_error("only one of --profile, --read-only and --workspace-write can be used",
                                   "");
        if (req->has_git && !req->is_workspace_write)
                return usage_error("--git needs --workspace-write", "");
        if (!req->argv[0] && !req->wants_explain)
                return usage_error("there is no command: it stands behind '--'", "");
        return 0;
}

/* Reads the command line. Returns 0, or the exit code when *ret_stop is set. */
static int parse(int argc, char **argv, struct request *req, bool *ret_stop)
{
        const struct arg table[] = {
                { "profile", ARG_STRING, "FILE", "a permission profile (JSON)", .target = &req->profile_file,
                  .offers = OFFER_FILE },
                { "read-only", ARG_FLAG, NULL, "read everything, write nothing (the default)",
                  .target = &req->is_read_only },
                { "workspace-write", ARG_FLAG, NULL,
                  "[DIR…] also write these directories (default: the current one), /tmp and TMPDIR",
                  .target = &req->is_workspace_write },
                { "network", ARG_FLAG, NULL, "leave the network open", .target = &req->has_network },
                { "git", ARG_FLAG, NULL,
                  "with --workspace-write: let git commit; hooks and configuration stay read-only",
                  .target = &req->has_git },
                { "cwd", ARG_STRING, "DIR", "where the command starts (default: here)",
                  .target = &req->cwd_name, .offers = OFFER_DIRECTORY },
                { "sandbox-backend", ARG_STRING, "NAME", BACKEND_WISHES " (default auto)",
                  .target = &req->backend_name },
                { "quiet", ARG_FLAG, NULL, "do not tell after a failure what was refused",
                  .target = &req->is_quiet },
                { "explain", ARG_FLAG, NULL, "print what would be enforced, and run nothing",
                  .target = &req->wants_explain },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "farhand sandbox [OPTIONS] -- COMMAND [ARGUMENT…]",
                .about = "Run a command here under a permission profile. Without options it may read "
                         "everything, "
                         "write\nnothing and reach no network.",
                .table = table,
                .is_mixed = true, /* directories of --workspace-write stand between options */
                .operands = OFFER_DIRECTORY,
                .behind = OFFER_COMMAND,
        };
        int split = 1, rest;
        while (split < argc && strcmp(argv[split], "--") != 0)
                split++;
        req->argv = argv + MIN(split + 1, argc);
        int count = split;
        *ret_stop = true;
        if (!take_directories(&count, argv, req))
                return usage_error("too many directories", "");
        switch (args_parse(&spec, count, argv, &rest)) {
        case ARGS_HELP:
                return 0;
        case ARGS_BAD:
                return SANDBOX_EXIT_OURS;
        case ARGS_OK:
                break;
        }
        if (rest < count)
                return usage_error("the command stands behind '--'; unexpected argument: ", argv[rest]);
        req->backend = BACKEND_AUTO;
        if (req->backend_name && backend_parse(slice_from_str(req->backend_name), &req->backend) < 0)
                return usage_error("--sandbox-backend is " BACKEND_WISHES ", not ", req->backend_name);
        int code = check_modes(req);
        *ret_stop = code != 0;
        return code;
}

/* ---- the profile ---- */

static int real_directory(struct arena *a, const char *name, struct slice *ret, struct err *err)
{
        char room[PATH_MAX];
        if (!realpath(name, room) || access(room, F_OK) < 0) {
                err->os_errno = errno;
                return err_set(err, 0, -errno, "%s: %s", name, errno_text(errno));
        }
        struct slice path = slice_from_str(room);
        *ret = slice_from(arena_dup(a, path), path.n);
        return 0;
}

/* Is the file a sandbox policy of older programs? Its `type` is one of these; profiles have other types. */
static bool is_policy(struct arena *a, const struct json_doc *doc)
{
        static const char *const tags[] = { "danger-full-access", "dangerFullAccess", "read-only",
                                            "readOnly",           "external-sandbox", "externalSandbox",
                                            "workspace-write",    "workspaceWrite" };
        const struct json *tag = json_get(doc, json_root(doc), S("type"));
        return tag && tag->type == JSON_STRING &&
               slice_find(json_string(a, doc, tag), tags, ARRAY_LEN(tags)) < ARRAY_LEN(tags);
}

static int decode_profile(struct planned_sandbox *b, const struct json_doc *doc, struct err *err)
{
        if (!is_policy(&b->arena, doc))
                return profile_decode_stored(&b->arena, doc, json_root(doc), &b->profile, err);
        struct sandbox_policy policy;
        int r = sandbox_policy_decode(&b->arena, doc, json_root(doc), &policy, err);
        if (r < 0)
                return r;
        /* The host needs no list of protected names: they are protected in every writable root. */
        const struct policy_host host = { .place = &b->place };
        sandbox_policy_to_profile(&b->arena, &policy, &host, &b->profile);
        return 0;
}

static int read_profile(struct planned_sandbox *b, const char *file, struct err *err)
{
        _buf_ struct buf text = BUF_INIT(PROFILE_FILE_MAX);
        struct json_error bad;
        struct json_doc doc;
        int r = fd_read_file(file, PROFILE_FILE_MAX, &text);
        if (r < 0) {
                err->os_errno = -r;
                (void)err_set(err, 0, r, "%s", errno_text(r));
        } else {
                /* Strings of the profile point into the text, so the text must live as long. */
                char *copy = arena_zalloc(&b->arena, text.n + BUF_PADDING);
                memcpy(copy, text.p, text.n);
                r = json_parse(&b->arena, slice_from(copy, text.n), &doc, &bad);
                if (r < 0)
                        (void)err_set(err, 0, r, "%s", bad.text);
                else
                        r = decode_profile(b, &doc, err);
        }
        if (r < 0) {
                err->step = "profile";
                (void)err_wrap(err, "%s", file);
        }
        return r;
}

static struct profile_entry special(enum special what, enum access access)
{
        return (struct profile_entry){ .kind = TARGET_SPECIAL, .special = what, .access = access };
}

/* Makes the profile from the flags: everything can be read, and the given directories can be written. */
static int make_profile(struct planned_sandbox *b, const struct request *req, struct err *err)
{
        for (size_t i = 0; req->has_git && i < b->place.root_count; i++) {
                int r = git_access_add(&b->git, &b->arena, b->place.roots[i], err);
                if (r < 0)
                        return r;
        }
        if (req->has_git && b->git.found == 0) {
                err->step = "git";
                err->remedy = "name the directory that has it: --workspace-write DIR --git";
                return err_set(err, 0, -ENOENT, "--git: no workspace has a .git");
        }
        struct profile_entry *entries = arena_alloc(&b->arena, (4 + b->git.count) * sizeof(*entries));
        size_t n = 0;
        entries[n++] = special(SPECIAL_ROOT, ACCESS_READ);
        if (req->is_workspace_write) {
                entries[n++] = special(SPECIAL_PROJECT_ROOTS, ACCESS_WRITE);
                entries[n++] = special(SPECIAL_SLASH_TMP, ACCESS_WRITE);
                entries[n++] = special(SPECIAL_TMPDIR, ACCESS_WRITE);
        }
        for (size_t i = 0; i < b->git.count; i++)
                entries[n++] = b->git.entries[i];
        b->profile = (struct profile){ .kind = PROFILE_MANAGED, .entries = entries, .count = n };
        return 0;
}

static int make_place(struct planned_sandbox *b, const struct request *req, struct err *err)
{
        size_t count = MAX(req->directory_count, 1u);
        struct slice *roots = arena_alloc(&b->arena, count * sizeof(*roots));
        int r = real_directory(&b->arena, req->cwd_name ? req->cwd_name : ".", &b->place.cwd, err);
        if (r < 0) {
                err->step = "cwd";
                return r;
        }
        roots[0] = b->place.cwd;
        for (size_t i = 0; i < req->directory_count; i++) {
                r = real_directory(&b->arena, req->directories[i], &roots[i], err);
                if (r < 0)
                        return r;
        }
        b->place.roots = roots;
        b->place.root_count = count;
        b->place.tmpdir = env_tmpdir(&b->arena, getenv("TMPDIR"), b->place.cwd);
        return 0;
}

static int plan_sandbox(struct planned_sandbox *b, const struct request *req, struct err *err)
{
        *b = (struct planned_sandbox){ .git = GIT_ACCESS_INIT };
        int r = make_place(b, req, err);
        if (r == 0)
                r = req->profile_file ? read_profile(b, req->profile_file, err) : make_profile(b, req, err);
        if (r == 0)
                b->profile.has_network = b->profile.has_network || req->has_network;
        return r;
}

static int explain(struct planned_sandbox *b, enum backend wish)
{
        struct err err = ERR_INIT;
        struct plan plan;
        _buf_ struct buf text = BUF_INIT(EXPLAIN_BYTES_MAX);
        if (!profile_must_enforce(&b->profile)) {
                puts("the profile restricts nothing: the command would run as it is");
                return 0;
        }
        struct plan alone;
        int r = prepare_plan(NULL, &b->arena, &b->profile, &b->place, &plan, &err);
        if (r == 0 && wish == BACKEND_LANDLOCK)
                r = landlock_plan(&b->arena, &plan, true, &alone, &err);
        if (r < 0)
                return sandbox_complain(&err);
        if (plan_explain(&plan, &text) < 0) {
                (void)err_set(&err, 0, -ENOBUFS, "the plan is too long to be shown");
                return sandbox_complain(&err);
        }
        sandbox_print(stdout, buf_slice(&text));
        return fflush(stdout) == 0 ? 0 : SANDBOX_EXIT_OURS;
}

int cmd_sandbox(int argc, char **argv)
{
        static struct request req;
        struct err err = ERR_INIT;
        struct runner runner = { .spawner = NULL };
        bool is_done;
        int code = parse(argc, argv, &req, &is_done);
        if (is_done)
                return code;
        /* The spawner is forked before anything is opened or read, because it is a copy of this process. */
        if (!req.wants_explain && runner_open(&runner, &err) < 0)
                return sandbox_complain(&err);

        struct planned_sandbox b;
        const struct sandbox_run run = {
                .arena = &b.arena,
                .profile = &b.profile,
                .place = &b.place,
                .git = &b.git,
                .backend = req.backend,
                .has_profile = req.profile_file != NULL,
                .is_workspace_write = req.is_workspace_write,
                .has_git = req.has_git,
                .is_quiet = req.is_quiet,
                .argv = req.argv,
        };
        if (plan_sandbox(&b, &req, &err) < 0)
                code = sandbox_complain(&err);
        else
                code = req.wants_explain ? explain(&b, req.backend) : sandbox_run(&runner, &run);
        runner_close(&runner);
        git_access_release(&b.git);
        arena_release(&b.arena);
        return code;
}
