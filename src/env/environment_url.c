/* environment_url: checks the URL of an environment. */
#include "env/environment_url.h"

#include "base/authority.h"
#include "base/printable.h"
#include "base/url_text.h"

#include <errno.h>
#include <sys/un.h>

/* The longest path that a unix socket can have. */
#define UNIX_PATH_MAX (sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1)

static int invalid(struct arena *a, struct slice url, const char *why, struct err *err)
{
        return err_set(err, 0, -EINVAL, "environment url `%s` is invalid: %s", printable_text(a, url), why);
}

static struct slice without_prefix(struct slice url, struct slice prefix)
{
        return url_skip(url, prefix.n);
}

static int ws_check(struct arena *a, struct slice url, struct err *err)
{
        struct slice rest = without_prefix(url, slice_starts(url, S("ws://")) ? S("ws://") : S("wss://"));
        struct authority authority;
        const char *why = authority_parse(authority_of(rest), &authority);

        if (authority
                    .has_user) /* the error does not quote the URL, because a password in it must not be shown */
                return err_set(err, 0, -EINVAL,
                               "environment url is invalid: it has a user or a password; use token_file or "
                               "token_env");
        return why ? invalid(a, url, why, err) : 0;
}

static int unix_check(struct arena *a, struct slice url, struct err *err)
{
        struct slice path = without_prefix(url, S("unix:"));

        if (path.n == 0 || path.p[0] != '/')
                return invalid(a, url, "expected unix:/ABSOLUTE/PATH", err);
        if (path.n > UNIX_PATH_MAX)
                return invalid(a, url, "the path of a unix socket has at most 107 bytes", err);
        return 0;
}

static int ssh_check(struct arena *a, struct slice url, struct err *err)
{
        struct authority authority;
        const char *why = authority_parse_ssh(url, &authority);

        return why ? invalid(a, url, why, err) : 0;
}

int environment_url_check(struct arena *a, struct slice text, const char **ret,
                          enum environment_kind *ret_kind, struct err *err)
{
        struct slice url = slice_trim(text);
        bool is_ssh = slice_starts(url, S("ssh://")), is_unix = slice_starts(url, S("unix:"));

        if (url.n == 0)
                return err_set(err, 0, -EINVAL, "environment url cannot be empty");
        if (!is_ssh && !is_unix && !slice_starts(url, S("ws://")) && !slice_starts(url, S("wss://")))
                return err_set(err, 0, -EINVAL, "environment url `%s` must use ws:// or wss://",
                               printable_text(a, url));
        for (size_t i = 0; i < url.n; i++)
                if (url.p[i] <= ' ' ||
                    url.p[i] > '~') /* where char is signed, bytes above 127 are below ' ' */
                        return invalid(a, url, "it has characters that are not printable ASCII", err);

        int r = is_ssh ? ssh_check(a, url, err) : is_unix ? unix_check(a, url, err) : ws_check(a, url, err);
        if (r < 0)
                return r;
        *ret = arena_dup(a, url);
        *ret_kind = is_ssh ? ENVIRONMENT_SSH : ENVIRONMENT_URL;
        return 0;
}
