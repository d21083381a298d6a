/* filing: the tools read_file, write_file, list_directory and view_image: from the question for permission over requests to the result. */
#include "unified/table_internal.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/uri.h"
#include "unified/file_result.h"
#include "wire/jsonw.h"

#include <errno.h>

static const char *tool_name(const struct unified_call *c)
{
        return unified_tool_name(c->tool);
}

static void fail(struct unified_call *c, const char *why)
{
        unified_call_fail(c, "%s failed: %s: %s", tool_name(c),
                          c->file.path ? c->file.path : c->file.args.path, why);
}

/* ---- requests ---- */

/* Begins the params of a request for a path: in the sandbox of the run, or bound to the real path that was allowed. */
static void params_begin(struct jsonw *w, struct buf *params, struct unified_call *c)
{
        const struct filing_state *s = &c->file;
        _free_ char *path = farhand_path_json(c->host->client, s->run_path);
        jsonw_begin(w, params);
        jsonw_object(w);
        jsonw_key(w, "path");
        jsonw_raw(w, slice_from_str(path));
        if (s->sandbox) {
                jsonw_key(w, "sandbox");
                jsonw_raw(w, slice_from_str(s->sandbox));
        }
        if (s->is_bound)
                jsonw_member_bool(w, "followSymlinks", false);
}

/* Sends a request whose params are all written. */
static void ask_server(struct unified_call *c, struct jsonw *w, struct buf *params, const char *method,
                       bool is_repeatable)
{
        jsonw_object_end(w);
        if (jsonw_end(w) < 0)
                fail(c, "the request is too long");
        else if (!filing_request_begin(c, method, params->p, is_repeatable))
                fail(c, c->file.error.text);
        else
                unified_call_wait(c, CALL_FILING, UINT64_MAX);
}

static void ask_plain(struct unified_call *c, const char *method)
{
        _buf_ struct buf params = BUF_INIT(LIMIT_APPROVAL_TEXT_BYTES + 64 * 1024);
        struct jsonw w;
        params_begin(&w, &params, c);
        ask_server(c, &w, &params, method, true);
}

static void ask_write(struct unified_call *c)
{
        _buf_ struct buf params = BUF_INIT(LIMIT_APPROVAL_TEXT_BYTES + 2 * LIMIT_UNIFIED_LINE_BYTES);
        struct jsonw w;
        params_begin(&w, &params, c);
        jsonw_key(&w, "dataBase64");
        jsonw_base64(&w, c->file.args.content);
        if (c->file.args.create_parents)
                jsonw_member_bool(&w, "createParents", true);
        ask_server(c, &w, &params, "fs/writeFile", false);
}

static void ask_list(struct unified_call *c)
{
        _buf_ struct buf params = BUF_INIT(LIMIT_APPROVAL_TEXT_BYTES + 64 * 1024);
        struct jsonw w;
        if (!farhand_has_capability(c->host->client, "fsBatchV1")) {
                ask_plain(c, "fs/readDirectory");
                return;
        }
        params_begin(&w, &params, c);
        jsonw_member_u64(&w, "limit", FILE_ENTRIES);
        if (c->file.args.after)
                jsonw_member_str(&w, "after", c->file.args.after);
        ask_server(c, &w, &params, "fs/scanDirectory", true);
}

/* Begins a run as the approval says. */
static void run(struct unified_call *c)
{
        struct filing_state *s = &c->file;
        const char *const *real = approval_real_paths(c->approval);
        s->sandbox = host_sandbox(&c->strings, c->host, approval_permissions(c->approval));
        s->is_bound = real != NULL;
        s->run_path = real ? arena_dup(&c->strings, slice_from_str(real[0])) : s->path;
        s->step = FILE_STAT;
        if (s->is_bound && !farhand_has_capability(c->host->client, "fsControlV1"))
                fail(c, "the server cannot bind a request to a real path");
        else if (c->tool == UNIFIED_WRITE_FILE)
                ask_write(c);
        else if (c->tool == UNIFIED_LIST_DIRECTORY)
                ask_list(c);
        else
                ask_plain(c, "fs/getMetadata");
}

/* ---- answers ---- */

/* Tells the approval what the sandbox has refused. */
static void report_denial(struct unified_call *c, const struct farhand_denial *denial)
{
        _buf_ struct buf text = BUF_INIT(LIMIT_APPROVAL_TEXT_BYTES);
        struct jsonw w;
        jsonw_begin(&w, &text);
        jsonw_array(&w);
        jsonw_object(&w);
        jsonw_member_str(&w, "operation", denial->operation);
        jsonw_member_str(&w, "path", denial->path);
        jsonw_object_end(&w);
        jsonw_array_end(&w);
        c->file.denied = arena_dup(&c->strings, slice_from_str(c->file.error.text));
        unified_call_ran(c, true, jsonw_end(&w) == 0 ? text.p : NULL, 0);
}

static void on_error(struct unified_call *c)
{
        struct farhand_denial *denial = farhand_error_denial(&c->file.error);
        /* A list cannot be bound to a real path, so that a yes would be one to whatever is there by then. */
        if (denial && c->file.sandbox && c->tool != UNIFIED_LIST_DIRECTORY)
                report_denial(c, denial);
        else
                fail(c, c->file.error.text);
        free(denial);
}

/* Checks what the server tells of the file before the file is read. */
static void on_metadata(struct unified_call *c, const struct json_doc *d)
{
        const struct json *is_file = json_get(d, json_root(d), S("isFile")),
                          *size = json_get(d, json_root(d), S("size"));
        uint64_t bytes = 0;
        uint64_t most = c->tool == UNIFIED_VIEW_IMAGE ? LIMIT_FILE_IMAGE_BYTES : LIMIT_FILE_READ_BYTES;
        if (!is_file || is_file->type != JSON_TRUE) {
                fail(c, "not a regular file");
        } else if (size && json_u64(d, size, &bytes) == 0 && bytes > most) {
                fail(c, arena_printf(&c->strings, "it has %llu bytes, and at most %llu can be read",
                                     (unsigned long long)bytes, (unsigned long long)most));
        } else {
                c->file.step = FILE_CONTENT;
                ask_plain(c, "fs/readFile");
        }
}

static bool decode_content(struct unified_call *c, const struct json_doc *d, struct slice *ret)
{
        const struct json *data = json_get(d, json_root(d), S("dataBase64"));
        if (!data || data->type != JSON_STRING)
                return false;
        struct slice text = json_string(&c->strings, d, data);
        char *bytes = arena_alloc(&c->strings, base64_decoded_max(text.n) + 1);
        ssize_t n = base64_decode(bytes, text.p, text.n, NULL);
        *ret = slice_from(bytes, n < 0 ? 0 : (size_t)n);
        return n >= 0;
}

static void on_content(struct unified_call *c, const struct json_doc *d)
{
        struct slice bytes;
        const char *why = NULL;
        if (!decode_content(c, d, &bytes))
                why = "the server has sent no content";
        else if (bytes.n > (c->tool == UNIFIED_VIEW_IMAGE ? LIMIT_FILE_IMAGE_BYTES : LIMIT_FILE_READ_BYTES))
                why = "it has become too long";
        else
                why = c->tool == UNIFIED_VIEW_IMAGE ? file_result_image(c, bytes)
                                                    : file_result_text(c, bytes);
        if (why)
                fail(c, why);
        else
                c->state = CALL_DONE;
}

static void on_result(struct unified_call *c)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(4 * LIMIT_FILE_READ_BYTES);
        struct json_doc doc;
        struct json_error bad;
        if (buf_append(&text, slice_from_str(c->file.result)) < 0 ||
            json_parse(&a, buf_slice(&text), &doc, &bad) < 0) {
                fail(c, "the answer of the server cannot be read");
                return;
        }
        if (c->tool == UNIFIED_WRITE_FILE) {
                file_result_written(c);
                c->state = CALL_DONE;
        } else if (c->tool == UNIFIED_LIST_DIRECTORY) {
                file_result_list(c, &doc);
                c->state = CALL_DONE;
        } else if (c->file.step == FILE_STAT) {
                on_metadata(c, &doc);
        } else {
                on_content(c, &doc);
        }
}

static bool on_filing(struct unified_call *c)
{
        if (c->file.request)
                return false;
        if (c->file.result)
                on_result(c);
        else
                on_error(c);
        return true;
}

/* ---- real paths ---- */

/* Finds out where the path leads, outside of any sandbox. Of a file that does not exist its directory counts. */
static void look(struct unified_call *c, bool is_directory)
{
        struct filing_state *s = &c->file;
        const char *slash = strrchr(s->path, '/');
        s->sandbox = NULL;
        s->is_bound = false;
        s->looks_at_directory = is_directory;
        s->run_path = is_directory
                              ? arena_dup(&c->strings, slice_from(s->path, (size_t)MAX(slash - s->path, 1)))
                              : s->path;
        ask_plain(c, "fs/canonicalize");
        if (c->state == CALL_FILING)
                unified_call_wait(c, CALL_LOOKING, UINT64_MAX);
}

static const char *read_real_path(struct unified_call *c)
{
        _buf_ struct buf text = BUF_INIT(64 * 1024);
        struct arena *a = &c->strings;
        struct json_doc doc;
        struct json_error bad;
        struct slice path;
        if (!c->file.result || buf_append(&text, slice_from_str(c->file.result)) < 0 ||
            json_parse(a, buf_slice(&text), &doc, &bad) < 0)
                return NULL;
        const struct json *v = json_get(&doc, json_root(&doc), S("path"));
        if (!v || v->type != JSON_STRING || uri_to_path(a, json_string(a, &doc, v), &path, NULL) != URI_OK)
                return NULL;
        return slice_has_nul(path) ? NULL : arena_dup(a, path);
}

static bool on_looking(struct unified_call *c)
{
        const struct filing_state *s = &c->file;
        if (s->request)
                return false;
        const char *real = read_real_path(c);
        if (!real && !s->looks_at_directory && c->tool == UNIFIED_WRITE_FILE &&
            farhand_error_errno(&s->error) == ENOENT) {
                look(c, true);
                return true;
        }
        if (real && s->looks_at_directory)
                real = arena_printf(&c->strings, "%s%s", strcmp(real, "/") == 0 ? "" : real,
                                    strrchr(s->path, '/'));
        const char *list[] = { real, NULL };
        unified_call_looked(c, real ? list : NULL);
        return true;
}

/* ---- permission ---- */

static void ask_permission(struct unified_call *c)
{
        struct filing_state *s = &c->file;
        c->cwd = c->host->cwd;
        s->path = host_path(&c->strings, c->host, s->args.path);
        if (!s->path) {
                fail(c, "the environment does not tell its working directory; give an absolute path");
                return;
        }
        const char **paths = arena_zalloc(&c->strings, 2 * sizeof(*paths));
        paths[0] = s->path;
        unified_call_ask(c, (struct approval_action){ .paths = paths,
                                                      .is_read = c->tool != UNIFIED_WRITE_FILE });
}

static bool follow_approval(struct unified_call *c)
{
        enum approval_state state = approval_state(c->approval);
        if (state == APPROVAL_ASKING)
                return false;
        unified_call_end_question(c);
        if (state == APPROVAL_REFUSED || state == APPROVAL_OVER) {
                fail(c, state == APPROVAL_REFUSED ? approval_text(c->approval) : c->file.denied);
                return true;
        }
        enum host_state host = host_want(c->host);
        if (host == HOST_FAILED)
                fail(c, c->host->error);
        if (host != HOST_READY)
                return host == HOST_FAILED;
        if (state == APPROVAL_LOOKING)
                look(c, false);
        else
                run(c);
        return true;
}

static bool on_connecting(struct unified_call *c)
{
        enum host_state state = host_want(c->host);
        if (state == HOST_READY)
                ask_permission(c);
        else if (state == HOST_FAILED)
                fail(c, c->host->error);
        return c->state != CALL_CONNECTING;
}

static bool on_new(struct unified_call *c)
{
        c->host = host_find(c->table, c->file.args.environment_id);
        if (c->host)
                unified_call_wait(c, CALL_CONNECTING, UINT64_MAX);
        else
                unified_call_fail(c, "unknown environment id `%s`", c->file.args.environment_id);
        return true;
}

int filing_decode(struct unified_call *c, const struct json_doc *d, const struct json *arguments,
                  struct err *err)
{
        return file_args_decode(&c->strings, d, c->tool, arguments, &c->file.args, err);
}

bool filing_advance(struct unified_call *c, UNUSED uint64_t now_ms)
{
        switch (c->state) {
        case CALL_NEW:
                return on_new(c);
        case CALL_CONNECTING:
                return on_connecting(c);
        case CALL_ASKING:
                return follow_approval(c);
        case CALL_FILING:
                return on_filing(c);
        case CALL_LOOKING:
                return on_looking(c);
        case CALL_STARTING:
        case CALL_QUEUED:
        case CALL_PAUSING:
        case CALL_COLLECTING:
        case CALL_REPORTING:
        case CALL_PATCHING:
        case CALL_DONE:
                break;
        }
        return false;
}
