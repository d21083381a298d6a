/* permissions: profiles and additional permissions as texts. */
#include "approve/permissions.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/fatal.h"
#include "base/limits.h"
#include "proto/legacy.h"
#include "proto/profile.h"
#include "proto/profile_write.h"

#include <errno.h>
#include <string.h>

/* A text that is being read. json_parse reads a little behind the end of a text, so the text is copied into a buf. */
struct reading {
        struct arena arena;
        struct buf text;
        struct json_doc doc;
};

static void reading_release(struct reading *r)
{
        arena_release(&r->arena);
        buf_release(&r->text);
}
#define _reading_ CLEANUP(reading_release)
#define READING_INIT ((struct reading){ .text = BUF_INIT(LIMIT_APPROVAL_TEXT_BYTES) })

static int reading_begin(struct reading *r, const char *text, struct err *err)
{
        struct json_error bad;

        if (buf_append(&r->text, slice_from_str(text)) < 0)
                return err_set(err, 0, -EINVAL, "the text is longer than %d bytes",
                               LIMIT_APPROVAL_TEXT_BYTES);
        if (json_parse(&r->arena, buf_slice(&r->text), &r->doc, &bad) < 0)
                return err_set(err, 0, -EINVAL, "%s", bad.text);
        return 0;
}

static int take(struct jsonw *w, struct buf *out, char **ret, struct err *err)
{
        if (jsonw_end(w) < 0)
                return err_set(err, 0, -EINVAL, "the permissions are longer than %d bytes",
                               LIMIT_APPROVAL_TEXT_BYTES);
        *ret = buf_take(out);
        return 0;
}

static int write_profile(const struct profile *p, char **ret, struct err *err)
{
        _buf_ struct buf out = BUF_INIT(LIMIT_APPROVAL_TEXT_BYTES);
        struct jsonw w;

        jsonw_begin(&w, &out);
        profile_write(&w, p);
        return take(&w, &out, ret, err);
}

static int read_profile(struct reading *r, const char *text, struct profile *ret, struct err *err)
{
        int result = reading_begin(r, text, err);

        return result < 0 ? result : profile_decode_either(&r->arena, &r->doc, json_root(&r->doc), ret, err);
}

static int read_overlay(struct reading *r, const char *text, struct overlay *ret, struct err *err)
{
        struct overlay o;
        int result = reading_begin(r, text, err);

        if (result >= 0)
                result = profile_decode_overlay(&r->arena, &r->doc, json_root(&r->doc), &o, err);
        return result < 0 ? result : overlay_normalize(&r->arena, &o, NULL, NULL, ret, err);
}

int permissions_read(const char *profile, char **ret, bool *ret_is_open, struct err *err)
{
        _reading_ struct reading r = READING_INIT;
        struct profile p;
        int result = read_profile(&r, profile, &p, err);

        if (result >= 0)
                result = write_profile(&p, ret, err);
        if (result < 0)
                return result;
        *ret_is_open = !profile_must_enforce(&p);
        return 0;
}

int permissions_read_additional(const char *additional, char **ret, struct err *err)
{
        _reading_ struct reading r = READING_INIT;
        _buf_ struct buf out = BUF_INIT(LIMIT_APPROVAL_TEXT_BYTES);
        struct overlay o;
        struct jsonw w;
        int result = read_overlay(&r, additional, &o, err);

        if (result < 0)
                return result;
        if (!o.has_network && o.count == 0)
                return err_set(err, 0, -EINVAL,
                               "they ask for nothing: neither for the network nor for files");
        jsonw_begin(&w, &out);
        profile_write_overlay(&w, &o);
        return take(&w, &out, ret, err);
}

int permissions_add(const char *profile, const char *additional, char **ret, struct err *err)
{
        _reading_ struct reading r = READING_INIT, more = READING_INIT;
        struct profile p, sum;
        struct overlay o;
        int result = read_profile(&r, profile, &p, err);

        if (result >= 0)
                result = read_overlay(&more, additional, &o, err);
        if (result < 0)
                return result;
        overlay_apply(&r.arena, &p, &o, &sum);
        return write_profile(&sum, ret, err);
}

int permissions_of_policy(struct arena *a, const struct json_doc *d, const struct json *policy,
                          const char *cwd, char **ret, const char *const **ret_roots, struct err *err)
{
        const struct slice root = slice_from_str(cwd);
        const struct place place = { .cwd = root, .roots = &root, .root_count = 1 };
        const struct policy_host host = { .place = &place };
        struct sandbox_policy p;
        struct profile profile;
        int r = sandbox_policy_decode(a, d, policy, &p, err);

        if (r < 0)
                return r;
        sandbox_policy_to_profile(a, &p, &host, &profile);
        const char **roots = arena_zalloc(a, (p.writable_root_count + 1) * sizeof(*roots));
        for (size_t i = 0; i < p.writable_root_count; i++)
                roots[i] = arena_dup(a, p.writable_roots[i]);
        r = write_profile(&profile, ret, err);
        if (r == 0)
                *ret_roots = roots;
        return r;
}

/* ---- usual permissions, and the object that carries permissions ---- */

char *permissions_usual(bool may_write, bool has_network)
{
        struct profile_entry entries[] = {
                { .kind = TARGET_SPECIAL, .special = SPECIAL_ROOT, .access = ACCESS_READ },
                { .kind = TARGET_SPECIAL, .special = SPECIAL_PROJECT_ROOTS, .access = ACCESS_WRITE },
                { .kind = TARGET_SPECIAL, .special = SPECIAL_SLASH_TMP, .access = ACCESS_WRITE },
                { .kind = TARGET_SPECIAL, .special = SPECIAL_TMPDIR, .access = ACCESS_WRITE },
        };
        struct profile p = { .kind = PROFILE_MANAGED,
                             .has_network = has_network,
                             .entries = entries,
                             .count = may_write ? ARRAY_LEN(entries) : 1 };
        struct err err = ERR_INIT;
        char *text = NULL;

        must(write_profile(&p, &text, &err) == 0); /* this profile has a few hundred bytes, and always fits */
        return text;
}

char *permissions_sandbox(const char *permissions, const char *cwd, const char *const *roots)
{
        const char *const only[] = { cwd, NULL };
        _buf_ struct buf out = BUF_INIT(SIZE_MAX / 2); /* both texts are bounded where they are read */
        struct jsonw w;

        jsonw_begin(&w, &out);
        jsonw_object(&w);
        jsonw_key(&w, "permissions");
        jsonw_raw(&w, slice_from_str(permissions));
        if (cwd) {
                jsonw_key(&w, "cwd");
                jsonw_raw(&w, slice_from_str(cwd));
                jsonw_key(&w, "workspaceRoots");
                jsonw_array(&w);
                for (const char *const *root = roots ? roots : only; *root; root++)
                        jsonw_raw(&w, slice_from_str(*root));
                jsonw_array_end(&w);
        }
        jsonw_member_str(&w, "windowsSandboxLevel", "disabled");
        jsonw_object_end(&w);
        must(jsonw_end(&w) == 0);
        return buf_take(&out);
}
