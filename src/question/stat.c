/* stat: asks what a file is, and waits for the answer. */
#include "question/question.h"

#include "client/error.h"

#include <errno.h>

#define STAT_FLAGS (FARHAND_STAT_DIGEST | FARHAND_STAT_NO_LINKS)

int farhand_stat(struct farhand *f, const char *path, struct farhand_metadata *ret,
                 struct farhand_error *ret_error)
{
        return farhand_stat_with(f, path, 0, ret, ret_error);
}

int farhand_stat_with(struct farhand *f, const char *path, unsigned flags, struct farhand_metadata *ret,
                      struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        struct farhand_metadata metadata;
        if (flags & ~(unsigned)STAT_FLAGS)
                return error_set(ret_error, -EINVAL, "farhand_stat_with does not know these flags");
        int r = flags & FARHAND_STAT_DIGEST
                        ? question_needs(f, "fsControlV1", "this server tells no digests", ret_error)
                        : 0;
        if (r < 0)
                return r;
        question_begin_file(&q, f, "fs/getMetadata", FARHAND_REPEAT);
        r = question_path(&q, "path", path, ret_error);
        if (flags & FARHAND_STAT_DIGEST)
                jsonw_member_bool(&q.w, "digest", true);
        if (flags & FARHAND_STAT_NO_LINKS)
                jsonw_member_bool(&q.w, "followSymlinks", false);
        r = r < 0 ? r : question_ask(&q, ret_error);
        if (r < 0)
                return r;
        client_metadata_read(&q.doc, question_root(&q), &metadata);
        /* A server that does not know followSymlinks has followed the link. */
        if ((flags & FARHAND_STAT_NO_LINKS) && metadata.is_symlink)
                return error_set(ret_error, -ELOOP, "the path is a symbolic link");
        *ret = metadata;
        return 0;
}
