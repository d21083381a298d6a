/* auth: reads the secrets of the configuration, and checks the Authorization header of an upgrade against them.
 *
 * The texts of errors are those of the reference server, because clients and operators know them.
 *
 * Secret files are read at start and at a SIGHUP. Only the digest of a capability token is kept; every other copy of a secret is
 * wiped after use.
 */
#include "conn/auth.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/base16.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_SKEW_SECONDS 30
#define SHARED_SECRET_MIN 32
#define DIGEST_HEX_CHARS (SHA256_DIGEST_SIZE * 2)

#define INVALID_HEADER "invalid authorization header"

/* The content of a secret file. It is wiped at the end of its scope, so that no secret stays on the stack. */
struct secret {
        char bytes[JWT_SECRET_MAX + 1]; /* one more than allowed, to notice a file that is too long */
        struct slice text;              /* `bytes` without the blanks around them */
};

static void secret_wipe(struct secret *s)
{
        explicit_bzero(s, sizeof(*s));
}
#define _secret_ CLEANUP(secret_wipe)

void auth_options_release(struct auth_options *o)
{
        free(o->mode);
        free(o->token_file);
        free(o->admin_token_file);
        free(o->token_sha256);
        free(o->shared_secret_file);
        free(o->issuer);
        free(o->audience);
        *o = (struct auth_options){ 0 };
}

/* Makes a path absolute, for error messages. */
static char *path_absolute(const char *path)
{
        _free_ char *cwd = path[0] == '/' ? NULL : getcwd(NULL, 0);

        return cwd ? mem_printf("%s/%s", cwd, path) : mem_strdup(path);
}

/* Returns whether a directory above the file can be entered by its owner only: then the mode of the file does not matter. */
static bool is_hidden(const char *path)
{
        _free_ char *dir = realpath(path, NULL);
        char *slash;

        while (dir && (slash = strrchr(dir, '/')) && slash != dir) {
                struct stat st;

                *slash = '\0';
                if (stat(dir, &st) == 0 && (st.st_mode & (S_IXGRP | S_IXOTH)) == 0)
                        return true;
        }
        return false;
}

static ssize_t read_up_to(int fd, char *out, size_t max)
{
        size_t n = 0;

        while (n < max) {
                ssize_t got = read(fd, out + n, max - n);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return -errno;
                if (got == 0)
                        break;
                n += (size_t)got;
        }
        return (ssize_t)n;
}

static int read_failed(const char *path, int code, struct err *err)
{
        return err_set(err, 0, code, "failed to read websocket auth secret %s: %s (os error %d)", path,
                       errno_text(code), -code);
}

/* Reads blocking on purpose: the secret may come through a pipe, from a shell's <(command). */
static int secret_read(struct secret *s, const char *path, struct err *err)
{
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
                return read_failed(path, -errno, err);

        ssize_t n = read_up_to(fd, s->bytes, sizeof(s->bytes));
        if (n < 0)
                return read_failed(path, (int)n, err);
        if (n > JWT_SECRET_MAX)
                return err_set(err, 0, -EFBIG, "websocket auth secret %s must be at most %d bytes", path,
                               JWT_SECRET_MAX);

        s->text = slice_trim(slice_from(s->bytes, (size_t)n));
        if (!utf8_is_valid(s->text))
                return err_set(err, 0, -EILSEQ,
                               "failed to read websocket auth secret %s: stream did not contain valid UTF-8",
                               path);
        if (s->text.n == 0)
                return err_set(err, 0, -EINVAL, "websocket auth secret %s must not be empty", path);

        struct stat st;
        if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & (S_IRGRP | S_IROTH)) &&
            !is_hidden(path))
                log_warn("websocket auth secret is readable by others", "file=%s mode=%04o",
                         log_quote(slice_from_str(path)), (unsigned)(st.st_mode & 07777));
        return 0;
}

static int digest_parse(struct slice hex, uint8_t ret[static SHA256_DIGEST_SIZE], struct err *err)
{
        struct base16_decode_ctx ctx;
        size_t n = SHA256_DIGEST_SIZE;

        /* nettle skips blanks between the digits; then there are fewer than 64 digits, which `n` shows. */
        base16_decode_init(&ctx);
        if (hex.n != DIGEST_HEX_CHARS || !base16_decode_update(&ctx, &n, ret, hex.n, hex.p) ||
            !base16_decode_final(&ctx) || n != SHA256_DIGEST_SIZE)
                return err_set(err, 0, -EINVAL,
                               "--ws-token-sha256 must be a 64-character hex SHA-256 digest");
        return 0;
}

static int token_file_read(struct tokens *t, const char *file, struct err *err)
{
        _secret_ struct secret s = { 0 };
        _free_ char *path = path_absolute(file);
        int r = secret_read(&s, path, err);
        if (r < 0)
                return r;
        r = tokens_add_lines(t, s.text);
        if (r < 0)
                return err_set(err, 0, r, "websocket auth secret %s must have at most %d tokens", path,
                               TOKENS_MAX);
        return 0;
}

static int init_capability_token(struct auth *a, const struct auth_options *o, struct err *err)
{
        if (o->shared_secret_file || o->issuer || o->audience || o->has_max_clock_skew_seconds)
                return err_set(err, 0, -EINVAL,
                               "`--ws-shared-secret-file`, `--ws-issuer`, `--ws-audience`, and "
                               "`--ws-max-clock-skew-seconds` require `--ws-auth signed-bearer-token`");
        if (o->token_file && o->token_sha256)
                return err_set(err, 0, -EINVAL,
                               "`--ws-token-file` and `--ws-token-sha256` are mutually exclusive");
        if (!o->token_file && !o->token_sha256)
                return err_set(err, 0, -EINVAL,
                               "`--ws-token-file` or `--ws-token-sha256` is required when `--ws-auth "
                               "capability-token` is set");

        int r = 0;
        if (o->token_sha256) {
                uint8_t digest[SHA256_DIGEST_SIZE];
                r = digest_parse(slice_trim(slice_from_str(o->token_sha256)), digest, err);
                if (r == 0)
                        r = tokens_add_digest(&a->tokens, digest);
        } else {
                r = token_file_read(&a->tokens, o->token_file, err);
        }
        if (r == 0 && o->admin_token_file)
                r = token_file_read(&a->admin_tokens, o->admin_token_file, err);
        if (r < 0)
                return r;
        a->mode = AUTH_CAPABILITY_TOKEN;
        return 0;
}

/* Copies the value of an option. A blank value is refused: taken as "no check", it would disable a check that the operator
 * expects. */
static int name_take(const char *value, const char *flag, char **ret, struct err *err)
{
        struct slice name = slice_trim(slice_from_str(value));

        if (value && name.n == 0)
                return err_set(err, 0, -EINVAL, "`%s` must not be empty", flag);
        *ret = value ? slice_dup(name) : NULL;
        return 0;
}

static int init_signed_bearer_token(struct auth *a, const struct auth_options *o, struct err *err)
{
        if (o->admin_token_file)
                return err_set(
                        err, 0, -EINVAL,
                        "`--ws-admin-token-file` requires `--ws-auth capability-token`; a signed token is "
                        "an admin's by its claim `admin`");
        if (o->token_file || o->token_sha256)
                return err_set(err, 0, -EINVAL,
                               "`--ws-token-file` and `--ws-token-sha256` require `--ws-auth "
                               "capability-token`, not `signed-bearer-token`");
        if (!o->shared_secret_file)
                return err_set(err, 0, -EINVAL,
                               "`--ws-shared-secret-file` is required when `--ws-auth "
                               "signed-bearer-token` is set");
        if (o->has_max_clock_skew_seconds && o->max_clock_skew_seconds > INT64_MAX)
                return err_set(err, 0, -ERANGE,
                               "websocket auth clock skew must fit in a signed 64-bit integer");
        a->jwt.skew_seconds =
                o->has_max_clock_skew_seconds ? (int64_t)o->max_clock_skew_seconds : DEFAULT_SKEW_SECONDS;

        int r = name_take(o->issuer, "--ws-issuer", &a->jwt.issuer, err);
        if (r >= 0)
                r = name_take(o->audience, "--ws-audience", &a->jwt.audience, err);
        if (r < 0)
                return r;

        _secret_ struct secret s = { 0 };
        _free_ char *path = path_absolute(o->shared_secret_file);
        r = secret_read(&s, path, err);
        if (r < 0)
                return r;
        if (s.text.n < SHARED_SECRET_MIN)
                return err_set(err, 0, -EINVAL, "signed websocket bearer secret %s must be at least %d bytes",
                               path, SHARED_SECRET_MIN);
        memcpy(a->jwt.secret, s.text.p, s.text.n);
        a->jwt.secret_len = s.text.n;
        a->mode = AUTH_SIGNED_BEARER_TOKEN;
        return 0;
}

static int init_by_mode(struct auth *a, const struct auth_options *o, struct err *err)
{
        if (!o->mode) {
                if (o->token_file || o->admin_token_file || o->token_sha256 || o->shared_secret_file ||
                    o->issuer || o->audience || o->has_max_clock_skew_seconds)
                        return err_set(err, 0, -EINVAL,
                                       "websocket auth flags require `--ws-auth capability-token` or "
                                       "`--ws-auth signed-bearer-token`");
                return 0;
        }
        if (strcmp(o->mode, "capability-token") == 0)
                return init_capability_token(a, o, err);
        if (strcmp(o->mode, "signed-bearer-token") == 0)
                return init_signed_bearer_token(a, o, err);
        return err_set(err, 0, -EINVAL, "`--ws-auth` must be `capability-token` or `signed-bearer-token`");
}

int auth_init(struct auth *a, const struct auth_options *o, struct err *err)
{
        *a = (struct auth){ .mode = AUTH_NONE };
        int r = init_by_mode(a, o, err);
        if (r < 0)
                auth_release(a);
        return r;
}

void auth_release(struct auth *a)
{
        free(a->jwt.issuer);
        free(a->jwt.audience);
        explicit_bzero(a, sizeof(*a));
}

/* Finds the token of the only Authorization header. Returns NULL, or the text of the refusal. */
static const char *bearer_find(const struct http_request *r, struct slice *ret_token)
{
        size_t count = http_header_count(r, S("authorization"));
        if (count == 0)
                return "missing websocket bearer token";
        if (count > 1)
                return INVALID_HEADER; /* a proxy in front may have checked another of the headers */

        struct slice rest = http_header_find(r, S("authorization"));
        for (size_t i = 0; i < rest.n; i++) {
                uint8_t c = (uint8_t)rest.p[i];
                if (c != '\t' && (c < ' ' || c > '~'))
                        return INVALID_HEADER;
        }
        struct slice scheme = slice_split(&rest, ' '), token = slice_trim(rest);
        if (!slice_eq_nocase(scheme, S("bearer")) || token.n == 0)
                return INVALID_HEADER;
        *ret_token = token;
        return NULL;
}

/* Checks a capability token. Returns NULL or the refusal. A single token is shared by all clients, so it identifies none of them.
 * When there are several tokens, each identifies one client. */
static const char *capability_check(const struct auth *a, struct slice token, struct identity *ret)
{
        uint8_t digest[SHA256_DIGEST_SIZE];

        token_digest(token, digest);
        bool is_client = tokens_has(&a->tokens, digest), is_admin = tokens_has(&a->admin_tokens, digest);
        if (!is_client && !is_admin)
                return "invalid websocket bearer token";
        *ret = identity_of_token(digest);
        ret->is_admin = is_admin;
        ret->is_personal = a->tokens.count > 1;
        return NULL;
}

const char *auth_check(const struct auth *a, const struct http_request *r, int64_t now_unix_seconds,
                       struct identity *ret)
{
        if (a->mode == AUTH_NONE) {
                *ret = (struct identity){ 0 };
                return NULL;
        }

        struct slice token;
        const char *refusal = bearer_find(r, &token);
        if (refusal)
                return refusal;
        return a->mode == AUTH_CAPABILITY_TOKEN ? capability_check(a, token, ret)
                                                : jwt_check(&a->jwt, token, now_unix_seconds, ret);
}
