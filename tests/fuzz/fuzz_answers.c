/* fuzz_answers: what a hostile server can answer to the functions of the client library that wait. The first byte chooses the function, the
 * rest is the result that its first request gets; then the connection ends. What the function tells must be what its header says. */
#include "base/fd.h"
#include "base/mem.h"
#include "client/client.h"

#include <errno.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t told; /* how many things the callbacks were told */

/* ---- what is told ---- */

static void check_exit(const struct farhand_exit *exit)
{
        must(strnlen(exit->signal, sizeof(exit->signal)) < sizeof(exit->signal));
        must(strnlen(exit->reason, sizeof(exit->reason)) < sizeof(exit->reason));
}

static void check_digest(const char *digest)
{
        must(strnlen(digest, FARHAND_DIGEST_BYTES) == FARHAND_DIGEST_BYTES - 1);
}

static void check_name(const char *name)
{
        must(name[0] && strlen(name) <= 255 && !strchr(name, '/'));
}

static void check_denial(const struct farhand_denial *d)
{
        must(d->operation && d->rule && d->path && d->path[0] == '/');
}

static void on_process(UNUSED void *arg, const struct farhand_process_info *i)
{
        must(i->process_id && i->argv && (!i->cwd || i->cwd[0] == '/'));
        for (size_t n = 0; i->argv[n]; n++)
                must(strlen(i->argv[n]) < 65536);
        check_exit(&i->exit);
        told++;
}

static void on_session(UNUSED void *arg, const struct farhand_session_info *i)
{
        must(i->session_id);
        told++;
}

static void on_entry(UNUSED void *arg, const struct farhand_entry *e)
{
        must(e->name[0] && !strchr(e->name, '/'));
        told++;
}

static void on_scanned(UNUSED void *arg, const struct farhand_scanned *e)
{
        check_name(e->name);
        must(e->kind <= FARHAND_KIND_OTHER && e->mode <= 07777 && (!e->target || e->target[0]));
        told++;
}

static void on_file(UNUSED void *arg, size_t index, const struct farhand_read *file)
{
        must(index == told && (file->error || file->bytes));
        must(!file->error || file->error->code == -EREMOTEIO);
        told++;
}

static void on_failed(UNUSED void *arg, size_t index, const struct farhand_error *error)
{
        must(index < 2 && error->code == -EREMOTEIO);
        told++;
}

static void on_access(UNUSED void *arg, size_t index, const struct farhand_access_result *result)
{
        must(index == told && result->error_number >= 0);
        if (result->denial)
                check_denial(result->denial);
        told++;
}

static void on_output(UNUSED void *arg, UNUSED uint64_t seq, enum farhand_stream stream, const void *bytes,
                      UNUSED size_t n)
{
        must(stream <= FARHAND_PTY && bytes);
        told++;
}

static void on_report(UNUSED void *arg, const struct farhand_report *report)
{
        check_exit(&report->exit);
        must(report->has_exited ||
             (!report->has_usage && !report->is_intercepted && report->refused_count == 0));
        for (size_t i = 0; i < report->refused_count; i++)
                must(report->refused[i].operation && report->refused[i].source);
        told++;
}

static void check_stack(const struct farhand_config_stack *stack)
{
        must(stack->system_count <= stack->count);
        for (size_t i = 0; i < stack->count; i++)
                must(stack->layers[i].source && stack->layers[i].base_dir[0] == '/' && stack->layers[i].toml);
}

static void on_config(UNUSED void *arg, const struct farhand_config *config)
{
        check_stack(&config->config);
        check_stack(&config->requirements);
        told++;
}

static void check_found(const struct farhand_found_file *file)
{
        must(!file->path || (file->path[0] == '/' && file->content && file->content[file->n] == '\0'));
}

static void on_root(UNUSED void *arg, size_t index, const struct farhand_found_root *root)
{
        must(index == told && root->id && root->warnings);
        check_found(&root->plugin);
        check_found(&root->mcp_config);
        check_found(&root->apps_config);
        for (size_t i = 0; i < root->skill_count; i++) {
                must(root->skills[i].instructions.path != NULL);
                check_found(&root->skills[i].instructions);
                check_found(&root->skills[i].metadata);
        }
        for (size_t i = 0; i < root->namespace_manifest_count; i++)
                check_found(&root->namespace_manifests[i]);
        told++;
}

static void on_walked(UNUSED void *arg, const char *path, UNUSED bool is_directory)
{
        must(path[0] == '/');
}

/* ---- functions ---- */

static const struct farhand_target target = { sizeof(target), "p", "s" };

static int ask_about_processes(struct farhand *f, unsigned which)
{
        struct farhand_progress progress = FARHAND_PROGRESS_INIT;
        struct farhand_snapshot snapshot;
        struct farhand_exit exit;
        int r;
        switch (which) {
        case 0:
                return farhand_list_processes(f, NULL, on_process, NULL, NULL);
        case 1:
                return farhand_list_sessions(f, on_session, NULL, NULL);
        case 2:
                r = farhand_target_read(f, &target, 0, 100, 0, on_output, NULL, &progress, NULL);
                if (r == 0)
                        check_exit(&progress.exit);
                return r;
        case 3:
                r = farhand_target_wait(f, &target, FARHAND_UNTIL_EXITED, 0, &exit, NULL);
                if (r == 0)
                        check_exit(&exit);
                return r;
        case 4:
                r = farhand_target_snapshot(f, &target, 100, -1, &snapshot, NULL);
                if (r == 0) {
                        must(snapshot.out_bytes <= 100 && snapshot.err_bytes <= 100);
                        farhand_snapshot_release(&snapshot);
                }
                return r;
        default:
                return farhand_target_terminate(f, &target, 0, NULL);
        }
}

static int ask_about_many(struct farhand *f, unsigned which)
{
        static const char *const names[] = { "a", "b" };
        struct farhand_new_file files[2] = { FARHAND_NEW_FILE_INIT, FARHAND_NEW_FILE_INIT };
        struct farhand_access wanted[2] = { FARHAND_ACCESS_INIT, FARHAND_ACCESS_INIT };
        char digest[FARHAND_DIGEST_BYTES];
        uint64_t n;
        int r;
        switch (which) {
        case 0:
                return farhand_scan(f, "/d", on_scanned, NULL, NULL);
        case 1:
                return farhand_read_files(f, "/d", names, 2, on_file, NULL, NULL);
        case 2:
                files[0].name = "a";
                files[1].name = "b";
                files[0].bytes = files[1].bytes = "";
                return farhand_write_files(f, "/d", files, 2, on_failed, NULL, NULL);
        case 3:
                wanted[0].path = wanted[1].path = "/a";
                return farhand_check_access(f, wanted, 2, on_access, NULL, NULL);
        default:
                r = farhand_digest(f, "/a", 0, 9, digest, &n, NULL);
                if (r == 0)
                        check_digest(digest);
                return r;
        }
}

static int ask_about_files(struct farhand *f, unsigned which)
{
        struct farhand_metadata metadata;
        struct farhand_walk walk = FARHAND_WALK_INIT;
        char *text = NULL;
        int r;
        switch (which) {
        case 0:
                r = farhand_stat_with(f, "/a", FARHAND_STAT_DIGEST | FARHAND_STAT_NO_LINKS, &metadata, NULL);
                if (r == 0 && metadata.digest[0])
                        check_digest(metadata.digest);
                return r;
        case 1:
                return farhand_list(f, "/d", on_entry, NULL, NULL);
        case 2:
                walk.on_entry = on_walked;
                return farhand_walk(f, "/d", &walk, NULL);
        case 3:
                r = farhand_read_link(f, "/a", &text, NULL);
                must(r < 0 || text[0]);
                free(text);
                return r;
        default:
                r = farhand_canonicalize(f, "/a", &text, NULL);
                must(r < 0 || text[0] == '/');
                free(text);
                return r;
        }
}

static int ask_about_the_rest(struct farhand *f, unsigned which)
{
        static const char *const key[] = { "a", NULL }, *const *const keys[] = { key };
        struct farhand_config_query query = FARHAND_CONFIG_QUERY_INIT;
        struct farhand_root roots[2] = { FARHAND_ROOT_INIT, FARHAND_ROOT_INIT };
        char *content = NULL;
        size_t n = 0;
        int r;
        switch (which) {
        case 0:
                return farhand_target_report(f, &target, NULL, on_report, NULL, NULL);
        case 1:
                query.cwd = "/w";
                query.config = keys;
                query.config_count = 1;
                return farhand_config_read(f, &query, on_config, NULL, NULL);
        case 2:
                roots[0].id = roots[1].id = "r";
                roots[0].path = roots[1].path = "/r";
                return farhand_discover_roots(f, roots, 2, on_root, NULL, NULL);
        default:
                r = farhand_read_file_with(f, "/a", 100, FARHAND_NO_LINKS, &content, &n, NULL);
                must(r < 0 || (n <= 100 && content[n] == '\0'));
                free(content);
                return r;
        }
}

/* ---- the server ---- */

static void say(int fd, const void *bytes, size_t n)
{
        must(send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n);
}

static struct farhand *connect_client(int *ret_server)
{
        static const char hello[] =
                "{\"id\":0,\"result\":{\"sessionId\":\"s\",\"environmentInfo\":{\"capabilities\":{"
                "\"processControlV1\":true,\"fsControlV1\":true,\"fsBatchV1\":true,"
                "\"environmentConfigRead\":true,\"fsAccessV1\":true}}}}\n";
        const char *const argv[] = { "none", NULL };
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        int pair[2];
        options.argv = argv;
        struct farhand *f = farhand_new(&options, NULL);
        must(f && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
        transport_close(&f->transport, 0);
        f->retry_at_ms = 0;
        transport_open_child(&f->transport, pair[0], 0);
        say(pair[1], hello, strlen(hello));
        for (int i = 0; i < 8 && farhand_get_state(f) != FARHAND_READY; i++)
                (void)farhand_step(f, NULL);
        must(farhand_get_state(f) == FARHAND_READY);
        *ret_server = pair[1];
        return f;
}

/* The data of an error of the same text, as farhand_error_denial reads it. */
static void check_error(struct slice text)
{
        struct farhand_error error = { .code = -EREMOTEIO };
        if (text.n >= sizeof(error.data) || slice_has_nul(text))
                return;
        memcpy(error.data, text.p, text.n);
        struct farhand_denial *denial = farhand_error_denial(&error);
        if (denial)
                check_denial(denial);
        free(denial);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        int server;
        if (size < 2 || size > 32768)
                return 0;
        struct slice text = slice_from(data + 1, size - 1);
        check_error(text);
        struct farhand *f = connect_client(&server);
        _buf_ struct buf answer = BUF_INIT(65536);
        must(buf_append(&answer, S("{\"id\":1,\"result\":")) == 0 && buf_append(&answer, text) == 0);
        for (size_t i = 0; i < answer.n; i++)
                if (answer.p[i] == '\n')
                        answer.p[i] = ' ';
        must(buf_append(&answer, S("}\n")) == 0);
        say(server, answer.p, answer.n);
        (void)shutdown(server, SHUT_WR);
        told = 0;
        unsigned which = data[0] % 20;
        int r = which < 6    ? ask_about_processes(f, which)
                : which < 11 ? ask_about_many(f, which - 6)
                : which < 16 ? ask_about_files(f, which - 11)
                             : ask_about_the_rest(f, which - 16);
        must(r <= 1);
        farhand_free(f);
        fd_close(server);
        return 0;
}
