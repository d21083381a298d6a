/* access: the `run` function of fs/checkAccess. */
#include "fsop/access.h"
#include "files/answer.h"
#include "files/files_internal.h"
#include "proto/fs.h"

static enum access_wish wish_of(enum fs_access access)
{
        switch (access) {
        case FS_ACCESS_READ:
                return ACCESS_TO_READ;
        case FS_ACCESS_REMOVE:
                return ACCESS_TO_REMOVE;
        case FS_ACCESS_WRITE:
                break;
        }
        return ACCESS_TO_WRITE;
}

static void write_answer(struct jsonw *w, const struct fs_access_wish *wish)
{
        struct err err = ERR_INIT;
        bool is_allowed = fsop_check_access(wish->path.p, wish_of(wish->access), &err) == 0;
        jsonw_object(w);
        jsonw_member_bool(w, "allowed", is_allowed);
        if (!is_allowed) {
                jsonw_member_i64(w, "errno", err.os_errno);
                jsonw_member_str(w, "errnoName", errno_name(err.os_errno));
                fs_write_denied(w, err.os_errno);
        }
        jsonw_object_end(w);
}

int run_check_access(struct file_request *r, struct jsonw *w, struct err *err)
{
        const struct fs_check_access *in = r->params;
        _buf_ struct buf text = BUF_INIT(in->list.n);
        struct json_doc doc;
        struct json_error bad;
        struct fs_access_wish *wishes = NULL;
        size_t count = 0;
        /* The list is copied, because an fs helper has it without the padding that the parser wants. */
        if (buf_append(&text, in->list) < 0 || json_parse(r->arena, buf_slice(&text), &doc, &bad) < 0)
                return fsop_refuse(err, "the list of paths cannot be read");
        int result = fs_access_wishes(r->arena, &doc, &wishes, &count, err);
        if (result < 0)
                return result;
        jsonw_object(w);
        jsonw_key(w, "results");
        jsonw_array(w);
        for (size_t i = 0; i < count && !w->has_overflowed; i++)
                write_answer(w, &wishes[i]);
        jsonw_array_end(w);
        jsonw_object_end(w);
        return 0;
}
