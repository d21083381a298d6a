/* A program that uses libfarhand, for test_library_typed.py: library_typed URL. Reads lines of words between tabs, does what each says, and
 * prints what it was told, the result, and a dot. */
#include <errno.h>
#include <farhand/farhand.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct farhand_error error;
static struct farhand *f;

/* Prints the result of a function: its number, the code and the errno of the server, and what the profile has refused. */
static void say(int r)
{
        printf("result %d", r);
        if (r == -EREMOTEIO) {
                struct farhand_denial *denial = farhand_error_denial(&error);
                printf(" %d %d %s", error.rpc_code, farhand_error_errno(&error), denial ? denial->rule : "-");
                free(denial);
        }
        printf("\n");
}

/* ---- files ---- */

static void sandbox(char **w)
{
        say(farhand_use_sandbox(f, strcmp(w[0], "-") == 0 ? NULL : w[0], &error));
}

/* PATH CONTENT [OPTION VALUE]... */
static void write_file(char **w)
{
        struct farhand_write options = FARHAND_WRITE_INIT;
        for (char **o = w + 2; o[0] && o[1]; o += 2) {
                if (strcmp(o[0], "mode") == 0)
                        options.mode = (int)strtol(o[1], NULL, 8);
                options.if_absent |= strcmp(o[0], "absent") == 0;
                options.with_parents |= strcmp(o[0], "parents") == 0;
                options.in_place |= strcmp(o[0], "place") == 0;
                options.no_links |= strcmp(o[0], "links") == 0;
                if (strcmp(o[0], "digest") == 0)
                        options.if_digest = o[1];
                if (strcmp(o[0], "unchanged") == 0) {
                        options.if_unchanged = true;
                        options.if_size = strtoull(o[1], NULL, 10);
                        options.if_modified_ms = strtoll(strchr(o[1], ',') + 1, NULL, 10);
                }
        }
        uint64_t size = 0;
        int64_t modified_ms = 0;
        options.ret_size = &size;
        options.ret_modified_ms = &modified_ms;
        int r = farhand_write_file_with(f, w[0], w[1], strlen(w[1]), &options, &error);
        if (r == 0 && w[2] && strcmp(w[2], "told") == 0)
                printf("written %" PRIu64 " %" PRId64 "\n", size, modified_ms);
        say(r);
}

static void look(char **w)
{
        struct farhand_metadata m;
        int r = farhand_stat_with(f, w[0], (unsigned)atoi(w[1]), &m, &error);
        if (r == 0)
                printf("stat %d %" PRIu64 " %" PRId64 " %s\n", m.is_file, m.size, m.modified_ms, m.digest);
        say(r);
}

static void read_file(char **w)
{
        char *content = NULL;
        size_t n = 0;
        int r = farhand_read_file(f, w[0], strtoul(w[1], NULL, 10), &content, &n, &error);
        if (r == 0)
                printf("content %zu %.20s\n", n, content);
        free(content);
        say(r);
}

static void stream(char **w)
{
        struct farhand_file_options options = FARHAND_FILE_OPTIONS_INIT;
        options.mode = FARHAND_FILE_REPLACE;
        options.sync = true;
        struct farhand_file *file = farhand_file_open(f, w[0], &options, &error);
        int64_t r = farhand_file_write(file, w[1], strlen(w[1]), &error);
        if (r >= 0)
                r = farhand_file_finish(file, &error);
        if (r == -EAGAIN)
                r = farhand_file_wait(file, -1, &error);
        farhand_file_free(file);
        say((int)r);
}

static void on_scanned(void *arg, const struct farhand_scanned *e)
{
        (void)arg;
        printf("entry %s %d %" PRIu64 " %o %s\n", e->name, e->kind, e->size, e->mode,
               e->target ? e->target : "-");
}

static void on_counted(void *arg, const struct farhand_scanned *e)
{
        (void)e;
        (*(unsigned *)arg)++;
}

static void scan(char **w)
{
        unsigned count = 0;
        int r = farhand_scan(f, w[0], w[1] ? on_counted : on_scanned, &count, &error);
        printf("counted %u\n", count);
        say(r);
}

static void on_file(void *arg, size_t index, const struct farhand_read *file)
{
        (void)arg;
        if (file->error)
                printf("file %zu error %d\n", index, farhand_error_errno(file->error));
        else
                printf("file %zu %zu %.10s %o\n", index, file->n, file->n ? (const char *)file->bytes : "",
                       file->mode);
}

static void read_files(char **w)
{
        size_t n = 0;
        while (w[n + 1])
                n++;
        say(farhand_read_files(f, w[0], (const char *const *)w + 1, n, on_file, NULL, &error));
}

static void on_failed(void *arg, size_t index, const struct farhand_error *e)
{
        (void)arg;
        printf("failed %zu %d\n", index, farhand_error_errno(e));
}

/* DIRECTORY COUNT BYTES: files of so many bytes; DIRECTORY NAME... : small ones. */
static void write_files(char **w)
{
        struct farhand_new_file files[1100];
        static char content[1 << 20], names[1100][8];
        size_t n = 0, count = w[3] ? 0 : strtoul(w[1], NULL, 10);
        memset(content, 'x', sizeof(content));
        for (; w[3] ? w[n + 1] != NULL : n < count; n++) {
                (void)snprintf(names[n], sizeof(names[n]), "%04zu", n);
                files[n] = (struct farhand_new_file)FARHAND_NEW_FILE_INIT;
                files[n].name = w[3] ? w[n + 1] : names[n];
                files[n].bytes = content;
                files[n].n = w[3] ? 1 : strtoul(w[2], NULL, 10);
                files[n].mode = 0640;
                files[n].modified_ms = 1234567890123;
        }
        say(farhand_write_files(f, w[0], files, n, on_failed, NULL, &error));
}

static void digest(char **w)
{
        char text[FARHAND_DIGEST_BYTES];
        uint64_t n = 0;
        int r = farhand_digest(f, w[0], strtoull(w[1], NULL, 10), strtoull(w[2], NULL, 10), text, &n, &error);
        if (r == 0)
                printf("digest %s %" PRIu64 "\n", text, n);
        say(r);
}

/* FLAGS DO PATH... */
static void with(char **w)
{
        unsigned flags = (unsigned)atoi(w[0]);
        struct farhand_digest made = FARHAND_DIGEST_INIT;
        char *content = NULL;
        size_t n = 0;
        int r = -1;
        if (strcmp(w[1], "directory") == 0)
                r = farhand_make_directory_with(f, w[2], flags, &error);
        else if (strcmp(w[1], "remove") == 0)
                r = farhand_remove_with(f, w[2], flags, &error);
        else if (strcmp(w[1], "rename") == 0)
                r = farhand_rename_with(f, w[2], w[3], flags, &error);
        else if (strcmp(w[1], "metadata") == 0)
                r = farhand_set_metadata_with(f, w[2], 0604, 1000, flags, &error);
        else if (strcmp(w[1], "digest") == 0)
                r = farhand_digest_with(f, w[2], 1, 2, flags, &made, &error);
        else if (strcmp(w[1], "read") == 0)
                r = farhand_read_file_with(f, w[2], 10, flags, &content, &n, &error);
        if (r == 0 && made.text[0])
                printf("digest %s %" PRIu64 " %" PRIu64 "\n", made.text, made.bytes, made.file_bytes);
        if (r == 0 && content)
                printf("content %zu %s\n", n, content);
        free(content);
        say(r);
}

static void on_missing(struct farhand_missing *m, void *arg, bool is_watching)
{
        (void)m;
        printf("watching %d\n", is_watching);
        *(int *)arg = is_watching ? 1 : 2;
}

static void on_appeared(struct farhand_missing *m, void *arg)
{
        (void)m;
        printf("changed\n");
        *(int *)arg = 2;
}

/* PRESENT PATH... : says what is told until nothing follows. `-`: nothing must be present. */
static void missing(char **w)
{
        static const struct farhand_missing_events events = { .on_started = on_missing,
                                                              .on_changed = on_appeared };
        int state = 0;
        struct farhand_missing *m =
                farhand_missing_start(f, (const char *const *)w + 1, strcmp(w[0], "-") == 0 ? NULL : w[0],
                                      &events, &state, &error);
        while (m && state < 2) {
                int before = state;
                (void)farhand_wait(f, -1, &error);
                if (state != before)
                        fflush(stdout);
        }
        farhand_missing_free(m);
        say(m ? 0 : error.code);
}

/* ---- Codex ---- */

static void tell_stack(const char *name, const struct farhand_config_stack *stack)
{
        for (size_t i = 0; i < stack->count; i++)
                printf("%s %s %s\n", name, stack->layers[i].base_dir,
                       i < stack->system_count ? "system" : "own");
}

static void on_config(void *arg, const struct farhand_config *config)
{
        (void)arg;
        printf("home %s %s %d\n", config->home, config->codex_home, config->hostname && config->hostname[0]);
        tell_stack("config", &config->config);
        tell_stack("requirements", &config->requirements);
}

/* CWD PART... */
static void config(char **w)
{
        const char *const *key = (const char *const *)w + 1;
        struct farhand_config_query query = FARHAND_CONFIG_QUERY_INIT;
        query.cwd = w[0];
        query.config = query.requirements = &key;
        query.config_count = query.requirement_count = 1;
        say(farhand_config_read(f, &query, on_config, NULL, &error));
}

static void on_root(void *arg, size_t index, const struct farhand_found_root *root)
{
        (void)arg;
        printf("root %zu %s %s %s\n", index, root->id, root->error ? "bad" : "good",
               root->plugin.path ? root->plugin.content : "-");
        for (size_t i = 0; i < root->skill_count; i++)
                printf("skill %s %s\n", root->skills[i].instructions.path,
                       root->skills[i].instructions.content);
}

static void discover(char **w)
{
        struct farhand_root roots[4];
        size_t n = 0;
        for (; w[n]; n++) {
                roots[n] = (struct farhand_root)FARHAND_ROOT_INIT;
                roots[n].id = "id";
                roots[n].path = w[n];
        }
        say(farhand_discover_roots(f, roots, n, on_root, NULL, &error));
}

static void rename_new(char **w)
{
        say(farhand_rename_new(f, w[0], w[1], &error));
}

static void on_access(void *arg, size_t index, const struct farhand_access_result *result)
{
        (void)arg;
        printf("access %zu %d %d %s\n", index, result->is_allowed, result->error_number,
               result->denial ? result->denial->rule : "-");
}

/* [KIND PATH]... */
static void access_of(char **w)
{
        struct farhand_access wanted[8];
        size_t n = 0;
        for (; w[2 * n] && w[2 * n + 1]; n++) {
                wanted[n] = (struct farhand_access)FARHAND_ACCESS_INIT;
                wanted[n].kind = (enum farhand_access_kind)atoi(w[2 * n]);
                wanted[n].path = w[2 * n + 1];
        }
        say(farhand_check_access(f, wanted, n, on_access, NULL, &error));
}

/* ---- processes: ID SESSION ... ---- */

static struct farhand_target target_of(char **w)
{
        struct farhand_target target = FARHAND_TARGET_INIT;
        target.process_id = w[0];
        target.session_id = strcmp(w[1], "-") == 0 ? NULL : w[1];
        return target;
}

static void on_process(void *arg, const struct farhand_process_info *i)
{
        (void)arg;
        printf("process %s %s %s %s %d %d %d\n", i->process_id, i->session_id ? i->session_id : "-",
               i->argv[0], i->cwd, i->pid > 0, i->is_running, i->exit.code);
}

static void processes(char **w)
{
        struct farhand_process_query query = FARHAND_PROCESS_QUERY_INIT;
        query.all_sessions = strcmp(w[0], "all") == 0;
        query.session_id = query.all_sessions || strcmp(w[0], "-") == 0 ? NULL : w[0];
        query.process_id = w[1];
        say(farhand_list_processes(f, &query, on_process, NULL, &error));
}

static void on_session(void *arg, const struct farhand_session_info *i)
{
        (void)arg;
        printf("session %s %s %d %" PRIu64 " %d\n", i->session_id, i->client_name, i->is_attached,
               i->processes, i->expires_ms > 0);
}

static void sessions(char **w)
{
        (void)w;
        say(farhand_list_sessions(f, on_session, NULL, &error));
}

static void send_signal(char **w)
{
        struct farhand_target target = target_of(w);
        say(farhand_target_signal(f, &target, atoi(w[2]), (enum farhand_scope)atoi(w[3]), &error));
}

static void terminate(char **w)
{
        struct farhand_target target = target_of(w);
        say(farhand_target_terminate(f, &target, atoi(w[2]), &error));
}

static void await(char **w)
{
        struct farhand_target target = target_of(w);
        struct farhand_exit exit;
        int r = farhand_target_wait(f, &target, (enum farhand_until)atoi(w[2]), atoi(w[3]), &exit, &error);
        if (r == 0)
                printf("exit %d %s %s\n", exit.code, exit.signal, exit.reason);
        say(r);
}

static void on_report(void *arg, const struct farhand_report *r)
{
        (void)arg;
        printf("report %d %d %d %s %d %d %d %" PRIu64 " %" PRIu64 " %zu\n", r->has_exited, r->is_closed,
               r->exit.code, r->exit.reason, r->has_usage, r->max_rss_bytes > 0, r->is_intercepted, r->run,
               r->denied, r->refused_count);
}

/* ID SESSION UNTIL TIMEOUT DRAIN */
static void report(char **w)
{
        struct farhand_target target = target_of(w);
        struct farhand_report_options options = FARHAND_REPORT_OPTIONS_INIT;
        options.until = (enum farhand_until)atoi(w[2]);
        options.timeout_ms = atoi(w[3]);
        options.drain_ms = atoi(w[4]);
        say(farhand_target_report(f, &target, &options, on_report, NULL, &error));
}

/* ID SESSION REQUEST DECISION */
static void decide(char **w)
{
        struct farhand_target target = target_of(w);
        say(farhand_target_decide(f, &target, w[2], (enum farhand_exec_decision)atoi(w[3]), "no", false,
                                  &error));
}

/* OPEN_FILES INHERIT SCRIPT: runs a command with limits and a policy of variables. */
static void limited(char **w)
{
        static const char *const set[] = { "SET=1", NULL }, *const exclude[] = { "HOME", NULL };
        const char *const argv[] = { "/bin/sh", "-c", w[2], NULL };
        struct farhand_limits limits = FARHAND_LIMITS_INIT;
        struct farhand_env_policy policy = FARHAND_ENV_POLICY_INIT;
        struct farhand_command command = FARHAND_COMMAND_INIT;
        struct farhand_taken taken = { 0 };
        struct farhand_exit exit = { 0 };
        limits.open_files = strtoull(w[0], NULL, 10);
        policy.inherit = (enum farhand_inherit)atoi(w[1]);
        policy.set = set;
        policy.exclude = exclude;
        command.argv = argv;
        command.limit = &limits;
        command.policy = &policy;
        struct farhand_process *p = farhand_start(f, &command, NULL, NULL, &error);
        int r = p ? farhand_process_collect(p, 0, &error) : error.code;
        if (r == 0)
                r = farhand_process_wait(p, -1, &exit, &error);
        if (r == 0)
                r = farhand_process_take(p, &taken, &error);
        if (r == 0)
                printf("limited %d %s\nanswer %s\n", exit.code, taken.bytes, farhand_process_start_answer(p));
        free(taken.bytes);
        farhand_process_free(p);
        say(r);
}

static void on_output(void *arg, uint64_t seq, enum farhand_stream which, const void *bytes, size_t n)
{
        (void)arg;
        printf("output %" PRIu64 " %d %.*s\n", seq, which, (int)n, (const char *)bytes);
}

static void read_output(char **w)
{
        struct farhand_target target = target_of(w);
        struct farhand_progress progress = FARHAND_PROGRESS_INIT;
        int r = farhand_target_read(f, &target, strtoull(w[2], NULL, 10), 0, (unsigned)atoi(w[3]), on_output,
                                    NULL, &progress, &error);
        if (r == 0)
                printf("next %" PRIu64 " %d %d\n", progress.next_seq, progress.has_exited,
                       progress.is_closed);
        say(r);
}

static void snapshot(char **w)
{
        struct farhand_target target = target_of(w);
        struct farhand_snapshot s;
        int r = farhand_target_snapshot(f, &target, 1000, -1, &s, &error);
        if (r == 0) {
                printf("snapshot %s\n", s.out);
                farhand_snapshot_release(&s);
        }
        say(r);
}

/* SCOPE HOME SCRIPT */
static void shell(char **w)
{
        const char *const argv[] = { "/bin/bash", "-lc", w[2], NULL };
        const char *const env[] = { w[1], NULL };
        struct farhand_command command = FARHAND_COMMAND_INIT;
        struct farhand_output output;
        command.argv = argv;
        command.env = env;
        command.snapshot_scope = strcmp(w[0], "-") == 0 ? NULL : w[0];
        int r = farhand_communicate(f, &command, NULL, 0, 1000, -1, &output, &error);
        if (r == 0) {
                printf("shell %d %s\n", output.exit.code, output.out);
                free(output.out);
                free(output.err);
        }
        say(r);
}

/* HOW SCRIPT: starts a process of this client, waits for its first output, and ends it. */
static bool has_output;

static void on_first(struct farhand_process *p, void *arg, enum farhand_stream which, const void *bytes,
                     size_t n)
{
        (void)p, (void)arg, (void)which, (void)bytes, (void)n;
        has_output = true;
}

static void own(char **w)
{
        const char *const argv[] = { "sh", "-c", w[1], NULL };
        struct farhand_command command = FARHAND_COMMAND_INIT;
        struct farhand_process_events events = { .on_output = on_first };
        struct farhand_exit exit = { 0 };
        command.argv = argv;
        has_output = false;
        struct farhand_process *p = farhand_start(f, &command, &events, NULL, &error);
        while (!has_output && !farhand_process_is_closed(p))
                (void)farhand_wait(f, -1, &error);
        int r = strcmp(w[0], "stop") == 0
                        ? farhand_process_stop(p, (unsigned)atoi(w[2]))
                        : farhand_process_signal_to(p, atoi(w[2]), (enum farhand_scope)atoi(w[3]));
        if (r == 0)
                r = farhand_process_wait(p, -1, &exit, &error);
        printf("exit %d %s\n", exit.code, exit.reason);
        farhand_process_free(p);
        say(r);
}

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                void (*run)(char **words);
        } table[] = { { "sandbox", sandbox },
                      { "write", write_file },
                      { "stat", look },
                      { "read", read_file },
                      { "stream", stream },
                      { "scan", scan },
                      { "readFiles", read_files },
                      { "writeFiles", write_files },
                      { "digest", digest },
                      { "renameNew", rename_new },
                      { "access", access_of },
                      { "processes", processes },
                      { "sessions", sessions },
                      { "signal", send_signal },
                      { "terminate", terminate },
                      { "wait", await },
                      { "output", read_output },
                      { "snapshot", snapshot },
                      { "shell", shell },
                      { "own", own },
                      { "with", with },
                      { "missing", missing },
                      { "config", config },
                      { "discover", discover },
                      { "report", report },
                      { "decide", decide },
                      { "limited", limited } };
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        char line[65536];
        if (argc < 2)
                return 2;
        options.url = argv[1];
        options.client_name = "typed";
        f = farhand_connect(&options, &error);
        if (!f)
                return say(error.code), 1;
        while (fgets(line, sizeof(line), stdin)) {
                char *words[1200] = { 0 };
                size_t n = 0;
                line[strcspn(line, "\n")] = '\0';
                for (char *at = line; at && n < 1199;)
                        words[n++] = strsep(&at, "\t");
                for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
                        if (strcmp(words[0], table[i].name) == 0)
                                table[i].run(words + 1);
                printf(".\n");
                fflush(stdout);
        }
        farhand_free(f);
        return 0;
}
