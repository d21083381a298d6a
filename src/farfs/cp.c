/* cp: reads the operands of `farhand cp`, finds out where each goes, and says in the end what was done. */
#include "farfs/cp.h"

#include "base/clock.h"
#include "base/mem.h"
#include "farfs/farfs.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* Where the copies go. */
struct target {
        struct cp_side *side; /* NULL: stdout */
        const char *path;
        bool is_directory; /* the path is a directory that is there: copies go into it */
        bool must_be_one;  /* the path must be a directory, because there are several sources */
};

static bool has_slash(const char *path)
{
        size_t n = strlen(path);
        return n > 0 && path[n - 1] == '/';
}

/* Returns the directory that a path is in, and its last name in *ret_name; both in the arena. */
static const char *split(struct cp *cp, const char *path, const char **ret_name)
{
        struct arena *a = &cp->options.arena;
        size_t end = strlen(path);
        while (end > 1 && path[end - 1] == '/')
                end--;
        size_t start = end;
        while (start > 0 && path[start - 1] != '/')
                start--;
        *ret_name = arena_dup(a, slice_from(path + start, end - start));
        return start == 0 ? "." : arena_dup(a, slice_from(path, start));
}

/* Looks at what the user has named, links followed. Returns 0, or -errno: then *ret_error says more. */
static int look(struct cp_side *side, const char *path, struct cp_meta *ret, struct farhand_error *ret_error)
{
        struct stat st;
        struct farhand_metadata m;
        if (cp_is_near(side)) {
                if (stat(path, &st) < 0) {
                        *ret_error = (struct farhand_error){ .code = -errno };
                        (void)snprintf(ret_error->text, sizeof(ret_error->text), "%s", strerror(errno));
                        return ret_error->code;
                }
                cp_meta_from_stat(&st, ret);
                return 0;
        }
        int r = farhand_stat(side->fs.client, path, &m, ret_error);
        if (r < 0)
                return ret_error->rpc_code == -32004 ? -ENOENT : r;
        *ret = (struct cp_meta){ .kind = m.is_directory ? CP_DIRECTORY
                                         : m.is_file    ? CP_FILE
                                                        : CP_OTHER,
                                 .has_mode = m.has_mode,
                                 .mode = m.mode & 01777,
                                 .size = m.size,
                                 .modified_ms = m.modified_ms };
        return 0;
}

/* Returns the path without links, in the arena, so that its last name can be opened without following a link. */
static const char *real_path(struct cp *cp, struct cp_side *side, const char *path)
{
        char *real = NULL;
        if (cp_is_near(side))
                real = realpath(path, NULL);
        else if (farhand_canonicalize(side->fs.client, path, &real, NULL) < 0)
                real = NULL;
        const char *text = real ? arena_dup(&cp->options.arena, slice_from_str(real)) : path;
        free(real);
        return text;
}

/* Returns the last name of a source, which is also the name of its copy in a directory. */
static const char *copy_name(struct cp *cp, const char *given)
{
        const char *colon = strchr(given, ':'), *slash = strchr(given, '/'), *name;
        bool is_far = colon && (!slash || colon < slash);
        (void)split(cp, is_far ? colon + 1 : given, &name);
        return name;
}

static struct cp_dir *open_target(struct cp *cp, const struct target *t, const char **name)
{
        const char *directory = t->is_directory && !cp->is_exact ? t->path : split(cp, t->path, name);
        return cp_dir_open(cp, t->side, directory);
}

/* Returns whether the last name of a path cannot be the name of a copy. */
static bool is_nameless(const char *name)
{
        return !*name || strcmp(name, "/") == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void copy_directory(struct cp *cp, struct cp_dir *from, const struct cp_meta *meta, const char *name,
                           const struct target *t)
{
        const char *own;
        struct target exact = { .side = t->side, .path = t->path };
        if (t->is_directory && cp->is_exact) {
                exact.path = real_path(cp, t->side, t->path);
                (void)split(cp, exact.path, &own);
                name = own;
                t = &exact;
        }
        if ((t->is_directory || t == &exact) && is_nameless(name)) {
                /* The content goes into a directory that is there, which keeps its mode and time. */
                _cp_dir_ struct cp_dir *to = cp_dir_open(cp, t->side, t->path);
                if (to)
                        cp_tree(from, to);
                return;
        }
        struct cp_meta there = { 0 };
        _cp_dir_ struct cp_dir *parent = open_target(cp, t, &name);
        if (!parent || cp_look(parent, name, &there) < 0)
                return;
        _cp_dir_ struct cp_dir *to = cp_dir_make(parent, name, meta, there.kind);
        if (to)
                cp_tree(from, to);
}

static void copy_file(struct cp *cp, struct cp_side *side, const char *path, const struct cp_meta *meta,
                      const char *name, const struct target *t)
{
        const char *from_name;
        const char *directory = split(cp, real_path(cp, side, path), &from_name);
        _cp_dir_ struct cp_dir *from = cp_dir_open(cp, side, directory);
        if (from && !t->side) {
                cp_stdout(from, from_name);
                return;
        }
        _cp_dir_ struct cp_dir *to = from ? open_target(cp, t, &name) : NULL;
        struct cp_entry entry = { .name = from_name, .meta = *meta }, existing = { .name = name };
        if (to && cp_look(to, name, &existing.meta) == 0)
                cp_entry(from, &entry, to, name, existing.meta.kind == CP_NOTHING ? NULL : &existing);
}

static void copy(struct cp *cp, const char *given, const struct target *t)
{
        struct farhand_error error = { 0 };
        struct cp_meta meta;
        const char *path, *name = copy_name(cp, given);
        if (strcmp(given, "-") == 0) {
                _cp_dir_ struct cp_dir *to = t->is_directory ? NULL : open_target(cp, t, &name);
                if (to)
                        cp_stdin(to, name);
                else
                        remote_say(&cp->options, "stdin needs the name of a file to be copied to");
                cp->counts.failed += !to;
                return;
        }
        struct cp_side *side = cp_side_of(cp, given, &path);
        if (!side) {
                cp->counts.failed++;
                return;
        }
        if (look(side, path, &meta, &error) < 0) {
                cp->counts.failed++;
                fs_complain(&side->fs, given, &error);
                return;
        }
        if (meta.kind == CP_OTHER || (meta.kind == CP_DIRECTORY && (!cp->is_recursive || !t->side))) {
                cp->counts.failed++;
                remote_say(&cp->options, "%s: %s", given,
                           meta.kind == CP_OTHER ? "this is neither a file nor a directory"
                           : t->side             ? "this is a directory; -r copies it"
                                                 : "this is a directory");
                return;
        }
        if (meta.kind == CP_DIRECTORY) {
                _cp_dir_ struct cp_dir *from = cp_dir_open(cp, side, path);
                if (from)
                        copy_directory(cp, from, &meta, name, t);
        } else {
                copy_file(cp, side, path, &meta, name, t);
        }
        cp_small_flush(cp);
        cp_settle(cp, 0);
}

/* Finds out what the destination is. Returns -1, or the exit code when nothing can be copied there; then stderr was told. */
static int find_target(struct cp *cp, const char *given, int source_count, struct target *t)
{
        struct farhand_error error;
        struct cp_meta meta;
        if (strcmp(given, "-") == 0)
                return -1;
        t->side = cp_side_of(cp, given, &t->path);
        if (!t->side)
                return FS_LOST;
        bool is_there = look(t->side, t->path, &meta, &error) == 0;
        t->is_directory = is_there && meta.kind == CP_DIRECTORY;
        t->must_be_one = source_count > 1;
        if ((t->must_be_one && !t->is_directory) || (has_slash(given) && is_there && !t->is_directory)) {
                fs_complain_errno(&t->side->fs, given, ENOTDIR);
                return FS_FAILED;
        }
        return -1;
}

static void print_json(const struct cp *cp)
{
        _buf_ struct buf text = BUF_INIT(FS_JSON_MAX);
        struct jsonw w;
        jsonw_begin(&w, &text);
        jsonw_object(&w);
        jsonw_member_u64(&w, "files", cp->counts.files);
        jsonw_member_u64(&w, "directories", cp->counts.directories);
        jsonw_member_u64(&w, "links", cp->counts.links);
        jsonw_member_u64(&w, "bytes", cp->counts.bytes);
        jsonw_member_u64(&w, "unchanged", cp->counts.unchanged);
        jsonw_member_u64(&w, "resumedBytes", cp->counts.resumed_bytes);
        jsonw_member_u64(&w, "verified", cp->counts.verified);
        jsonw_member_u64(&w, "failed", cp->counts.failed);
        jsonw_member_u64(&w, "durationMs", clock_mono_ms() - cp->progress.begun_ms);
        jsonw_object_end(&w);
        fs_json_line(&w, &text);
}

/* Copies all sources. Returns the exit code. */
static int copy_all(struct cp *cp, int count, char **operands)
{
        struct target t = { 0 };
        int code = find_target(cp, operands[count - 1], count - 1, &t);
        if (code >= 0)
                return code;
        for (int i = 0; i + 1 < count && !(i > 0 && cp_is_lost(cp)); i++)
                copy(cp, operands[i], &t);
        cp_progress_clear(cp);
        if (cp->is_json)
                print_json(cp);
        if (fflush(stdout) != 0 || ferror(stdout)) {
                remote_say(&cp->options, "cannot write the output: %s", strerror(errno));
                cp->counts.failed++;
        }
        return cp_is_lost(cp) ? FS_LOST : cp->counts.failed > 0 ? FS_FAILED : 0;
}

static bool is_far(const char *operand)
{
        const char *colon = strchr(operand, ':'), *slash = strchr(operand, '/');
        return colon && (!slash || colon < slash);
}

/* Returns what is wrong with the operands, or NULL. */
static const char *find_mistake(const struct cp *cp, int count, char **operands)
{
        bool has_far = false, has_stdin = false;
        const char *to = operands[count - 1];
        for (int i = 0; i < count; i++) {
                has_far = has_far || is_far(operands[i]);
                has_stdin = has_stdin || (i + 1 < count && strcmp(operands[i], "-") == 0);
                if (i + 1 < count && !is_far(operands[i]) && !is_far(to))
                        return "a source and its destination are both on this machine: use cp(1), or write "
                               ":PATH for one "
                               "of the environment";
        }
        if (has_stdin && count > 2)
                return "stdin can only be copied alone";
        if (cp->is_json && strcmp(to, "-") == 0)
                return "--json and a copy to stdout are in each other's way";
        return has_far ? NULL : "no operand is of an environment: write ENV:PATH or :PATH";
}

int cmd_cp(int argc, char **argv)
{
        struct cp cp = { 0 };
        const struct arg table[] = {
                REMOTE_ARGS(&cp.options),
                { "recursive", ARG_FLAG, NULL, "copy directories with all that is in them", .letter = 'r',
                  .target = &cp.is_recursive },
                { "no-target-directory", ARG_FLAG, NULL,
                  "DST is the copy itself, also when it is a directory", .letter = 'T',
                  .target = &cp.is_exact },
                { "verify", ARG_FLAG, NULL, "compare each copy with its source by digest",
                  .target = &cp.is_verified },
                { "quiet", ARG_FLAG, NULL, "no line of progress on a terminal", .letter = 'q',
                  .target = &cp.is_quiet },
                { "json", ARG_FLAG, NULL, "print what was done as a JSON object", .target = &cp.is_json },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "farhand cp [OPTIONS] SRC... DST",
                .about = "Copy files and directories from or to an environment, written ENV:PATH.",
                .table = table,
                .is_mixed = true,
                .operands = OFFER_FILE
        };
        int rest = 0;
        enum args_result parsed = args_parse(&spec, argc, argv, &rest);
        if (parsed != ARGS_OK)
                return args_exit_code(parsed);
        const char *mistake =
                argc - rest < 2 ? "too few operands" : find_mistake(&cp, argc - rest, argv + rest);
        if (mistake) {
                fprintf(stderr, "error: %s; usage: %s\n", mistake, spec.usage);
                return 2;
        }
        list_init(&cp.checks);
        cp_progress_begin(&cp);
        int code = copy_all(&cp, argc - rest, argv + rest);
        cp_sides_release(&cp);
        return code;
}
