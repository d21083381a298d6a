/* access: asks what the permission profile says to the paths of a patch. */
#include "patch/access.h"

#include "patch/draft.h"

#define PATHS_MAX 4096 /* of one request */

/* One path and what is done with it. */
struct access {
        const char *path;
        const char *access; /* "read", "write" or "remove" */
        const char *message;
        const struct denial *denial;
};

struct access_batch {
        struct access *list;
        size_t count;
        struct access_batch *next;
};

static void take(void *arg, const struct answer *answer)
{
        struct access_batch *batch = arg;
        const struct json *results =
                answer->failure ? NULL : json_get(answer->doc, answer->root, S("results"));
        size_t i = 0;
        if (!results || results->type != JSON_ARRAY)
                return;
        json_each (it, answer->doc, results) {
                if (i >= batch->count)
                        return;
                if (!answered_flag(answer, it, "allowed"))
                        batch->list[i].denial = denial_read(answer->asks->arena, answer->doc,
                                                            json_get(answer->doc, it, S("denied")));
                i++;
        }
}

static void send_batch(struct asks *s, struct access_batch *batch)
{
        struct jsonw *w = ask_begin(s);
        jsonw_key(w, "paths");
        jsonw_array(w);
        for (size_t i = 0; i < batch->count; i++) {
                jsonw_object(w);
                ask_path(s, "path", batch->list[i].path);
                jsonw_member_str(w, "access", batch->list[i].access);
                jsonw_object_end(w);
        }
        jsonw_array_end(w);
        ask_send(s, "fs/checkAccess", true, take, batch);
}

static void add(struct access_batch *batch, const char *path, const char *access, const char *message)
{
        if (path)
                batch->list[batch->count++] =
                        (struct access){ .path = path, .access = access, .message = message };
}

static void add_hunk(struct arena *a, struct access_batch *batch, const struct hunk *h, const char *cwd)
{
        const char *path = draft_path(a, cwd, h->path);
        const char *to = h->move_to.p ? draft_path(a, cwd, h->move_to) : NULL;
        bool is_moved = to && path && strcmp(to, path) != 0;
        if (h->kind == HUNK_ADD)
                add(batch, path, "write", "Failed to write file");
        if (h->kind == HUNK_DELETE)
                add(batch, path, "remove", "Failed to delete file");
        if (h->kind != HUNK_UPDATE)
                return;
        add(batch, path, "read", "Failed to read file to update");
        add(batch, is_moved ? to : path, "write", "Failed to write file");
        if (is_moved)
                add(batch, path, "remove", "Failed to remove original");
}

void access_send(struct asks *s, struct access_check *check, const struct patch *p, const char *cwd)
{
        struct access_batch **end = &check->batches;
        if (!s->sandbox || !asks_has(s, "fsAccessV1"))
                return;
        for (size_t i = 0; i < p->hunk_count;) {
                struct access_batch *batch = arena_new(s->arena, struct access_batch);
                size_t room = MIN(3 * (p->hunk_count - i), (size_t)PATHS_MAX);
                batch->list = arena_alloc(s->arena, room * sizeof(*batch->list));
                while (i < p->hunk_count && batch->count + 3 <= room)
                        add_hunk(s->arena, batch, &p->hunks[i++], cwd);
                *end = batch;
                end = &batch->next;
                if (batch->count > 0)
                        send_batch(s, batch);
        }
}

bool access_is_denied(struct access_check *check)
{
        for (const struct access_batch *b = check->batches; b; b = b->next)
                for (size_t i = 0; i < b->count; i++)
                        if (b->list[i].denial) {
                                check->denial = b->list[i].denial;
                                check->path = b->list[i].path;
                                check->message = b->list[i].message;
                                return true;
                        }
        return false;
}

void access_each_denial(const struct access_check *check, void (*fn)(void *arg, const struct denial *denial),
                        void *arg)
{
        const struct denial *last = NULL;
        for (const struct access_batch *b = check->batches; b; b = b->next)
                for (size_t i = 0; i < b->count; i++) {
                        const struct denial *d = b->list[i].denial;
                        /* One hunk can ask three times about the same path, and these answers follow each other. */
                        bool is_same = d && last && strcmp(d->operation, last->operation) == 0 &&
                                       strcmp(d->path, last->path) == 0 && strcmp(d->rule, last->rule) == 0;
                        if (d && !is_same)
                                fn(arg, d);
                        last = d ? d : last;
                }
}
