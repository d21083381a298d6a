/* cp_side: which machine an operand means, the connections, waiting, and complaints. */
#include "base/mem.h"
#include "base/printable.h"
#include "farfs/cp.h"

#include <errno.h>
#include <poll.h>

#define TURN_MS 200 /* the longest wait, so that the line of progress is renewed */

/* ---- operands ---- */

/* Returns the environment of this name (NULL: that of the options), connected; NULL: stderr was told why not. */
static struct cp_side *connect_side(struct cp *cp, const char *name)
{
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        for (size_t i = 0; i < cp->side_count; i++)
                if (name ? cp->sides[i]->name && strcmp(cp->sides[i]->name, name) == 0 : !cp->sides[i]->name)
                        return cp->sides[i];
        if (cp->side_count == CP_SIDES_MAX) {
                remote_say(&cp->options, "at most %d environments in one command", CP_SIDES_MAX);
                return NULL;
        }
        struct cp_side *side = mem_new(struct cp_side);
        cp->sides[cp->side_count++] = side;
        side->name = name;
        side->fs.remote.env_name = name ? name : cp->options.env_name;
        side->fs.remote.url = name ? NULL : cp->options.url;
        options.client_name = "farhand cp";
        if (remote_choose(&side->fs.remote) < 0)
                return NULL;
        side->fs.client = remote_connect(&side->fs.remote, &options);
        if (!side->fs.client)
                return NULL;
        side->has_batch = farhand_has_capability(side->fs.client, "fsBatchV1");
        return side;
}

struct cp_side *cp_side_of(struct cp *cp, const char *operand, const char **ret_path)
{
        const char *colon = strchr(operand, ':'), *slash = strchr(operand, '/');
        if (!colon || (slash && slash < colon)) {
                *ret_path = operand;
                return &cp->near;
        }
        const char *name = colon == operand ? NULL
                                            : arena_dup(&cp->options.arena,
                                                        slice_from(operand, (size_t)(colon - operand)));
        struct cp_side *side = connect_side(cp, name);
        if (!side)
                return NULL;
        *ret_path = fs_path(&side->fs, colon[1] ? colon + 1 : ".");
        return *ret_path ? side : NULL;
}

void cp_sides_release(struct cp *cp)
{
        for (size_t i = 0; i < cp->side_count; i++) {
                farhand_free(cp->sides[i]->fs.client);
                remote_release(&cp->sides[i]->fs.remote);
                free(cp->sides[i]);
        }
        remote_release(&cp->near.fs.remote);
        remote_release(&cp->options);
}

/* ---- waiting ---- */

bool cp_is_lost(const struct cp *cp)
{
        for (size_t i = 0; i < cp->side_count; i++)
                if (!cp->sides[i]->fs.client || fs_is_lost(&cp->sides[i]->fs))
                        return true;
        return false;
}

void cp_wait(struct cp *cp, int fd, short events)
{
        struct pollfd fds[CP_SIDES_MAX + 1] = { { .fd = fd, .events = events } };
        int timeout = TURN_MS;
        for (size_t i = 0; i < cp->side_count; i++) {
                struct farhand *f = cp->sides[i]->fs.client;
                int due = farhand_timeout_ms(f);
                fds[1 + i] = (struct pollfd){ .fd = farhand_fd(f), .events = POLLIN };
                timeout = due >= 0 ? MIN(due, timeout) : timeout;
        }
        (void)poll(fds, cp->side_count + 1, timeout);
        for (size_t i = 0; i < cp->side_count; i++)
                (void)farhand_step(cp->sides[i]->fs.client,
                                   NULL); /* what fails is told by calls and streams */
        cp_progress_update(cp);
}

void cp_settle(struct cp *cp, unsigned n)
{
        do {
                while (cp->under_way > n && !cp_is_lost(cp))
                        cp_wait(cp, -1, 0);
                cp_checks_run(cp); /* after its last check a directory gets its mode and time, by a request */
        } while (cp->under_way > n && !cp_is_lost(cp));
}

int cp_call(struct cp_side *side, const char *method, const char *params, char **ret_result,
            struct farhand_error *ret_error)
{
        _free_ char *result = NULL;
        int r = farhand_call_wait(side->fs.client, method, params, FARHAND_REPEAT, -1, &result, ret_error);
        if (r == 0 && ret_result)
                *ret_result = TAKE(result);
        return r;
}

/* ---- paths and complaints ---- */

char *cp_path(const struct cp_dir *dir, const char *name)
{
        size_t n = strlen(dir->path);
        if (!name)
                return mem_strdup(dir->path);
        return mem_printf("%s%s%s", dir->path, n > 0 && dir->path[n - 1] == '/' ? "" : "/", name);
}

char *cp_path_json(const struct cp_dir *dir, const char *name)
{
        _free_ char *path = cp_path(dir, name);
        char *text = farhand_path_json(dir->side->fs.client, path);
        return text ? text : mem_strdup("null");
}

/* Returns a path as complaints show it, to be freed. */
static char *shown(const struct cp_dir *dir, const char *name)
{
        const struct cp_side *side = dir->side;
        _free_ char *path = cp_path(dir, name);
        if (cp_is_near(side))
                return TAKE(path);
        return mem_printf("%s:%s", side->name ? side->name : "", path);
}

void cp_complain(struct cp_dir *dir, const char *name, const struct farhand_error *error)
{
        _free_ char *path = shown(dir, name);
        cp_progress_clear(dir->cp);
        dir->cp->counts.failed++;
        fs_complain(&dir->side->fs, path, error);
}

void cp_complain_errno(struct cp_dir *dir, const char *name, int os_errno)
{
        _free_ char *path = shown(dir, name);
        cp_progress_clear(dir->cp);
        dir->cp->counts.failed++;
        fs_complain_errno(&dir->side->fs, path, os_errno);
}

void cp_complain_text(struct cp_dir *dir, const char *name, const char *text)
{
        struct farhand_error error = { .code = -EINVAL };
        (void)snprintf(error.text, sizeof(error.text), "%s", text);
        cp_complain(dir, name, &error);
}

void cp_tell_lack(struct cp_side *side)
{
        if (side->was_told || side->has_batch)
                return;
        side->was_told = true;
        remote_say(
                &side->fs.remote,
                "this server cannot keep all: modes, times and links are not copied, and nothing is resumed");
}
