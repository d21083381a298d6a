/* act: makes the requests that change files. */
#include "patch/act.h"

#include <errno.h>

#define PRIVATE_MODE 0600 /* of a file that does not have its content and its mode yet */
/* The bits of a mode that a file is given. The file may belong to another user than the file that had the mode, so it gets no set-user-ID
 * and set-group-ID bits: what one user has written must not run as another. */
#define GIVEN_MODE 0777u

static void take(void *arg, const struct answer *answer)
{
        struct act *act = arg;
        act->is_done = true;
        if (!act->failure)
                act->failure = answer->failure;
}

static bool has_control(const struct asks *s)
{
        return asks_has(s, "fsControlV1");
}

static void write_match(struct jsonw *w, enum act_match match, const struct file_state *state)
{
        char digest[DIGEST_TEXT_BYTES];
        jsonw_key(w, "ifMatch");
        jsonw_object(w);
        if (match == ACT_ABSENT) {
                jsonw_member_bool(w, "absent", true);
        } else if (state->has_digest) {
                digest_write(state->digest, digest);
                jsonw_member_str(w, "digest", digest);
        } else {
                jsonw_member_u64(w, "size", state->size);
                jsonw_member_i64(w, "modifiedAtMs", state->modified_ms);
        }
        jsonw_object_end(w);
}

void act_write(struct asks *s, struct act *act, const char *path, struct slice bytes, enum act_match match,
               const struct file_state *state, int mode)
{
        struct jsonw *w = ask_about(s, path);
        jsonw_key(w, "dataBase64");
        jsonw_base64(w, bytes);
        if (has_control(s)) {
                jsonw_member_bool(w, "followSymlinks", false);
                if (match != ACT_ANY)
                        write_match(w, match, state);
                if (mode >= 0)
                        jsonw_member_u64(w, "mode", (unsigned)mode & GIVEN_MODE);
        }
        ask_send(s, "fs/writeFile", false, take, act);
}

/* The paths of changes are real: a link that is found in one of them was put there meanwhile, and is not followed. */
static void refuse_links(const struct asks *s, struct jsonw *w)
{
        if (has_control(s))
                jsonw_member_bool(w, "followSymlinks", false);
}

void act_rename(struct asks *s, struct act *act, const char *from, const char *to, bool may_replace)
{
        struct jsonw *w = ask_begin(s);
        ask_path(s, "sourcePath", from);
        ask_path(s, "destinationPath", to);
        jsonw_member_bool(w, "replace", may_replace);
        refuse_links(s, w);
        ask_send(s, "fs/rename", false, take, act);
}

static struct jsonw *begin_remove(struct asks *s, const char *path, bool is_forced)
{
        struct jsonw *w = ask_about(s, path);
        jsonw_member_bool(w, "recursive", false);
        jsonw_member_bool(w, "force", is_forced);
        return w;
}

void act_remove(struct asks *s, struct act *act, const char *path, bool is_forced)
{
        (void)begin_remove(s, path, is_forced);
        ask_send(s, "fs/remove", false, take, act);
}

void act_remove_real(struct asks *s, struct act *act, const char *path, bool is_forced)
{
        refuse_links(s, begin_remove(s, path, is_forced));
        ask_send(s, "fs/remove", false, take, act);
}

void act_make_directory(struct asks *s, struct act *act, const char *path)
{
        struct jsonw *w = ask_about(s, path);
        jsonw_member_bool(w, "recursive", false);
        refuse_links(s, w);
        ask_send(s, "fs/createDirectory", false, take, act);
}

void act_set_mode(struct asks *s, struct act *act, const char *path, uint32_t mode)
{
        struct jsonw *w = ask_about(s, path);
        jsonw_member_u64(w, "mode", mode & GIVEN_MODE);
        jsonw_member_bool(w, "followSymlinks", false);
        ask_send(s, "fs/setMetadata", false, take, act);
}

void act_link(struct asks *s, struct act *act, const char *path, const char *target)
{
        struct jsonw *w = ask_about(s, path);
        jsonw_member_str(w, "target", target);
        refuse_links(s, w);
        ask_send(s, "fs/symlink", false, take, act);
}

/* Returns an error that came while a content was streamed, as a failure. */
static const struct failure *failure_of(struct arena *a, const struct err *err)
{
        struct failure *f = arena_new(a, struct failure);
        f->os_errno = err->os_errno;
        f->is_conflict = err->code == -ESTALE;
        f->is_lost = err->client_code == 0 && err->os_errno == 0 && !f->is_conflict;
        f->text = arena_dup(a, slice_from_str(err->text));
        return f;
}

int act_stream(struct asks *s, const char *path, const struct content *c, bool has_mode, uint32_t mode,
               const struct failure **ret_failure)
{
        struct act made = { 0 }, moded = { 0 };
        struct err err = ERR_INIT;
        /* Makes the file, empty and for its owner alone, before any of the content is in it. */
        act_write(s, &made, path, S(""), ACT_ABSENT, NULL, PRIVATE_MODE);
        asks_wait(s);
        if (made.failure) {
                *ret_failure = made.failure;
                return -EIO;
        }
        int r = content_store(s, c, path, &err);
        if (r < 0) {
                *ret_failure = failure_of(s->arena, &err);
                return r;
        }
        act_set_mode(s, &moded, path, has_mode ? mode : PRIVATE_MODE);
        asks_wait(s);
        *ret_failure = moded.failure;
        return moded.failure ? -EIO : 0;
}
