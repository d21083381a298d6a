/* environment_url: checks the URL of an environment. */
#include "env/environment_url.h"

#include "base/printable.h"
#include "base/server_url.h"

#include <errno.h>

int environment_url_check(struct arena *a, struct slice text, const char **ret,
                          enum environment_kind *ret_kind, struct err *err)
{
        struct slice trimmed = slice_trim(text);
        struct server_url url;

        if (trimmed.n == 0)
                return err_set(err, 0, -EINVAL, "environment url cannot be empty");
        const char *why = server_url_parse(trimmed, &url);
        if (url.kind == SERVER_URL_OTHER)
                return err_set(err, 0, -EINVAL, "environment url `%s` must use ws:// or wss://",
                               printable_text(a, trimmed));
        if (why && url.kind != SERVER_URL_SSH && url.authority.has_user)
                /* the error does not quote the URL, because a password in it must not be shown */
                return err_set(err, 0, -EINVAL, "environment url is invalid: %s; use token_file or token_env",
                               why);
        if (why)
                return err_set(err, 0, -EINVAL, "environment url `%s` is invalid: %s",
                               printable_text(a, trimmed), why);
        *ret = arena_dup(a, trimmed);
        *ret_kind = url.kind == SERVER_URL_SSH ? ENVIRONMENT_SSH : ENVIRONMENT_URL;
        return 0;
}
