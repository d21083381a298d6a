/* names: asks the server about the paths of a patch. */
#include "patch/names.h"

#include <errno.h>

#define NAMES_PER_READ 1024 /* the most files of one fs/readFiles */

/* ---- paths ---- */

const char *names_join(struct arena *a, const char *directory, const char *name)
{
        return arena_printf(a, "%s%s%s", directory, strcmp(directory, "/") == 0 ? "" : "/", name);
}

const char *names_last(const char *path)
{
        return strrchr(path, '/') + 1;
}

const char *names_directory(struct arena *a, const char *path)
{
        size_t n = (size_t)(strrchr(path, '/') - path);
        return arena_dup(a, slice_from(path, n > 0 ? n : 1));
}

/* ---- questions ---- */

void names_begin(struct names *all, struct asks *asks, uint64_t file_max, uint64_t memory_max)
{
        *all = (struct names){ .asks = asks,
                               .arena = asks->arena,
                               .memory_left = memory_max,
                               .file_max = file_max,
                               .has_control = asks_has(asks, "fsControlV1"),
                               .has_batch = asks_has(asks, "fsBatchV1") };
        map_init(&all->map);
}

void names_release(struct names *all)
{
        map_release(&all->map);
}

struct name *names_get(struct names *all, const char *path)
{
        struct name *n = map_find(&all->map, slice_from_str(path));
        if (n)
                return n;
        n = arena_new(all->arena, struct name);
        n->path = arena_dup(all->arena, slice_from_str(path));
        n->names = all;
        map_put(&all->map, slice_from_str(n->path), n);
        return n;
}

static void ask_look(struct name *n)
{
        if (n->has_look)
                return;
        n->has_look = true;
        n->look = (struct look){ .path = n->path, .follows = true };
        look_send(n->names->asks, &n->look);
}

static void take_real(void *arg, const struct answer *answer)
{
        struct name *n = arg;
        if (answer->failure && answer->failure->is_unknown)
                n->real = n->path; /* this server cannot resolve links, so the path counts as the real one */
        else if (answer->failure)
                n->real_failure = answer->failure;
        else
                n->real = answered_path(answer, answer->root, "path");
}

static void ask_real(struct name *n)
{
        struct asks *s = n->names->asks;
        if (n->has_real)
                return;
        n->has_real = true;
        ask_about(s, n->path);
        ask_send(s, "fs/canonicalize", true, take_real, n);
}

static void take_link(void *arg, const struct answer *answer)
{
        struct name *n = arg;
        if (!answer->failure)
                n->link = answered_link(answer);
}

static void ask_link(struct name *n)
{
        struct asks *s = n->names->asks;
        if (n->has_link || !n->names->has_control)
                return;
        n->has_link = true;
        ask_about(s, n->path);
        ask_send(s, "fs/readLink", true, take_link, n);
}

/* ---- contents ---- */

static void take_content(void *arg, const struct answer *answer)
{
        struct name *n = arg;
        n->read_failure = answer->failure;
        uint64_t room = n->room + n->names->memory_left;
        n->has_bytes =
                !answer->failure && answered_bytes(answer, answer->root, "dataBase64", room, &n->bytes) == 0;
        if (n->has_bytes)
                n->names->memory_left = room - n->bytes.n;
}

/* Asks for the content of a file of that size. Its memory counts as used from now on, so that answers under way do not exceed the limit. */
static void ask_content(struct name *n, uint64_t size)
{
        struct asks *s = n->names->asks;
        if (n->is_content_asked)
                return;
        n->is_content_asked = true;
        n->room = MIN(n->names->memory_left, size);
        n->names->memory_left -= n->room;
        struct jsonw *w = ask_about(s, n->path);
        if (n->is_real && n->names->has_control)
                jsonw_member_bool(w, "followSymlinks", false);
        ask_send(s, "fs/readFile", true, take_content, n);
}

static bool can_keep(const struct names *all, const struct file_state *state)
{
        return state->kind == FILE_REGULAR && state->size <= all->file_max && state->size <= all->memory_left;
}

/* A request for several files of one directory. */
struct reading {
        struct name **list;
        size_t count, room;
        const char *directory;
        struct reading *next;
};

static void take_contents(void *arg, const struct answer *answer)
{
        struct reading *r = arg;
        const struct json *files = answer->failure ? NULL : json_get(answer->doc, answer->root, S("files"));
        size_t i = 0;
        if (!files || files->type != JSON_ARRAY)
                return;
        json_each (it, answer->doc, files) {
                struct name *n = i < r->count ? r->list[i++] : NULL;
                if (!n || answered_bytes(answer, it, "dataBase64", n->names->memory_left, &n->bytes) < 0)
                        continue; /* the file is asked for in a request of its own, if it exists and there is room */
                n->has_bytes = true;
                n->names->memory_left -= n->bytes.n;
        }
}

static void ask_contents(struct names *all, struct reading *r)
{
        struct jsonw *w = ask_about(all->asks, r->directory);
        jsonw_key(w, "names");
        jsonw_array(w);
        for (size_t i = 0; i < r->count; i++)
                jsonw_str(w, names_last(r->list[i]->path));
        jsonw_array_end(w);
        ask_send(all->asks, "fs/readFiles", true, take_contents, r);
}

/* Adds a name to the request for files of its directory. That request is sent before it is known whether the files exist and how large they
 * are: the server sends nothing of large files, and a round trip is saved. */
static void add_reading(struct name *n, struct name *directory)
{
        struct names *all = n->names;
        struct reading *r = directory->reading;
        if (!all->has_batch || names_last(n->path)[0] == '\0')
                return;
        if (!r || r->count == NAMES_PER_READ) {
                r = arena_new(all->arena, struct reading);
                r->directory = directory->path;
                r->next = all->readings;
                all->readings = directory->reading = r;
        }
        r->list = arena_room(all->arena, r->list, r->count, &r->room, sizeof(struct name *));
        r->list[r->count++] = n;
}

void names_prefetch(struct names *all, const struct wish *wishes, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                struct name *n = names_get(all, wishes[i].path);
                struct name *directory = names_get(all, names_directory(all->arena, n->path));
                if (wishes[i].is_read && !n->has_look)
                        add_reading(n, directory);
                ask_look(n);
                ask_real(directory);
                if (wishes[i].is_made)
                        ask_link(n);
        }
        for (struct reading *r = all->readings; r; r = r->next)
                ask_contents(all, r);
        all->readings = NULL;
        asks_wait(all->asks);
        for (size_t i = 0; i < count; i++) {
                struct name *n = names_get(all, wishes[i].path);
                if (wishes[i].is_read && !n->has_bytes && !n->look.failure && can_keep(all, &n->look.state))
                        ask_content(n, n->look.state.size);
        }
        asks_wait(all->asks);
}

/* ---- single answers ---- */

const struct look *name_look(struct name *n)
{
        if (!n->has_look) {
                ask_look(n);
                asks_wait(n->names->asks);
        }
        return &n->look;
}

const char *name_real(struct name *n)
{
        if (!n->has_real) {
                ask_real(n);
                asks_wait(n->names->asks);
        }
        return n->real;
}

const char *name_link(struct name *n)
{
        if (!n->has_link) {
                ask_link(n);
                asks_wait(n->names->asks);
        }
        return n->link;
}

int name_read(struct name *n, const struct file_state *state, struct slice *ret,
              const struct failure **ret_failure)
{
        if (!n->has_bytes && !n->is_content_asked) {
                if (!can_keep(n->names, state))
                        return -EFBIG;
                ask_content(n, state->size);
                asks_wait(n->names->asks);
        }
        if (!n->has_bytes) {
                *ret_failure = n->read_failure;
                return n->read_failure ? -EIO : -EFBIG;
        }
        *ret = n->bytes;
        return 0;
}
