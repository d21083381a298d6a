/* detached: keeps the ids of sessions in files, and finds them again. */
#include "cli/detached.h"

#include "base/fd.h"
#include "cli/background.h"
#include "wire/jsonw.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define KEPT_SECONDS 86400
#define ID_BYTES 36

const char *detached_id(const char *session_id)
{
        const char *dash = strchr(session_id, '-');
        return dash ? dash + 1 : session_id;
}

bool detached_is_possible(const struct remote *r, const struct farhand *f)
{
        return (r->environment->kind == ENVIRONMENT_URL || r->environment->kind == ENVIRONMENT_SSH) &&
               farhand_session_id(f)[0] != '\0';
}

/* Returns whether a text has the form of a session id. Other names in the directory, or from a server, are ignored. */
static bool is_id(const char *text)
{
        return strlen(text) == ID_BYTES && strspn(text, "0123456789abcdef-") == ID_BYTES;
}

static bool begins_with(const char *session_id, const char *id)
{
        size_t n = strlen(id);
        return n > 0 && (strncmp(session_id, id, n) == 0 || strncmp(detached_id(session_id), id, n) == 0);
}

static int open_kept(struct remote *r)
{
        struct err err = ERR_INIT;
        int fd = background_directory(&r->arena, "sessions", &err);
        if (fd < 0)
                remote_say(r, "%s", err.text);
        return fd;
}

void detached_keep(const struct remote *remote, const char *session_id)
{
        struct remote *r = (struct remote *)(uintptr_t)remote;
        struct stat st;
        _close_ int fd = is_id(session_id) ? open_kept(r) : -1;
        if (fd < 0)
                return;
        _close_ int file = openat(fd, session_id, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file < 0)
                remote_say(r, "the id is not kept: %s", errno_text(errno));
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
        for (struct dirent *entry; dir && (entry = readdir(dir));)
                if (is_id(entry->d_name) && fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                    time(NULL) - st.st_mtime > KEPT_SECONDS)
                        (void)unlinkat(fd, entry->d_name, 0);
        if (dir)
                closedir(dir);
}

const char *detached_find(struct remote *r, const char *id)
{
        const char *found = NULL;
        if (is_id(id))
                return id;
        int fd = open_kept(r);
        DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
        if (!dir)
                return NULL;
        for (struct dirent *entry; (entry = readdir(dir));) {
                if (!is_id(entry->d_name) || !begins_with(entry->d_name, id))
                        continue;
                if (found) {
                        remote_say(r, "several ids begin with %s", id);
                        closedir(dir);
                        return NULL;
                }
                found = arena_dup(&r->arena, slice_from_str(entry->d_name));
        }
        closedir(dir);
        if (!found)
                remote_say(r, "no id that begins with %s was made here; another machine's can be given whole",
                           id);
        return found;
}

const char *detached_params(struct arena *a, const struct detached *d, const char *more)
{
        _buf_ struct buf text = BUF_INIT(65536);
        struct jsonw w;
        jsonw_begin(&w, &text);
        jsonw_object(&w);
        jsonw_member_str(&w, "processId", d->process_id);
        jsonw_member_str(&w, "sessionId", d->session_id);
        if (jsonw_end(&w) < 0 || buf_printf(&text, "%s}", more) < 0)
                return "{}";
        return arena_dup(a, buf_slice(&text));
}

int detached_process(struct answer *a, const struct remote *r, struct farhand *f, const char *id,
                     struct detached *ret)
{
        int result = answer_get(a, r, f, "process/list", "{\"scope\":\"server\"}");
        if (result < 0)
                return result;
        const struct json *list = json_get(&a->doc, a->root, S("processes"));
        *ret = (struct detached){ 0 };
        for (const struct json *it = list && list->type == JSON_ARRAY ? list + 1 : NULL;
             it && it < a->doc.tokens + list->end; it = a->doc.tokens + it->end) {
                struct detached one = { answer_text(a, it, "sessionId"), answer_text(a, it, "processId"),
                                        answer_is_true(a, it, "running") };
                /* The person may type more of the id than the server shows. */
                if (!begins_with(one.session_id, id) && !begins_with(id, detached_id(one.session_id)))
                        continue;
                if (ret->session_id && strcmp(ret->session_id, one.session_id) != 0) {
                        remote_say(r, "several sessions have ids that begin with %s", id);
                        return -EINVAL;
                }
                if (!ret->session_id || one.is_running || !ret->is_running)
                        *ret = one;
        }
        if (ret->session_id)
                return 0;
        remote_say(r, "there is no command %s", id);
        return -ESRCH;
}
