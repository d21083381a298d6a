/* endpoint: takes the URL of a server apart. */
#include "transport/endpoint.h"

#include "base/mem.h"
#include "base/server_url.h"

#include <errno.h>

int endpoint_parse(const char *text, struct endpoint *ret, struct err *err)
{
        static const enum endpoint_kind kinds[] = { [SERVER_URL_WS] = ENDPOINT_TCP,
                                                    [SERVER_URL_WSS] = ENDPOINT_TLS,
                                                    [SERVER_URL_UNIX] = ENDPOINT_UNIX,
                                                    [SERVER_URL_SSH] = ENDPOINT_SSH };
        struct server_url url;
        const char *why = server_url_parse(slice_from_str(text), &url);
        if (why && url.kind != SERVER_URL_SSH && url.authority.has_user)
                /* the error does not quote the URL, because a password in it must not be shown */
                return err_set(err, 0, -EINVAL,
                               "a URL with a user or a password is refused: give a token instead");
        if (why)
                return err_set(err, 0, -EINVAL, "`%s`: %s", text, why);
        *ret = (struct endpoint){
                .kind = kinds[url.kind],
                .user = url.kind == SERVER_URL_SSH && url.authority.has_user ? slice_dup(url.authority.user)
                                                                             : NULL,
                .host = url.kind == SERVER_URL_UNIX ? NULL : slice_dup(url.authority.host),
                .port = url.port,
                .path = url.path.n > 0 && url.path.p[0] == '/' ? slice_dup(url.path)
                                                               : mem_printf("/%.*s", SLICE(url.path)),
        };
        return 0;
}

void endpoint_release(struct endpoint *e)
{
        free(e->user);
        free(e->host);
        free(e->path);
        *e = (struct endpoint){ 0 };
}
