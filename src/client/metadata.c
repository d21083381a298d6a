/* metadata: what a file is, as the server tells it: reads an answer, and asks without waiting. */
#include "client/client.h"

#include "client/error.h"
#include "client/member.h"

#include <errno.h>

static uint64_t number_of(const struct json_doc *doc, const struct json *object, struct slice key)
{
        uint64_t n = 0;
        return member_u64(doc, object, key, &n) ? n : 0;
}

static int64_t time_of(const struct json_doc *doc, const struct json *object, struct slice key)
{
        int64_t n = 0;
        return member_i64(doc, object, key, &n) ? n : 0;
}

void client_digest_read(struct arena *a, const struct json_doc *doc, const struct json *object,
                        char ret[FARHAND_DIGEST_BYTES])
{
        struct slice digest = member_string(a, doc, object, S("digest"));
        memset(ret, 0, FARHAND_DIGEST_BYTES);
        if (digest.p && digest.n == FARHAND_DIGEST_BYTES - 1 && slice_starts(digest, S("sha256:")) &&
            !slice_has_nul(digest))
                memcpy(ret, digest.p, digest.n);
}

void client_metadata_read(const struct json_doc *doc, const struct json *o, struct farhand_metadata *ret)
{
        _arena_ struct arena a = ARENA_INIT;
        *ret = (struct farhand_metadata){
                .is_directory = member_is_true(doc, o, S("isDirectory")),
                .is_file = member_is_true(doc, o, S("isFile")),
                .is_symlink = member_is_true(doc, o, S("isSymlink")),
                .has_mode = json_get(doc, o, S("mode")) != NULL,
                .size = number_of(doc, o, S("size")),
                .created_ms = time_of(doc, o, S("createdAtMs")),
                .modified_ms = time_of(doc, o, S("modifiedAtMs")),
                .mode = (uint32_t)number_of(doc, o, S("mode")) & 07777,
                .uid = (uint32_t)number_of(doc, o, S("uid")),
                .gid = (uint32_t)number_of(doc, o, S("gid")),
                .links = number_of(doc, o, S("links")),
        };
        client_digest_read(&a, doc, o, ret->digest);
}

static void tell_stat(struct farhand *f, const struct call *call, const struct rpc_message *m,
                      const struct farhand_error *error)
{
        struct farhand_metadata metadata;
        if (m)
                client_metadata_read(&m->doc, m->result, &metadata);
        ((farhand_on_stat)call->on_typed)(f, call->arg, m ? &metadata : NULL, error);
}

int client_stat_begin(struct farhand *f, const char *path, const char *sandbox, farhand_on_stat on_stat,
                      void *arg, struct farhand_error *ret_error)
{
        struct jsonw w;
        if (path[0] != '/')
                return error_set(ret_error, -EINVAL, "the path is not absolute");
        if (f->state == FARHAND_CONNECTING)
                return error_set(ret_error, -ENOTCONN, "the client is not connected yet");
        struct call *call = call_begin(f, "fs/getMetadata", &w, ret_error);
        if (!call)
                return f->state == FARHAND_FAILED ? f->failure.code : -EAGAIN;
        jsonw_object(&w);
        jsonw_key(&w, "path");
        client_path_write(f, &w, path);
        client_sandbox_write(&w, sandbox);
        jsonw_object_end(&w);
        call->tell = tell_stat;
        call->on_typed = (any_function)on_stat;
        return call_end(f, call, &w, FARHAND_REPEAT, NULL, arg, ret_error);
}

int farhand_stat_begin(struct farhand *f, const char *path, farhand_on_stat on_stat, void *arg,
                       struct farhand_error *ret_error)
{
        return client_stat_begin(f, path, f->sandbox, on_stat, arg, ret_error);
}
