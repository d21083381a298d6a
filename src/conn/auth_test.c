/* auth_test: tests which headers pass, with which texts others are refused, and which options are refused at start. */
#include "conn/auth.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOW INT64_C(1800000000)
#define SECRET "0123456789abcdef0123456789abcdef"

#define MISSING "missing websocket bearer token"
#define BAD_HEADER "invalid authorization header"
#define BAD_TOKEN "invalid websocket bearer token"
#define BAD_JWT "invalid websocket jwt"
#define ISSUER "websocket jwt issuer mismatch"
#define AUDIENCE "websocket jwt audience mismatch"

/* A file in a directory of its own; file_remove removes both. */
struct file {
        char dir[32];
        char path[64];
};

static struct file file_make(struct slice content)
{
        struct file f = { .dir = "/tmp/farhand-unit-XXXXXX" };

        assert_non_null(mkdtemp(f.dir));
        (void)snprintf(f.path, sizeof(f.path), "%s/secret", f.dir);
        _close_ int fd = open(f.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        ok(fd >= 0);
        eq_int(fd_write_all(fd, content), 0);
        return f;
}

static void file_remove(struct file *f)
{
        (void)unlink(f->path);
        (void)rmdir(f->dir);
}
#define _file_ CLEANUP(file_remove)

static void auth_cleanup(struct auth *a)
{
        auth_release(a);
}
#define _auth_ CLEANUP(auth_cleanup)

/* Casts const away: in these tests the options do not own their strings. */
static char *text(const char *s)
{
        return (char *)(uintptr_t)s;
}

static void auth_make(struct auth *a, const struct auth_options *o)
{
        struct err err = ERR_INIT;

        if (auth_init(a, o, &err) < 0)
                fail_msg("%s", err.text);
}

static void capability_make(struct auth *a, struct slice token)
{
        _file_ struct file f = file_make(token);

        auth_make(a, &(struct auth_options){ .mode = text("capability-token"), .token_file = f.path });
}

static void signed_make(struct auth *a, const char *issuer, const char *audience)
{
        _file_ struct file f = file_make(S(SECRET "\n"));

        auth_make(a, &(struct auth_options){ .mode = text("signed-bearer-token"),
                                             .shared_secret_file = f.path,
                                             .issuer = text(issuer),
                                             .audience = text(audience) });
}

static struct identity last_identity; /* the identity of the last request that passed */

/* Checks a request with this Authorization header. The value is copied to memory of exactly its size, so that sanitizers notice
 * a read past its end. Returns the refusal, or "passes". */
static const char *refusal_of(const struct auth *a, struct slice value)
{
        _free_ char *copy = mem_alloc(MAX(value.n, 1u));
        struct http_request r = { .header_count = 2 };

        memcpy(copy, value.p, value.n);
        r.headers[0] = (struct http_header){ S("Host"), S("x") };
        r.headers[1] = (struct http_header){ S("AUTHORIZATION"), slice_from(copy, value.n) };
        const char *refusal = auth_check(a, &r, NOW, &last_identity);
        return refusal ? refusal : "passes";
}

static const char *init_error(const struct auth_options *o)
{
        static struct err err;
        struct auth a;

        err = ERR_INIT;
        ok(auth_init(&a, o, &err) < 0);
        ok(err.code < 0);
        eq_int(a.mode, AUTH_NONE);
        eq_u64(a.jwt.secret_len, 0);
        return err.text;
}

TEST(without_a_mode_everybody_passes)
{
        _auth_ struct auth a;
        struct http_request r = { 0 };

        auth_make(&a, &(struct auth_options){ 0 });
        eq_int(a.mode, AUTH_NONE);
        ok(!auth_check(&a, &r, NOW, &last_identity));
        eq_str(refusal_of(&a, S("Basic x")), "passes");
}

/* --- capability tokens and the header --- */

static const struct {
        struct slice value;
        const char *expect;
} capability_table[] = {
        { S("Bearer correct-horse"), "passes" },
        { S("bearer correct-horse"), "passes" },
        { S("BEARER  \t correct-horse \t "), "passes" },
        { S("Bearer correct-hors"), BAD_TOKEN },
        { S("Bearer correct-horse2"), BAD_TOKEN },
        { S("Bearer CORRECT-HORSE"), BAD_TOKEN },
        { S("Bearer correct horse"), BAD_TOKEN },
        { S("Bearer a.b.c"), BAD_TOKEN },
        { S(""), BAD_HEADER },
        { S("Bearer"), BAD_HEADER },
        { S("Bearer "), BAD_HEADER },
        { S("Bearer \t "), BAD_HEADER },
        { S("correct-horse"), BAD_HEADER },
        { S("Bearercorrect-horse"), BAD_HEADER },
        { S("Bearer\tcorrect-horse"), BAD_HEADER },
        { S(" Bearer correct-horse"), BAD_HEADER },
        { S("Basic correct-horse"), BAD_HEADER },
        { S("Bearer: correct-horse"), BAD_HEADER },
        { S("Bearer \xff"
            "correct-horse"),
          BAD_HEADER },
        { S("Bearer correct-horse\0"), BAD_HEADER },
        { S("Bearer correct-horse\x7f"), BAD_HEADER },
        { S("Bearer correct-horse\n"), BAD_HEADER },
};

TEST(a_capability_token_passes_and_other_headers_get_the_reason)
{
        _auth_ struct auth a;

        capability_make(&a, S(" correct-horse\r\n"));
        for (size_t i = 0; i < ARRAY_LEN(capability_table); i++)
                eq_str(refusal_of(&a, capability_table[i].value), capability_table[i].expect);
}

TEST(a_digest_stands_for_the_token_in_either_case)
{
        uint8_t digest[SHA256_DIGEST_SIZE];
        struct sha256_ctx ctx;
        char hex[2][80];

        sha256_init(&ctx);
        sha256_update(&ctx, 6, (const uint8_t *)"sesame");
        sha256_digest(&ctx, sizeof(digest), digest);
        for (size_t i = 0; i < sizeof(digest); i++) {
                (void)snprintf(hex[0] + 2 * i, 3, "%02x", digest[i]);
                (void)snprintf(hex[1] + 2 * i, 3, "%02X", digest[i]);
        }
        for (size_t i = 0; i < 2; i++) {
                _auth_ struct auth a;

                auth_make(&a,
                          &(struct auth_options){ .mode = text("capability-token"), .token_sha256 = hex[i] });
                eq_str(refusal_of(&a, S("Bearer sesame")), "passes");
                eq_str(refusal_of(&a, S("Bearer Sesame")), BAD_TOKEN);
        }
}

static struct identity identity_of(const struct auth *a, struct slice value)
{
        eq_str(refusal_of(a, value), "passes");
        return last_identity;
}

static bool is_same(const struct identity *a, const struct identity *b)
{
        return memcmp(a->owner, b->owner, sizeof(a->owner)) == 0;
}

TEST(each_line_is_a_token_and_an_identity_of_its_own)
{
        _auth_ struct auth one, two;

        capability_make(&one, S("ann bob\n"));
        struct identity shared = identity_of(&one, S("Bearer ann bob"));
        ok(!shared.is_personal && !shared.is_admin);

        capability_make(&two, S("ann\r\n\n  bob\nann\n"));
        struct identity ann = identity_of(&two, S("Bearer ann")), bob = identity_of(&two, S("Bearer bob"));
        eq_u64(two.tokens.count, 2);
        eq_str(refusal_of(&two, S("Bearer ann bob")), BAD_TOKEN);
        ok(ann.is_personal && !ann.is_admin && bob.is_personal && !bob.is_admin);
        ok(!is_same(&ann, &bob) && !is_same(&ann, &shared));
        ok(identity_may_see(&ann, ann.owner) && !identity_may_see(&ann, bob.owner));
}

TEST(the_line_of_an_admin_file_sees_all)
{
        _file_ struct file clients = file_make(S("ann\n")), admins = file_make(S("root\nann2\n"));
        _auth_ struct auth a;

        auth_make(&a, &(struct auth_options){ .mode = text("capability-token"),
                                              .token_file = clients.path,
                                              .admin_token_file = admins.path });
        struct identity ann = identity_of(&a, S("Bearer ann")), root = identity_of(&a, S("Bearer root"));
        ok(!ann.is_admin && root.is_admin);
        ok(!ann.is_personal); /* all clients except admins share this token */
        ok(identity_may_see(&root, ann.owner) && !identity_may_see(&ann, root.owner));
}

TEST(there_are_so_many_tokens_and_no_more)
{
        struct tokens t = { 0 };
        uint8_t digest[TOKEN_DIGEST_BYTES] = { 0 };

        for (int i = 0; i < TOKENS_MAX; i++) {
                digest[0] = (uint8_t)i;
                eq_int(tokens_add_digest(&t, digest), 0);
        }
        eq_int(tokens_add_digest(&t, digest), 0); /* the set has this token already */
        digest[1] = 1;
        ok(!tokens_has(&t, digest));
        eq_int(tokens_add_digest(&t, digest), -E2BIG);
        eq_u64(t.count, TOKENS_MAX);
}

TEST(no_header_is_another_answer_than_a_bad_one)
{
        _auth_ struct auth a;
        struct http_request r = { .header_count = 1 };

        capability_make(&a, S("x"));
        r.headers[0] = (struct http_header){ S("Proxy-Authorization"), S("Bearer x") };
        eq_str(auth_check(&a, &r, NOW, &last_identity), MISSING);
}

TEST(two_authorization_headers_are_refused_even_when_both_are_good)
{
        _auth_ struct auth a;
        struct http_request r = { .header_count = 2 };

        capability_make(&a, S("x"));
        r.headers[0] = (struct http_header){ S("Authorization"), S("Bearer x") };
        r.headers[1] = (struct http_header){ S("authorization"), S("Bearer x") };
        eq_str(auth_check(&a, &r, NOW, &last_identity), BAD_HEADER);
        r.header_count = 1;
        ok(!auth_check(&a, &r, NOW, &last_identity));
}

/* The content of signed tokens is tested in jwt_test.c. */
TEST(a_signed_token_is_checked_with_the_secret_and_the_names_of_the_options)
{
        /* {"alg":"HS256"} and {"exp":1800000060,"iss":"i","aud":"a"} */
        static const struct slice value =
                S("Bearer eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjE4MDAwMDAwNjAsImlzcyI6ImkiLCJhdWQiOiJhIn0."
                  "UuAGJb2Jrssfpku7oQ57Ue4Vgd3eDEEvCQYV-r_Hv48");
        _auth_ struct auth a, other_issuer, other_audience;

        signed_make(&a, " i ", "a\n");
        signed_make(&other_issuer, "j", "a");
        signed_make(&other_audience, NULL, "b");
        eq_u64(a.jwt.secret_len, 32);
        eq_int(a.jwt.skew_seconds, 30);
        eq_str(refusal_of(&a, value), "passes");
        eq_str(refusal_of(&other_issuer, value), ISSUER);
        eq_str(refusal_of(&other_audience, value), AUDIENCE);
        eq_str(refusal_of(&a, S("Bearer x")), BAD_JWT);
        eq_str(refusal_of(&a, S("Basic x")), BAD_HEADER);
}

/* --- options and secret files at start --- */

static char *secret_error(bool is_signed, struct slice content, struct file *ret)
{
        *ret = file_make(content);
        struct auth_options o = { .mode = text(is_signed ? "signed-bearer-token" : "capability-token") };

        *(is_signed ? &o.shared_secret_file : &o.token_file) = ret->path;
        return mem_strdup(init_error(&o));
}

static void secret_is_refused(bool is_signed, struct slice content, const char *before, const char *behind)
{
        _file_ struct file f;
        _free_ char *got = secret_error(is_signed, content, &f);
        _free_ char *expect = mem_printf("%s%s%s", before, f.path, behind);

        eq_str(got, expect);
}

TEST(secret_files_that_are_empty_or_short_or_no_text_are_refused)
{
        char big[JWT_SECRET_MAX + 1];

        memset(big, 'x', sizeof(big));
        for (int is_signed = 0; is_signed < 2; is_signed++) {
                secret_is_refused(is_signed, S(""), "websocket auth secret ", " must not be empty");
                secret_is_refused(is_signed, S(" \r\n\t"), "websocket auth secret ", " must not be empty");
                secret_is_refused(is_signed, S("\xff\xfe"), "failed to read websocket auth secret ",
                                  ": stream did not contain valid UTF-8");
                secret_is_refused(is_signed, slice_from(big, sizeof(big)), "websocket auth secret ",
                                  " must be at most 4096 bytes");
        }
        secret_is_refused(true, S(" 0123456789abcdef0123456789abcde\n"), "signed websocket bearer secret ",
                          " must be at least 32 bytes");
}

TEST(the_largest_secret_is_taken)
{
        char big[JWT_SECRET_MAX];
        _auth_ struct auth a;

        memset(big, 'x', sizeof(big));
        _file_ struct file f = file_make(slice_from(big, sizeof(big)));
        auth_make(&a, &(struct auth_options){ .mode = text("signed-bearer-token"),
                                              .shared_secret_file = f.path });
        eq_u64(a.jwt.secret_len, JWT_SECRET_MAX);
}

TEST(the_error_of_an_unreadable_secret_has_the_text_of_the_system)
{
        eq_str(init_error(&(struct auth_options){ .mode = text("capability-token"),
                                                  .token_file = text("/nonexistent") }),
               "failed to read websocket auth secret /nonexistent: No such file or directory (os error 2)");
        eq_str(init_error(&(struct auth_options){ .mode = text("signed-bearer-token"),
                                                  .shared_secret_file = text("/tmp") }),
               "failed to read websocket auth secret /tmp: Is a directory (os error 21)");
}

TEST(a_relative_secret_file_is_shown_with_the_working_directory)
{
        _free_ char *cwd = getcwd(NULL, 0);
        _free_ char *expect = mem_printf("failed to read websocket auth secret %s/no-such-file: No such file "
                                         "or directory (os error 2)",
                                         cwd);

        eq_str(init_error(&(struct auth_options){ .mode = text("capability-token"),
                                                  .token_file = text("no-such-file") }),
               expect);
}

TEST(a_secret_may_come_through_a_pipe)
{
        _auth_ struct auth a;
        int ends[2];
        char path[32];

        eq_int(pipe2(ends, O_CLOEXEC), 0);
        _close_ int from = ends[0];
        eq_int(fd_write_all(ends[1], S("sesame\n")), 0);
        fd_close(ends[1]);
        (void)snprintf(path, sizeof(path), "/dev/fd/%d", from);
        auth_make(&a, &(struct auth_options){ .mode = text("capability-token"), .token_file = path });
        eq_str(refusal_of(&a, S("Bearer sesame")), "passes");
}

TEST(options_that_do_not_belong_together_are_refused)
{
        char *const cap = text("capability-token"), *const sig = text("signed-bearer-token"),
                    *const x = text("x");
        const char *const no_mode = "websocket auth flags require `--ws-auth capability-token` or "
                                    "`--ws-auth signed-bearer-token`";
        const char *const for_signed =
                "`--ws-shared-secret-file`, `--ws-issuer`, `--ws-audience`, and "
                "`--ws-max-clock-skew-seconds` require `--ws-auth signed-bearer-token`";
        const char *const for_capability = "`--ws-token-file` and `--ws-token-sha256` require `--ws-auth "
                                           "capability-token`, not `signed-bearer-token`";
        const struct {
                struct auth_options options;
                const char *expect;
        } table[] = {
                { { .token_file = x }, no_mode },
                { { .token_sha256 = x }, no_mode },
                { { .shared_secret_file = x }, no_mode },
                { { .issuer = x }, no_mode },
                { { .audience = x }, no_mode },
                { { .has_max_clock_skew_seconds = true }, no_mode },
                { { .mode = cap },
                  "`--ws-token-file` or `--ws-token-sha256` is required when `--ws-auth capability-token` is "
                  "set" },
                { { .mode = cap, .token_file = x, .token_sha256 = x },
                  "`--ws-token-file` and `--ws-token-sha256` are mutually exclusive" },
                { { .mode = cap, .token_file = x, .shared_secret_file = x }, for_signed },
                { { .mode = cap, .token_file = x, .issuer = x }, for_signed },
                { { .mode = cap, .token_file = x, .audience = x }, for_signed },
                { { .mode = cap, .token_file = x, .has_max_clock_skew_seconds = true }, for_signed },
                { { .mode = sig },
                  "`--ws-shared-secret-file` is required when `--ws-auth signed-bearer-token` is set" },
                { { .mode = sig, .shared_secret_file = x, .token_file = x }, for_capability },
                { { .mode = sig, .shared_secret_file = x, .token_sha256 = x }, for_capability },
                { { .mode = sig, .shared_secret_file = x, .issuer = text(" ") },
                  "`--ws-issuer` must not be empty" },
                { { .mode = sig, .shared_secret_file = x, .issuer = x, .audience = text("") },
                  "`--ws-audience` must not be empty" },
                { { .mode = sig,
                    .shared_secret_file = x,
                    .max_clock_skew_seconds = UINT64_C(1) << 63,
                    .has_max_clock_skew_seconds = true },
                  "websocket auth clock skew must fit in a signed 64-bit integer" },
                { { .mode = text("password") },
                  "`--ws-auth` must be `capability-token` or `signed-bearer-token`" },
        };
        for (size_t i = 0; i < ARRAY_LEN(table); i++)
                eq_str(init_error(&table[i].options), table[i].expect);
}

TEST(a_digest_is_64_hex_digits)
{
        static const char *const bad[] = {
                "",
                "zz",
                "000000000000000000000000000000000000000000000000000000000000000",
                "00000000000000000000000000000000000000000000000000000000000000000",
                "g000000000000000000000000000000000000000000000000000000000000000",
                "0000000000000000000000000000000000000000000000000000000 00000000",
                "00000000000000000000000000000000000000000000000000000000 0000000",
        };
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                eq_str(init_error(&(struct auth_options){ .mode = text("capability-token"),
                                                          .token_sha256 = text(bad[i]) }),
                       "--ws-token-sha256 must be a 64-character hex SHA-256 digest");
}

/* Returns what auth_init writes to stderr when the token file is `path`. */
static char *warning_of(const char *path)
{
        _buf_ struct buf b = BUF_INIT(4096);
        int ends[2], saved = fcntl(2, F_DUPFD_CLOEXEC, 3);
        _auth_ struct auth a;
        char *room;

        eq_int(pipe2(ends, O_CLOEXEC), 0);
        eq_int(dup2(ends[1], 2), 2);
        auth_make(&a, &(struct auth_options){ .mode = text("capability-token"), .token_file = text(path) });
        eq_int(dup2(saved, 2), 2);
        fd_close(saved);
        fd_close(ends[1]);
        eq_int(buf_reserve(&b, 4000, &room), 0);
        ssize_t n = read(ends[0], room, 4000);
        ok(n >= 0);
        buf_commit(&b, (size_t)n);
        fd_close(ends[0]);
        return buf_take(&b);
}

TEST(a_secret_that_others_can_reach_is_taken_with_a_warning)
{
        _file_ struct file f = file_make(S("sesame"));
        static const struct {
                mode_t dir, file;
                bool warns;
        } table[] = {
                { 0755, 0600, false }, { 0755, 0640, true },  { 0755, 0604, true },
                { 0710, 0640, true },  { 0700, 0644, false }, { 0700, 0600, false },
        };
        for (size_t i = 0; i < ARRAY_LEN(table); i++) {
                eq_int(chmod(f.dir, table[i].dir), 0);
                eq_int(chmod(f.path, table[i].file), 0);
                _free_ char *warning = warning_of(f.path);
                ok((strstr(warning, "readable by others") != NULL) == table[i].warns);
                ok(!strstr(warning, "sesame"));
        }
}

TEST(releasing_wipes_the_secret_and_may_be_done_twice)
{
        struct auth a;
        static const struct auth nothing;

        signed_make(&a, "i", "a");
        ok(memcmp(a.jwt.secret, SECRET, 32) == 0);
        auth_release(&a);
        ok(memcmp(&a, &nothing, sizeof(a)) == 0);
        auth_release(&a);
}

TEST(options_are_released_whole)
{
        struct auth_options o = { .mode = mem_strdup("a"),
                                  .token_file = mem_strdup("b"),
                                  .token_sha256 = mem_strdup("c"),
                                  .shared_secret_file = mem_strdup("d"),
                                  .issuer = mem_strdup("e"),
                                  .audience = mem_strdup("f"),
                                  .has_max_clock_skew_seconds = true };

        auth_options_release(&o);
        ok(!o.mode && !o.audience && !o.has_max_clock_skew_seconds);
        auth_options_release(&o);
}
