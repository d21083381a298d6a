/* file_sandbox: the permission profile that the file requests of a client carry.
 *
 * The text is checked and copied when the program gives it. A stream and a watch copy it once more when they begin, because they
 * ask again after a lost connection: what was begun with a profile must not go on with another, or without any.
 */
#include "client/client.h"

#include "base/mem.h"
#include "client/error.h"

#include <errno.h>

int farhand_use_sandbox(struct farhand *f, const char *sandbox_json, struct farhand_error *ret_error)
{
        if (!sandbox_json) {
                free(f->sandbox);
                f->sandbox = NULL;
                return 0;
        }
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(SANDBOX_MAX); /* the JSON parser needs the padding of a buf */
        struct json_doc doc;
        struct json_error bad;
        if (buf_append(&text, slice_from_str(sandbox_json)) < 0)
                return error_set(ret_error, -E2BIG, "a sandbox has at most %zu bytes", SANDBOX_MAX);
        if (json_parse(&a, buf_slice(&text), &doc, &bad) < 0)
                return error_set(ret_error, -EINVAL, "the sandbox is not JSON: %s", bad.text);
        if (json_root(&doc)->type != JSON_OBJECT)
                return error_set(ret_error, -EINVAL, "the sandbox is not a JSON object");
        free(f->sandbox);
        f->sandbox = buf_take(&text);
        return 0;
}

void client_sandbox_write(struct jsonw *w, const char *sandbox)
{
        if (!sandbox)
                return;
        jsonw_key(w, "sandbox");
        jsonw_raw(w, slice_from_str(sandbox));
}
