/* targets: finds the environments, the workspace and the profile that options name. */
#include "talk/targets.h"

#include "approve/permissions.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "cli/remote.h"
#include "env/environments_file.h"

#include <errno.h>
#include <unistd.h>

static int say(const char *text)
{
        remote_say(&(struct remote){ 0 }, "%s", text);
        return -EINVAL;
}

/* ---- environments ---- */

static int add(struct targets *t, const struct environment *e, const char *client_name)
{
        for (size_t i = 0; i < t->count; i++)
                if (strcmp(t->list[i].id, e->id) == 0)
                        return say(arena_printf(&t->arena, "the environment %s is named twice", e->id));
        struct remote *r = &t->remotes[t->count];
        struct farhand_options *o = &t->options[t->count];
        *r = (struct remote){ .environment = e };
        *o = (struct farhand_options)FARHAND_OPTIONS_INIT;
        remote_apply(r, o);
        o->client_name = client_name;
        t->list[t->count++] = (struct unified_environment){ .id = e->id,
                                                            .options = o,
                                                            .is_local = remote_is_local(r),
                                                            .key = environment_key(&t->arena, e) };
        return 0;
}

static void make_room(struct targets *t, size_t count)
{
        t->remotes = arena_zalloc(&t->arena, count * sizeof(*t->remotes));
        t->options = arena_zalloc(&t->arena, count * sizeof(*t->options));
        t->list = arena_zalloc(&t->arena, count * sizeof(*t->list));
}

/* Finds the environment that an option names, and adds it. When `url` and `name` are NULL, adds the primary environment and then all
 * others. */
static int add_named(struct targets *t, const char *url, const char *name, const char *client_name)
{
        struct environments all;
        struct err err = ERR_INIT;
        int r = environments_load(&t->arena, url, name, &all, &err);
        if (r < 0)
                return say(err.text);
        if (!environments_default(&all))
                return say(all.is_disabled ? "the configuration says that there is no environment"
                                           : "the configuration names no default environment; say which with "
                                             "--env NAME");
        if (url || name)
                return add(t, environments_default(&all), client_name);
        make_room(t, all.count);
        r = add(t, environments_default(&all), client_name);
        for (size_t i = 0; r == 0 && i < all.count; i++)
                if (i != all.default_index)
                        r = add(t, &all.list[i], client_name);
        return r;
}

static int find(struct targets *t, const struct target_wishes *w, const char *client_name)
{
        if (!w->url && w->names.count == 0)
                return add_named(t, NULL, NULL, client_name);
        make_room(t, w->names.count + 1);
        int r = w->url ? add_named(t, w->url, NULL, client_name) : 0;
        for (size_t i = 0; r == 0 && i < w->names.count; i++)
                r = add_named(t, NULL, w->names.items[i], client_name);
        return r;
}

/* Gives the first environment the directory of -C. On this machine that may be relative, and without -C it is our working directory. */
static int choose_directories(struct targets *t, const char *cwd)
{
        char *here = getcwd(NULL, 0);
        if (!here)
                return say("there is no working directory");
        const char *ours = arena_dup(&t->arena, slice_from_str(here));
        free(here);
        for (size_t i = 0; i < t->count; i++)
                t->list[i].cwd = t->list[i].is_local ? ours : NULL;
        if (!cwd)
                return 0;
        if (cwd[0] != '/' && !t->list[0].is_local)
                return say("-C: the directory on another machine must be an absolute path");
        t->list[0].cwd = cwd[0] == '/' ? cwd : arena_printf(&t->arena, "%s/%s", ours, cwd);
        return 0;
}

int targets_find(struct targets *t, const struct target_wishes *w, const char *client_name)
{
        int r = find(t, w, client_name);
        return r < 0 ? r : choose_directories(t, w->cwd);
}

void targets_release(struct targets *t)
{
        for (size_t i = 0; i < t->count; i++)
                remote_release(&t->remotes[i]);
        arena_release(&t->arena);
}

/* ---- permissions ---- */

int targets_profile(struct targets *t, const struct target_wishes *w, const char **ret)
{
        struct arena *a = &t->arena;
        *ret = NULL;
        if (w->is_read_only + w->is_workspace_write + w->is_open + (w->profile_file != NULL) > 1)
                return say(
                        "only one of --read-only, --workspace-write, --profile and --no-sandbox can be used");
        if (w->is_open)
                return 0;
        if (!w->profile_file) {
                _free_ char *usual = permissions_usual(!w->is_read_only, w->has_network);
                *ret = arena_dup(a, slice_from_str(usual));
                return 0;
        }
        if (w->has_network)
                return say("--network is for --read-only and --workspace-write: the profile says it itself");
        _buf_ struct buf file = BUF_INIT(LIMIT_APPROVAL_TEXT_BYTES);
        int r = fd_read_file(w->profile_file, LIMIT_APPROVAL_TEXT_BYTES, &file);
        if (r < 0)
                return say(arena_printf(a, "--profile %s: %s", w->profile_file, errno_text(r)));
        *ret = arena_dup(a, buf_slice(&file));
        return 0;
}
