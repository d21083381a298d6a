/* fs_watch: `farhand fs watch`: prints changes as the server tells them, until the command is ended.
 *
 * A watch belongs to the connection. When a lost connection is back, the watch is made again. Changes in between are unknown, so an
 * overflow is printed.
 */
#include "farfs/fs.h"

#include "base/mem.h"
#include "base/uri.h"
#include "wire/json.h"

#include <errno.h>

#define PARAMS_MAX ((size_t)64 * 1024 * 1024)

struct watch {
        struct fs fs; /* must be the first member: callbacks get its address */
        bool is_recursive, is_json;
        const char *path;
        bool is_over; /* the watched path is gone */
};

static void print_event(struct watch *w, const char *kind, const char *path, const char *from)
{
        if (!w->is_json) {
                printf("%-8s ", kind);
                if (from) {
                        fs_print_name(&w->fs, from, FS_FILE);
                        printf(" -> ");
                }
                if (path)
                        fs_print_name(&w->fs, path, FS_FILE);
                else
                        printf("events were lost: look again");
                printf("\n");
                return;
        }
        _buf_ struct buf text = BUF_INIT(FS_JSON_MAX);
        struct jsonw j;
        jsonw_begin(&j, &text);
        jsonw_object(&j);
        jsonw_member_str(&j, "kind", kind);
        if (path)
                fs_json_path(&j, "path", path);
        if (from)
                fs_json_path(&j, "fromPath", from);
        jsonw_object_end(&j);
        fs_json_line(&j, &text);
}

static const char *path_of(struct arena *a, const struct json_doc *doc, const struct json *event,
                           struct slice key)
{
        const struct json *uri = json_get(doc, event, key);
        struct slice path;
        if (!uri || uri->type != JSON_STRING ||
            uri_to_path(a, json_string(a, doc, uri), &path, NULL) != URI_OK)
                return NULL;
        return path.p;
}

static void on_changed(struct fs *fs, const char *method, const char *params)
{
        struct watch *w = (struct watch *)(void *)fs;
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(PARAMS_MAX);
        struct json_doc doc;
        struct json_error bad;
        if (strcmp(method, "fs/changed") != 0 || buf_append(&text, slice_from_str(params)) < 0 ||
            json_parse(&a, buf_slice(&text), &doc, &bad) < 0)
                return;
        const struct json *events = json_get(&doc, json_root(&doc), S("events"));
        const struct json *overflow = json_get(&doc, json_root(&doc), S("overflow"));
        if (events && events->type == JSON_ARRAY) {
                json_each (it, &doc, events) {
                        const struct json *kind = json_get(&doc, it, S("kind"));
                        const char *path = path_of(&a, &doc, it, S("path"));
                        if (!path || !kind || kind->type != JSON_STRING)
                                continue;
                        const char *word = arena_dup(&a, json_string(&a, &doc, kind));
                        print_event(w, word, path, path_of(&a, &doc, it, S("fromPath")));
                        if (strcmp(path, w->path) == 0 && strcmp(word, "removed") == 0)
                                w->is_over = true;
                }
        }
        if (overflow && overflow->type == JSON_TRUE)
                print_event(w, "overflow", NULL, NULL);
        fflush(stdout);
}

static int begin(struct watch *w, struct farhand_error *ret_error)
{
        _free_ char *path = farhand_path_json(w->fs.client, w->path);
        _free_ char *params = mem_printf("{\"watchId\":\"w\",\"path\":%s,\"recursive\":%s}",
                                         path ? path : "null", w->is_recursive ? "true" : "false");
        _free_ char *result = NULL;
        return farhand_call_wait(w->fs.client, "fs/watch", params, FARHAND_REPEAT, -1, &result, ret_error);
}

static void watch(struct watch *w, const char *given)
{
        struct farhand_error error;
        bool was_lost = false;
        w->path = fs_path(&w->fs, given);
        if (!w->path)
                return;
        if (begin(w, &error) < 0) {
                fs_complain(&w->fs, given, &error);
                return;
        }
        if (w->is_json)
                print_event(w, "watching", w->path, NULL);
        fflush(stdout);
        while (!w->is_over && !ferror(stdout) && farhand_wait(w->fs.client, -1, &error) == 0) {
                enum farhand_state state = farhand_get_state(w->fs.client);
                was_lost = was_lost || state == FARHAND_RECOVERING;
                if (!was_lost || state != FARHAND_READY)
                        continue;
                was_lost = false;
                if (begin(w, &error) < 0) {
                        fs_complain(&w->fs, given, &error);
                        return;
                }
                print_event(w, "overflow", NULL, NULL);
                fflush(stdout);
        }
        if (w->is_over)
                fs_complain(&w->fs, given,
                            &(struct farhand_error){ .text = "it is gone; nothing will follow" });
        else if (fs_is_lost(&w->fs))
                fs_complain(&w->fs, given, &error);
}

int fs_watch(int argc, char **argv)
{
        struct watch w = { .fs.on_notification = on_changed };
        const struct arg table[] = {
                REMOTE_ARGS(&w.fs.remote),
                { "recursive", ARG_FLAG, NULL, "also what is in directories below", .letter = 'r',
                  .target = &w.is_recursive },
                { "json", ARG_FLAG, NULL, "a JSON object per line", .target = &w.is_json },
                { .name = NULL },
        };
        const struct args spec = { .usage = "farhand fs watch [OPTIONS] PATH",
                                   .about = "Tell changes of a file or directory as they happen.",
                                   .table = table,
                                   .is_mixed = true,
                                   .operands = OFFER_FILE };
        int rest = 0, code = fs_begin(&w.fs, &spec, argc, argv, 1, 1, &rest);
        if (code < 0)
                watch(&w, argv[rest]);
        return fs_end(&w.fs, code);
}
