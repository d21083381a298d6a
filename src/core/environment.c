/* environment: looks up shell, directories and user of this machine, and writes environment/info. */
#include "core/environment.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/uri.h"
#include "policy/env.h"
#include "sandbox/backend.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#define PASSWD_MAX (4 * 1024 * 1024)

static struct {
        char *user;
        char *shell_path, *shell_name;
        char *cwd;  /* NULL when the server's directory is gone */
        char *home; /* NULL when the home directory is not known */
        char *codex_home;
        char *tmpdir; /* NULL when TMPDIR is unset or empty */
} env;

static const char *base_name(const char *path)
{
        const char *slash = strrchr(path, '/');
        return slash ? slash + 1 : path;
}

static bool is_known_shell(const char *path)
{
        static const char *const known[] = { "bash", "zsh", "sh" };
        for (size_t i = 0; i < ARRAY_LEN(known); i++)
                if (strcmp(base_name(path), known[i]) == 0)
                        return access(path, X_OK) == 0;
        return false;
}

/* Reads the passwd entry of the server's user without NSS, because a static binary must not load libraries. */
static void read_passwd(char **ret_name, char **ret_home, char **ret_shell)
{
        _buf_ struct buf file = BUF_INIT(PASSWD_MAX);
        if (fd_read_file("/etc/passwd", PASSWD_MAX, &file) < 0)
                return;
        struct slice rest = buf_slice(&file);
        while (rest.p) {
                struct slice line = slice_split(&rest, '\n');
                struct slice field[7] = { 0 };
                for (size_t i = 0; i < ARRAY_LEN(field) && line.p; i++)
                        field[i] = slice_split(&line, ':');
                uint64_t uid;
                if (!field[6].p || slice_to_u64(field[2], UINT32_MAX, &uid) < 0 || uid != getuid())
                        continue;
                *ret_name = slice_dup(field[0]);
                *ret_home = slice_dup(field[5]);
                *ret_shell = slice_dup(field[6]);
                return;
        }
}

static char *choose_shell(const char *login_shell)
{
        if (login_shell && login_shell[0] == '/' && is_known_shell(login_shell))
                return mem_strdup(login_shell);
        static const char *const fallbacks[] = { "/bin/bash", "/usr/bin/bash", "/bin/zsh", "/usr/bin/zsh" };
        for (size_t i = 0; i < ARRAY_LEN(fallbacks); i++)
                if (access(fallbacks[i], X_OK) == 0)
                        return mem_strdup(fallbacks[i]);
        return mem_strdup("/bin/sh");
}

/* Returns the directory that an environment variable names; NULL when the variable is unset. A relative path is below the cwd.
 * The path is normalized, so that clients can compare it. */
static char *find_directory(const char *variable)
{
        _arena_ struct arena a = ARENA_INIT;
        struct slice clean, path = env_tmpdir(&a, getenv(variable), slice_from_str(env.cwd ? env.cwd : ""));
        return path.n > 0 && uri_to_path(&a, path, &clean, NULL) == URI_OK ? slice_dup(clean) : NULL;
}

static char *find_codex_home(void)
{
        char *path = find_directory("CODEX_HOME");
        if (path)
                return path;
        _buf_ struct buf b = BUF_INIT(PATH_MAX + 16);
        return buf_printf(&b, "%s/.codex", env.home ? env.home : "") < 0 ? mem_strdup("/.codex")
                                                                         : buf_take(&b);
}

void environment_init(void)
{
        _free_ char *home = NULL, *shell = NULL, *name = NULL;
        read_passwd(&name, &home, &shell);
        env.user = name ? TAKE(name) : mem_printf("%u", getuid());
        env.shell_path = choose_shell(shell);
        env.shell_name = mem_strdup(base_name(env.shell_path));

        const char *home_var = getenv("HOME");
        env.home = home_var && home_var[0] == '/' ? mem_strdup(home_var) : TAKE(home);
        char cwd[PATH_MAX];
        /* The kernel writes "(unreachable)…" for a directory outside of the root of this process. */
        env.cwd = getcwd(cwd, sizeof(cwd)) && cwd[0] == '/' ? mem_strdup(cwd) : NULL;
        env.tmpdir = find_directory("TMPDIR");
        env.codex_home = find_codex_home();
}

void environment_release(void)
{
        free(TAKE(env.user));
        free(TAKE(env.shell_path));
        free(TAKE(env.shell_name));
        free(TAKE(env.cwd));
        free(TAKE(env.home));
        free(TAKE(env.tmpdir));
        free(TAKE(env.codex_home));
}

const char *environment_home(void)
{
        return env.home;
}

const char *environment_codex_home(void)
{
        return env.codex_home;
}

const char *environment_tmpdir(void)
{
        return env.tmpdir;
}

const char *environment_shell(void)
{
        return env.shell_path;
}

const char *environment_user(void)
{
        return env.user ? env.user : "";
}

static void write_uri(struct jsonw *w, const char *path)
{
        _buf_ struct buf uri = BUF_INIT(4 * PATH_MAX);
        if (path && uri_from_path(&uri, slice_from_str(path)) == 0)
                jsonw_string(w, buf_slice(&uri));
        else
                jsonw_null(w);
}

void environment_info_write(struct jsonw *w, const struct backends *known, bool can_intercept,
                            bool can_manage_network)
{
        jsonw_key(w, "shell");
        jsonw_object(w);
        jsonw_member_str(w, "name", env.shell_name);
        jsonw_member_str(w, "path", env.shell_path);
        jsonw_object_end(w);
        jsonw_member_str(w, "executorVersion", FARHAND_VERSION);
        jsonw_member_str(w, "executorName", "farhand");
        jsonw_key(w, "cwd");
        write_uri(w, env.cwd);
        jsonw_key(w, "userHomeDir");
        write_uri(w, env.home);
        jsonw_member_str(w, "platformOs", "linux");
        jsonw_key(w, "temporaryDirectories");
        jsonw_array(w);
        if (env.tmpdir)
                write_uri(w, env.tmpdir);
        jsonw_array_end(w);
        jsonw_key(w, "tempDir");
        write_uri(w, env.tmpdir ? env.tmpdir : "/tmp");
        if (known)
                jsonw_member_str(w, "sandboxBackend", backend_name(known->chosen));
        /* Only capabilities that the server has are written: clients take a missing one for false. */
        jsonw_key(w, "capabilities");
        jsonw_object(w);
        jsonw_member_bool(w, "processControlV1", true);
        if (can_intercept)
                jsonw_member_bool(w, "execInterceptV1", true);
        jsonw_member_bool(w, "fsControlV1", true);
        jsonw_member_bool(w, "fsBatchV1", true);
        jsonw_member_bool(w, "fsAccessV1", true);
        jsonw_member_bool(w, "sandboxReportV1", true);
        jsonw_member_bool(w, "fileWriteStreaming", true);
        jsonw_member_bool(w, "httpHeaderEnvVars", true);
        jsonw_member_bool(w, "networkProxyLaunch", can_manage_network);
        jsonw_member_bool(w, "networkProxyReviewDomains", can_manage_network);
        jsonw_member_bool(w, "shellSnapshotV2", true);
        jsonw_member_bool(w, "environmentConfigRead", true);
        jsonw_member_bool(w, "fsWatchMissing", true);
        jsonw_member_bool(w, "capabilityDiscoverySandbox", true);
        jsonw_object_end(w);
}
