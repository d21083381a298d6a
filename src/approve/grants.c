/* grants: what was allowed for the whole session. */
#include "approve/grants.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct grant {
        struct list link; /* grants::list */
        char *environment_id;
        char *cwd;        /* of a command */
        char **argv;      /* of a command; NULL: the grant is for a patch */
        bool tty;         /* of a command */
        bool is_host;     /* argv is HOST:PORT alone, and not a command */
        char *path;       /* of a patch: a real path */
        char *additional; /* NULL: none */
        bool is_read;     /* of a patch: the path may only be read */
        bool is_outside;
};

static void grant_free(struct grant *g)
{
        list_remove(&g->link);
        for (char **arg = g->argv; arg && *arg; arg++)
                free(*arg);
        free(g->argv);
        free(g->environment_id);
        free(g->cwd);
        free(g->path);
        free(g->additional);
        free(g);
}

void grants_init(struct grants *g)
{
        list_init(&g->list);
        g->count = 0;
}

void grants_release(struct grants *g)
{
        struct grant *it;

        list_each (it, &g->list, link)
                grant_free(it);
        g->count = 0;
}

static bool same(const char *a, const char *b)
{
        return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_argv(char *const *a, const char *const *b)
{
        for (; *a && *b; a++, b++)
                if (strcmp(*a, *b) != 0)
                        return false;
        return *a == NULL && *b == NULL;
}

/* Returns whether a grant allows the action. `path` is one path of a patch, or NULL for a command. */
static bool covers(const struct grants *g, const struct approval_action *action, const char *path,
                   bool is_outside, const char *additional)
{
        struct grant *it;

        list_each (it, &g->list, link) {
                if (it->is_outside != is_outside || !same(it->additional, additional) ||
                    !same(it->environment_id, action->environment_id))
                        continue;
                if (path ? same(it->path, path) && it->is_read == action->is_read
                         : it->argv && it->tty == action->tty && it->is_host == (action->host != NULL) &&
                                    same(it->cwd, action->cwd) && same_argv(it->argv, action->argv))
                        return true;
        }
        return false;
}

bool grants_know_patches(const struct grants *g)
{
        struct grant *it;

        list_each (it, &g->list, link)
                if (it->path)
                        return true;
        return false;
}

bool grants_have(const struct grants *g, const struct approval_action *action, bool is_outside,
                 const char *additional)
{
        if (action->argv)
                return covers(g, action, NULL, is_outside, additional);
        for (const char *const *path = action->real_paths; path && *path; path++)
                if (!covers(g, action, *path, is_outside, additional))
                        return false;
        return action->real_paths && action->real_paths[0];
}

static char **copy_argv(const char *const *argv)
{
        size_t n = 0;

        while (argv[n])
                n++;
        char **copy = mem_zalloc((n + 1) * sizeof(*copy));
        for (size_t i = 0; i < n; i++)
                copy[i] = mem_strdup(argv[i]);
        return copy;
}

static void add(struct grants *g, const struct approval_action *action, const char *path, bool is_outside,
                const char *additional)
{
        if (covers(g, action, path, is_outside, additional))
                return;
        struct grant *new = mem_zalloc(sizeof(*new));
        new->environment_id = mem_strdup(action->environment_id);
        new->additional = mem_strdup(additional);
        new->is_outside = is_outside;
        if (path) {
                new->path = mem_strdup(path);
                new->is_read = action->is_read;
        } else {
                new->cwd = mem_strdup(action->cwd);
                new->argv = copy_argv(action->argv);
                new->tty = action->tty;
                new->is_host = action->host != NULL;
        }
        if (g->count == LIMIT_APPROVAL_GRANTS)
                grant_free(list_first(&g->list, struct grant, link));
        else
                g->count++;
        list_append(&g->list, &new->link);
}

void grants_add(struct grants *g, const struct approval_action *action, bool is_outside,
                const char *additional)
{
        if (action->argv)
                add(g, action, NULL, is_outside, additional);
        else
                for (const char *const *path = action->real_paths; path && *path; path++)
                        add(g, action, *path, is_outside, additional);
}

void grants_write(const struct grants *g, struct jsonw *w)
{
        struct grant *it;

        jsonw_array(w);
        list_each (it, &g->list, link) {
                jsonw_object(w);
                jsonw_member_str(w, "kind",
                                 it->is_host   ? "host"
                                 : it->argv    ? "command"
                                 : it->is_read ? "read"
                                               : "patch");
                if (it->environment_id)
                        jsonw_member_str(w, "environment_id", it->environment_id);
                if (it->is_host) {
                        jsonw_member_str(w, "host", it->argv[0]);
                } else if (it->argv) {
                        jsonw_key(w, "command");
                        jsonw_array(w);
                        for (char **arg = it->argv; *arg; arg++)
                                jsonw_str(w, *arg);
                        jsonw_array_end(w);
                        jsonw_member_bool(w, "tty", it->tty);
                        if (it->cwd)
                                jsonw_member_str(w, "cwd", it->cwd);
                } else {
                        jsonw_member_str(w, "path", it->path);
                }
                jsonw_member_bool(w, "outside_sandbox", it->is_outside);
                if (it->additional) {
                        jsonw_key(w, "additional_permissions");
                        jsonw_raw(w, slice_from_str(it->additional));
                }
                jsonw_object_end(w);
        }
        jsonw_array_end(w);
}
