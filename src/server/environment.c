#include "server/environment.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/uri.h"
#include "sandbox/backend.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#define PASSWD_MAX (4 * 1024 * 1024)

static struct {
        char *shell_path, *shell_name;
        char *cwd;    /* NULL when the server's directory is gone */
        char *home;   /* NULL when nobody knows */
        char *tmpdir; /* of TMPDIR; NULL when it is unset or relative */
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

/* The passwd entry of the server's user, read without NSS: a static binary must not load libraries. */
static void read_passwd(char **ret_home, char **ret_shell)
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

void environment_init(void)
{
        _free_ char *home = NULL, *shell = NULL;
        read_passwd(&home, &shell);
        env.shell_path = choose_shell(shell);
        env.shell_name = mem_strdup(base_name(env.shell_path));

        const char *home_var = getenv("HOME");
        env.home = home_var && home_var[0] == '/' ? mem_strdup(home_var) : TAKE(home);
        const char *tmpdir = getenv("TMPDIR");
        env.tmpdir = tmpdir && tmpdir[0] == '/' ? mem_strdup(tmpdir) : NULL;
        char cwd[PATH_MAX];
        /* "(unreachable)…" is what the kernel says of a directory outside of our root. */
        env.cwd = getcwd(cwd, sizeof(cwd)) && cwd[0] == '/' ? mem_strdup(cwd) : NULL;
}

void environment_release(void)
{
        free(TAKE(env.shell_path));
        free(TAKE(env.shell_name));
        free(TAKE(env.cwd));
        free(TAKE(env.home));
        free(TAKE(env.tmpdir));
}

const char *environment_shell(void)
{
        return env.shell_path;
}

static void write_uri(struct jsonw *w, const char *path)
{
        _buf_ struct buf uri = BUF_INIT(4 * PATH_MAX);
        if (path && uri_from_path(&uri, slice_from_str(path)) == 0)
                jsonw_string(w, buf_slice(&uri));
        else
                jsonw_null(w);
}

void environment_info_write(struct jsonw *w, const struct backends *known)
{
        jsonw_object(w);
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
        /* Only what is there: clients take a missing capability for false. */
        jsonw_key(w, "capabilities");
        jsonw_object(w);
        jsonw_member_bool(w, "processControlV1", true);
        jsonw_member_bool(w, "fsControlV1", true);
        jsonw_member_bool(w, "sandboxReportV1", true);
        jsonw_member_bool(w, "fileWriteStreaming", true);
        jsonw_member_bool(w, "httpHeaderEnvVars", true);
        jsonw_member_bool(w, "networkProxyLaunch", false);
        jsonw_member_bool(w, "shellSnapshotV2", false);
        jsonw_member_bool(w, "environmentConfigRead", false);
        jsonw_member_bool(w, "fsWatchMissing", true);
        jsonw_object_end(w);
        jsonw_object_end(w);
}
