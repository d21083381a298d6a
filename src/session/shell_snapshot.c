/* shell_snapshot: captures what a login shell has set up, and changes later starts so that they restore it. */
#include "session/shell_snapshot.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/random.h"
#include "core/job.h"
#include "policy/env.h"
#include "proto/process.h"
#include "session/task_internal.h"

#include <nettle/sha2.h>

#define KEY_BYTES SHA256_DIGEST_SIZE
/* Name of a variable that holds a part of the text to restore; a number follows. */
#define VARIABLE "FARHAND_SNAPSHOT_"
#define VARIABLE_BYTES ((size_t)96 * KIB) /* length of one part: execve takes strings up to 128 KiB */
#define SCRIPT_BYTES ((size_t)127 * KIB)
#define MATCH_WORK_MAX (64 * MIB) /* steps of matching; a start that needs more does not use a snapshot */
#define SHELL_END_MS 1000         /* time for the shell to end after the capture's time limit */

struct shell_snapshot {
        struct list link; /* session::shell_snapshots, least recently used first */
        struct session *session;
        enum shell_snapshot_state state;
        uint8_t key[KEY_BYTES];
        char mark[UUID_TEXT_BYTES];      /* printed before, between and after the parts of the output */
        struct timer *timer;             /* time limit of the capture */
        struct task *task;               /* the task that captures; NULL when there is none */
        struct shell_snapshot **planner; /* pointer in the job that plans the capture, or NULL */
        unsigned tries;     /* captures whose sandbox plan was overtaken by changes on the disk */
        struct buf base;    /* environment of the capture, as NAME=VALUE with a NUL behind each */
        struct buf text;    /* functions, aliases and options, as a script for the shell */
        struct buf changed; /* variables that the profile files set, as NAME=VALUE with a NUL behind each */
        struct buf unset;   /* names of variables that the profile files removed, with a NUL behind each */
};

/* ---- which snapshot belongs to a start ---- */

bool shell_snapshot_applies(const struct process_start *in)
{
        const struct shell_snapshot_request *r = &in->snapshot;
        return in->has_snapshot && in->argc >= 3 && slice_eq(in->argv[0], r->shell_path) &&
               slice_eq(in->argv[1], S("-lc")) && slice_eq(r->shell_name, S("bash"));
}

static void make_key(const struct process_start *in, uint8_t ret[KEY_BYTES])
{
        const struct shell_snapshot_request *r = &in->snapshot;
        const struct slice parts[] = { r->scope, r->shell_path, in->cwd, r->policy, r->sandbox };
        struct sha256_ctx sha;

        sha256_init(&sha);
        for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
                sha256_update(&sha, sizeof(parts[i].n), (const uint8_t *)&parts[i].n);
                if (parts[i].n > 0)
                        sha256_update(&sha, parts[i].n, (const uint8_t *)parts[i].p);
        }
        sha256_digest(&sha, KEY_BYTES, ret);
}

/* Ends the capture: the job that plans it, or the task that runs it, forgets the snapshot. */
static void end_capture(struct shell_snapshot *s)
{
        struct task *t = TAKE(s->task);
        if (s->planner)
                *s->planner = NULL;
        s->planner = NULL;
        s->timer = timer_free(s->timer);
        buf_release(&s->base);
        if (t)
                task_capture_over(t);
}

static void snapshot_free(struct shell_snapshot *s)
{
        list_remove(&s->link);
        s->session->shell_snapshot_count--;
        end_capture(s);
        buf_release(&s->text);
        buf_release(&s->changed);
        buf_release(&s->unset);
        free(s);
}

/* Makes room for one more snapshot: frees the least recently used one that is not being captured. */
static bool make_room(struct session *session)
{
        struct shell_snapshot *s;
        if (session->shell_snapshot_count < LIMIT_SHELL_SNAPSHOTS)
                return true;
        list_each (s, &session->shell_snapshots, link) {
                if (s->state == SHELL_SNAPSHOT_CAPTURING)
                        continue;
                snapshot_free(s);
                return true;
        }
        return false;
}

struct shell_snapshot *shell_snapshot_find(struct session *session, const struct process_start *in)
{
        uint8_t key[KEY_BYTES];
        struct shell_snapshot *s;

        make_key(in, key);
        list_each (s, &session->shell_snapshots, link) {
                if (memcmp(s->key, key, KEY_BYTES) != 0)
                        continue;
                list_remove(&s->link);
                list_append(&session->shell_snapshots, &s->link);
                return s;
        }
        if (!make_room(session))
                return NULL;
        s = mem_new(struct shell_snapshot);
        s->session = session;
        memcpy(s->key, key, KEY_BYTES);
        buf_init(&s->base, SIZE_MAX / 4);
        buf_init(&s->text, LIMIT_SHELL_SNAPSHOT_BYTES);
        buf_init(&s->changed, LIMIT_SHELL_SNAPSHOT_BYTES);
        buf_init(&s->unset, LIMIT_SHELL_SNAPSHOT_BYTES);
        list_append(&session->shell_snapshots, &s->link);
        session->shell_snapshot_count++;
        return s;
}

enum shell_snapshot_state shell_snapshot_state(const struct shell_snapshot *s)
{
        return s->state;
}

void shell_snapshots_release(struct session *session)
{
        struct shell_snapshot *s;
        list_each (s, &session->shell_snapshots, link)
                snapshot_free(s);
}

/* ---- the capture ---- */

void shell_snapshot_settle(struct shell_snapshot *s, enum shell_snapshot_state state)
{
        struct session *session = s->session;
        s->state = state;
        end_capture(s);
        if (state == SHELL_SNAPSHOT_FAILED) {
                buf_release(&s->text);
                buf_release(&s->changed);
                buf_release(&s->unset);
                log_info("shell snapshot failed", "session=%.13s", session->id);
        }
        if (session->client)
                jobs_awake(session->client);
}

static void on_late(void *arg)
{
        struct shell_snapshot *s = arg;
        struct task *t = s->task;
        shell_snapshot_settle(s, SHELL_SNAPSHOT_FAILED);
        if (t)
                task_end_now(t, END_WALL_LIMIT);
}

/* Returns the script of a capture. It does not print the last mark when env(1) is missing or fails: then the capture is
 * incomplete. `builtin` is needed because a profile file may have defined functions with these names. Options are printed first
 * because they decide how the shell reads functions. */
static const char *capture_script(struct arena *a, const char *mark)
{
        return arena_printf(
                a,
                "builtin printf '%%s\\n' '%s'\nbuiltin shopt -p\nbuiltin declare -f\nbuiltin alias -p\n"
                "builtin set +o\nbuiltin printf '%%s\\n' '%s'\ncommand env -0 &&\n"
                "builtin printf '%%s\\n' '%s'\n",
                mark, mark, mark);
}

void shell_snapshot_begin(struct shell_snapshot *s, struct arena *a, const struct process_start *in,
                          const char *const *base, struct shell_snapshot **planner, struct process_start *ret)
{
        struct slice *argv = arena_alloc(a, 3 * sizeof(*argv));

        s->state = SHELL_SNAPSHOT_CAPTURING;
        s->planner = planner;
        *planner = s;
        random_uuid(s->mark);
        buf_truncate(&s->base, 0);
        for (; *base; base++)
                must(buf_append(&s->base, slice_from(*base, strlen(*base) + 1)) == 0);
        s->timer = timer_new(&s->session->server->loop, on_late, s);
        timer_start(s->timer, LIMIT_SHELL_SNAPSHOT_MS);

        argv[0] = in->argv[0];
        argv[1] = in->argv[1];
        argv[2] = slice_from_str(capture_script(a, s->mark));
        *ret = *in;
        ret->argv = argv;
        ret->argc = 3;
        ret->is_tty = ret->has_stdin_pipe = ret->has_snapshot = false;
        /* No client can end the shell, so a time limit ends a shell that hangs after its output. */
        ret->has_limits = true;
        ret->limits = (struct process_limits){ .wall_ms = LIMIT_SHELL_SNAPSHOT_MS + SHELL_END_MS };
}

static void on_begun(void *arg, struct task *t)
{
        struct shell_snapshot *s = arg;
        *s->planner = NULL;
        s->planner = NULL;
        s->task = t;
}

/* ---- the output of the capture ---- */

/* Removes everything up to the next mark, and the line of the mark, from `rest`. Returns what was in front of the mark; p == NULL:
 * there is no mark. */
static struct slice up_to_mark(struct slice *rest, const char *mark)
{
        const char *at = rest->n ? memmem(rest->p, rest->n, mark, strlen(mark)) : NULL;
        size_t n = at ? (size_t)(at - rest->p) : 0, skipped = n + strlen(mark) + 1; /* 1: newline */
        if (!at || skipped > rest->n)
                return slice_from(NULL, 0);
        struct slice part = slice_from(rest->p, n);
        *rest = slice_from(rest->p + skipped, rest->n - skipped);
        return part;
}

/* Returns whether a variable must not be restored, because it is about the shell process itself or its directory. */
static bool is_about_shell(struct slice name)
{
        static const struct slice names[] = { S("_"),      S("SHLVL"),    S("PWD"),
                                              S("OLDPWD"), S("BASHOPTS"), S("SHELLOPTS") };
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                if (slice_eq(name, names[i]))
                        return true;
        return name.n == 0 || slice_starts(name, S(VARIABLE));
}

static struct slice next_entry(struct slice *block, struct slice *ret_name)
{
        struct slice entry = slice_split(block, '\0'), rest = entry;
        *ret_name = slice_split(&rest, '=');
        if (!rest.p)
                *ret_name = slice_from(NULL, 0); /* the entry has no `=` */
        return entry;
}

static void index_block(struct map *ret, struct arena *a, struct slice block)
{
        while (block.p && block.n > 0) {
                struct slice name, entry = next_entry(&block, &name);
                struct slice *kept = arena_new(a, struct slice);
                *kept = entry;
                if (name.n > 0 && !map_find(ret, name))
                        map_put(ret, name, kept);
        }
}

/* Stores the variables that differ between `before` and `after`. Returns false when they are too large. */
static bool take_difference(struct shell_snapshot *s, struct slice before, struct slice after)
{
        _arena_ struct arena a = ARENA_INIT;
        struct map old, new;
        bool is_good = true;

        map_init(&old);
        map_init(&new);
        index_block(&old, &a, before);
        index_block(&new, &a, after);
        for (struct slice rest = after, name; is_good && rest.p && rest.n > 0;) {
                struct slice entry = next_entry(&rest, &name);
                const struct slice *was = name.n ? map_find(&old, name) : NULL;
                if (!is_about_shell(name) && !(was && slice_eq(*was, entry)))
                        is_good = buf_append(&s->changed, slice_from(entry.p, entry.n + 1)) == 0;
        }
        for (struct slice rest = before, name; is_good && rest.p && rest.n > 0;) {
                (void)next_entry(&rest, &name);
                if (!is_about_shell(name) && !map_find(&new, name))
                        is_good = buf_append(&s->unset, name) == 0 && buf_append_char(&s->unset, '\0') == 0;
        }
        map_release(&old);
        map_release(&new);
        return is_good;
}

/* Returns whether the text is empty or ends in a NUL, as the output of `env -0` does. This is checked because any program that a
 * profile file runs may write to the output. */
static bool is_nul_ended(struct slice s)
{
        return s.n == 0 || s.p[s.n - 1] == '\0';
}

/* Takes the snapshot from the output of the capture. Returns false while marks are missing. *ret_is_good says whether the
 * snapshot can be used. */
static bool parse(struct shell_snapshot *s, struct slice output, bool *ret_is_good)
{
        struct slice rest = output;
        /* The profile files may have printed something in front of the first mark. */
        bool has_all = up_to_mark(&rest, s->mark).p != NULL;
        struct slice text = has_all ? up_to_mark(&rest, s->mark) : slice_from(NULL, 0);
        struct slice variables = text.p ? up_to_mark(&rest, s->mark) : slice_from(NULL, 0);

        if (!variables.p)
                return false;
        *ret_is_good = !slice_has_nul(text) && is_nul_ended(variables) && buf_append(&s->text, text) == 0 &&
                       take_difference(s, buf_slice(&s->base), variables);
        return true;
}

static void on_output(void *arg)
{
        struct shell_snapshot *s = arg;
        struct task *t = s->task;
        const struct output *o = &t->process->output;
        struct output_gap gap;
        bool is_good = false;

        if (o->streams[STREAM_STDOUT].bytes > 2 * LIMIT_SHELL_SNAPSHOT_BYTES ||
            output_gap_after(o, 0, &gap)) {
                shell_snapshot_settle(s, SHELL_SNAPSHOT_FAILED);
                task_end_now(t, END_WALL_LIMIT); /* the shell may run for ever, and no client can end it */
                return;
        }
        /* The last mark ends in a newline, so output that ends otherwise is not parsed yet. */
        if (!o->last || o->last->stream != STREAM_STDOUT || o->last->bytes[o->last->len - 1] != '\n')
                return;
        _buf_ struct buf all = BUF_INIT(4 * LIMIT_SHELL_SNAPSHOT_BYTES);
        for (const struct chunk *c = o->first; c; c = c->next)
                if (c->stream == STREAM_STDOUT)
                        must(buf_append(&all, chunk_slice(c)) == 0);
        if (parse(s, buf_slice(&all), &is_good))
                shell_snapshot_settle(s, is_good ? SHELL_SNAPSHOT_READY : SHELL_SNAPSHOT_FAILED);
}

static void on_not_started(void *arg, bool is_overtaken)
{
        struct shell_snapshot *s = arg;
        bool is_tried_again = is_overtaken && s->tries < LIMIT_START_AGAIN;
        s->tries++;
        shell_snapshot_settle(s, is_tried_again ? SHELL_SNAPSHOT_NEW : SHELL_SNAPSHOT_FAILED);
}

static void on_ended(void *arg)
{
        shell_snapshot_settle(arg, SHELL_SNAPSHOT_FAILED);
}

const struct capture_events shell_snapshot_events = {
        .begun = on_begun,
        .not_started = on_not_started,
        .output = on_output,
        .ended = on_ended,
};

/* ---- restoring a snapshot ---- */

/* Collects the names of the variables that the request sets. Uses a map because there may be very many. */
static void index_names(struct map *ret, const struct process_start *in)
{
        map_init(ret);
        for (size_t i = 0; i < in->env_count; i++)
                if (!map_find(ret, in->env[i].name))
                        map_put(ret, in->env[i].name, (void *)(uintptr_t)&in->env[i]);
}

/* Returns whether the name can be written into a script without quotes. */
static bool is_identifier(struct slice name)
{
        for (size_t i = 0; i < name.n; i++) {
                char c = name.p[i], l = ascii_lower(c);
                if (!(l >= 'a' && l <= 'z') && c != '_' && (i == 0 || c < '0' || c > '9'))
                        return false;
        }
        return name.n > 0;
}

static size_t count_entries(struct slice block)
{
        size_t n = 0;
        for (size_t i = 0; i < block.n; i++)
                n += block.p[i] == '\0';
        return n;
}

/* Adds the variables that the profile files set, except those that the request sets itself or that its policy excludes. */
static size_t add_changed(const struct shell_snapshot *s, struct arena *a, const struct process_start *in,
                          const struct map *names, struct env_var *to)
{
        const struct env_policy *policy = in->has_env_policy ? &in->env_policy : NULL;
        size_t n = 0;
        for (struct slice rest = buf_slice(&s->changed), name; rest.p && rest.n > 0;) {
                struct slice entry = next_entry(&rest, &name);
                if (map_find(names, name) || !env_admits(policy, name))
                        continue;
                char *copy = arena_dup(a, entry);
                to[n++] = (struct env_var){ slice_from(copy, name.n),
                                            slice_from(copy + name.n + 1, entry.n - name.n - 1) };
        }
        return n;
}

static size_t add_text(const struct shell_snapshot *s, struct arena *a, struct env_var *to)
{
        size_t n = 0;
        for (size_t at = 0; at < s->text.n; at += VARIABLE_BYTES, n++) {
                size_t len = MIN(VARIABLE_BYTES, s->text.n - at);
                to[n] = (struct env_var){ slice_from_str(arena_printf(a, VARIABLE "%zu", n)),
                                          slice_from(arena_dup(a, slice_from(s->text.p + at, len)), len) };
        }
        return n;
}

/* Makes the script of a start: a line that restores the snapshot, and the request's script. The former is a line of its own so that
 * the shell executes it before it reads the rest: options decide how the shell reads. Returns false when the result is too long
 * for execve. */
static bool make_script(const struct shell_snapshot *s, const struct process_start *in,
                        const struct map *names, size_t parts, struct buf *ret)
{
        int r = buf_append(ret, S("set +o privileged; builtin eval \""));
        for (size_t i = 0; r == 0 && i < parts; i++)
                r = buf_printf(ret, "$" VARIABLE "%zu", i);
        if (r == 0)
                r = buf_append(ret, S("\" >/dev/null 2>&1; builtin unset -v _"));
        for (size_t i = 0; r == 0 && i < parts; i++)
                r = buf_printf(ret, " " VARIABLE "%zu", i);
        for (struct slice rest = buf_slice(&s->unset); r == 0 && rest.p && rest.n > 0;) {
                struct slice name = slice_split(&rest, '\0');
                if (is_identifier(name) && !map_find(names, name))
                        r = buf_printf(ret, " %.*s", SLICE(name));
        }
        return r == 0 && buf_append_char(ret, '\n') == 0 && buf_append(ret, in->argv[2]) == 0;
}

/* Returns the largest number of steps that matching names of this total length may take: each byte of a pattern may be compared
 * with each byte of a name. */
static uint64_t match_work(const struct env_policy *policy, uint64_t name_bytes)
{
        uint64_t steps = policy ? policy->set_count : 0;
        for (size_t i = 0; policy && i < policy->exclude_count; i++)
                steps += policy->exclude[i].n + 1;
        for (size_t i = 0; policy && i < policy->include_only_count; i++)
                steps += policy->include_only[i].n + 1;
        return steps * name_bytes; /* cannot overflow: a message is smaller than 2^40 bytes */
}

static void restore(const struct shell_snapshot *s, struct arena *a, const struct map *names,
                    struct slice script, struct process_start *in)
{
        size_t parts = s->text.n / VARIABLE_BYTES + 1;
        size_t room = in->env_count + count_entries(buf_slice(&s->changed)) + parts, n = 0;
        struct env_var *env = arena_alloc(a, room * sizeof(*env));
        for (; n < in->env_count; n++)
                env[n] = in->env[n];
        n += add_changed(s, a, in, names, env + n);
        n += add_text(s, a, env + n);

        struct slice *argv = arena_alloc(a, in->argc * sizeof(*argv));
        memcpy(argv, in->argv, in->argc * sizeof(*argv));
        argv[1] = S("-pc"); /* with -p, bash ignores BASH_ENV */
        argv[2] = slice_from(arena_dup(a, script), script.n);
        in->argv = argv;
        in->env = env;
        in->env_count = n;
}

bool shell_snapshot_apply(struct shell_snapshot *s, struct arena *a, struct process_start *in)
{
        _buf_ struct buf script = BUF_INIT(SCRIPT_BYTES);
        size_t parts = (s->text.n + VARIABLE_BYTES - 1) / VARIABLE_BYTES;
        const struct env_policy *policy = in->has_env_policy ? &in->env_policy : NULL;
        struct map names;

        if (match_work(policy, s->changed.n) > MATCH_WORK_MAX)
                return false;
        index_names(&names, in);
        bool is_made = make_script(s, in, &names, parts, &script);
        if (is_made)
                restore(s, a, &names, buf_slice(&script), in);
        map_release(&names);
        return is_made;
}
