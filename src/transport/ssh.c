/* ssh: the script for the far machine, and what it answers. */
#include "transport/ssh.h"

#include "base/printable.h"

#include <errno.h>
#include <sys/wait.h>

#define MARK "farhand-ssh "

/* The script, for any sh. The login shell of the user gets it inside of single quotes, and may be csh or fish: it is one line, without
 * single quotes, backslashes and exclamation marks. `set -f` keeps the words of a message from being patterns. */
static const char script[] =
        "umask 077; set -f; v=" FARHAND_VERSION "; t=; "
        "say() { echo; echo \"" MARK "$*\"; }; "
        "drop() { rm -f \"$t\"; }; "
        "bad() { drop; say fail \"$@\"; exit 1; }; "
        "ours() { [ -x \"$1\" ] && [ \"$(\"$1\" --version 2>/dev/null </dev/null)\" = \"farhand $v\" ]; }; "
        "go() { say ready; exec \"$1\" connect --listen stdio; }; "
        "c=${XDG_CACHE_HOME:-}; case $c in /*) ;; *) c=${HOME:-}/.cache ;; esac; "
        "d=$c/farhand; f=$d/$v/farhand; "
        /* What another user has put there, where others may write to the cache directory, is not run. */
        "[ -O \"$d/$v\" ] && [ -O \"$f\" ] && ours \"$f\" && go \"$f\"; "
        "p=$(command -v farhand) && ours \"$p\" && go \"$p\"; "
        "say need $(uname -m) $(uname -s); "
        "read -r n s || exit 1; "
        "m=$(exec 2>&1; mkdir -p \"$d/$v\" && { [ -O \"$d/$v\" ] || "
        "{ echo \"$d/$v belongs to another user\"; false; }; } && mktemp \"$d/$v/.new.XXXXXX\") || bad put "
        "$m; "
        "t=$m; trap drop EXIT; trap \"exit 1\" HUP INT TERM; "
        "m=$(exec 2>&1; head -c \"$n\" >\"$t\" && chmod 700 \"$t\") || bad put $m; "
        "m=$(exec 2>&1; sha256sum <\"$t\") || bad put $m; "
        "[ \"${m%% *}\" = \"$s\" ] || bad digest; "
        "m=$(exec 2>&1; \"$t\" --version </dev/null) || bad run $m; "
        "[ \"$m\" = \"farhand $v\" ] || bad version $m; "
        "m=$(exec 2>&1; mv -f \"$t\" \"$f\") || bad put $m; "
        /* Other versions of farhand are removed: only files that this script has made, in directories that it has made. */
        "set +f; for o in \"$d\"/[0-9]*/farhand; do [ \"$o\" = \"$f\" ] || "
        "{ rm -f \"$o\" \"${o%/*}\"/.new.*; rmdir \"${o%/*}\"; }; done 2>/dev/null; "
        "go \"$f\"";

const char *const *ssh_argv(struct arena *a, const char *ssh, const struct endpoint *e, bool is_quiet)
{
        /* The configuration of the user may ask for a terminal, a command or forwarded ports, which belong to logins. A
         * forwarded agent would be lent to a server that outlives the connection. */
        static const char *const always[] = {
                "-T", "-o", "RequestTTY=no",   "-o", "RemoteCommand=none",    "-o", "ClearAllForwardings=yes",
                "-x", "-o", "ForwardAgent=no", "-o", "PermitLocalCommand=no",
        };
        const char **argv = arena_alloc(a, (ARRAY_LEN(always) + 12) * sizeof(*argv));
        size_t n = 0;
        argv[n++] = ssh ? ssh : "ssh";
        for (size_t i = 0; i < ARRAY_LEN(always); i++)
                argv[n++] = always[i];
        if (is_quiet) {
                argv[n++] = "-q";
                argv[n++] = "-o";
                argv[n++] = "BatchMode=yes";
        }
        if (e->user) {
                argv[n++] = "-l";
                argv[n++] = e->user;
        }
        if (e->port) {
                argv[n++] = "-p";
                argv[n++] = arena_printf(a, "%u", e->port);
        }
        argv[n++] = "--";
        argv[n++] = e->host;
        argv[n++] = arena_printf(a, "exec sh -c '%s'", script);
        argv[n] = NULL;
        return argv;
}

/* ---- what the script says ---- */

static struct slice next_word(struct slice *rest)
{
        struct slice word = slice_split(rest, ' ');
        return slice_from(word.p, MIN(word.n, (size_t)SSH_WORD_MAX));
}

size_t ssh_next(struct slice in, struct ssh_said *ret)
{
        const char *end = in.n > 0 ? memchr(in.p, '\n', in.n) : NULL;
        if (!end)
                return 0;
        struct slice line = slice_from(in.p, (size_t)(end - in.p));
        size_t taken = line.n + 1;
        *ret = (struct ssh_said){ .word = SSH_NOISE };
        if (!slice_starts(line, S(MARK)))
                return taken;
        struct slice rest = slice_from(line.p + strlen(MARK), line.n - strlen(MARK));
        struct slice word = next_word(&rest);
        if (slice_eq(word, S("ready"))) {
                ret->word = SSH_READY;
        } else if (slice_eq(word, S("need"))) {
                ret->word = SSH_NEED;
                ret->machine = next_word(&rest);
                ret->system = next_word(&rest);
        } else if (slice_eq(word, S("fail"))) {
                ret->word = SSH_FAIL;
                ret->step = next_word(&rest);
                ret->text = slice_trim(rest);
        }
        return taken;
}

int ssh_refused(const struct endpoint *e, const struct ssh_said *said, struct err *err)
{
        _arena_ struct arena a = ARENA_INIT;
        const char *text = printable_text(&a, said->text);
        if (slice_eq(said->step, S("put")))
                return err_set(err, 0, -EPROTO,
                               "%s: farhand could not be put into the cache directory there: %s", e->host,
                               text);
        if (slice_eq(said->step, S("digest")))
                return err_set(err, 0, -EPROTO,
                               "%s: what arrived there is not what was sent: its digest differs", e->host);
        if (slice_eq(said->step, S("run")))
                return err_set(err, 0, -EPROTO,
                               "%s: the program that was put into the cache directory there cannot be run "
                               "(is the file system mounted noexec?): %s; install farhand " FARHAND_VERSION
                               " there, in PATH",
                               e->host, text);
        if (slice_eq(said->step, S("version")))
                return err_set(err, 0, -EPROTO,
                               "%s: the program to send is `%s`, and not farhand " FARHAND_VERSION
                               ": build it again",
                               e->host, text);
        return err_set(err, 0, -EPROTO, "%s: farhand could not be started there: %s", e->host, text);
}

int ssh_ended(const struct endpoint *e, int status, struct err *err)
{
        if (status != -1 && WIFSIGNALED(status))
                return err_set(err, 0, -ECONNREFUSED, "ssh to %s was ended by signal %d", e->host,
                               WTERMSIG(status));
        int code = status == -1 ? 255 : WEXITSTATUS(status);
        if (code == 255) /* ssh itself has failed */
                return err_set(err, 0, -ECONNREFUSED, "ssh did not reach %s: it says why on stderr", e->host);
        if (code == 126 || code == 127)
                return err_set(err, 0, -EPROTO, "%s has no sh that ssh can start (code %d)", e->host, code);
        return err_set(err, 0, -ECONNRESET, "ssh to %s ended with code %d before farhand was started there",
                       e->host, code);
}
