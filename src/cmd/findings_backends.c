/* findings_backends: reports which back end the server would choose here, and why not the others. */
#include "base/err.h"
#include "cmd/findings.h"
#include "sandbox/backend.h"

static const char *const names[] = {
        [BACKEND_NAMESPACES] = "back end namespaces",
        [BACKEND_BUBBLEWRAP] = "back end bubblewrap",
        [BACKEND_LANDLOCK] = "back end landlock",
};

/* Reports that bwrap works, but that the server may not enter the namespaces that bwrap makes (sandbox/finish.h). */
static void report_unfinished(struct findings *f, const struct backends *b)
{
        bool is_chosen = b->chosen == BACKEND_BUBBLEWRAP;
        struct finding *found =
                findings_add(f, names[BACKEND_BUBBLEWRAP], is_chosen ? FINDING_WARN : FINDING_OK,
                             "works%s; but the system does not let us join what bwrap builds: a command can "
                             "change mode, owner "
                             "and times of its terminal (as root: of /dev/null and its like), its inotify "
                             "watches have no limit "
                             "of their own, and file requests need Landlock ABI 6",
                             is_chosen ? ", and is chosen" : "");
        found->os_errno = b->bwrap.finish_errno;
        found->remedy =
                "let the server's user join the user namespaces that its bwrap makes (setns): look for an "
                "AppArmor or seccomp rule that forbids it, or for a bwrap with a set-uid bit";
}

/* Reports one back end. A back end that does not work is no warning when a better back end works. */
static void report_backend(struct findings *f, const struct backends *b, enum backend which)
{
        const struct backend_test *t = &b->tests[which];
        bool is_needed = which < b->chosen && (b->wish == BACKEND_AUTO || b->wish == which);
        if (t->os_errno == 0 && which == BACKEND_BUBBLEWRAP && b->bwrap.finish_errno != 0) {
                report_unfinished(f, b);
                return;
        }
        if (t->os_errno == 0) {
                findings_add(f, names[which], FINDING_OK, "%s",
                             which == b->chosen        ? "works, and is chosen"
                             : b->wish == BACKEND_AUTO ? "works; a better one is chosen"
                                                       : "works; another one is asked for");
                return;
        }
        struct finding *found =
                findings_add(f, names[which], is_needed ? FINDING_WARN : FINDING_OK, "%s: %s%s", t->step,
                             t->text[0] ? t->text : errno_text(t->os_errno),
                             is_needed ? "" : "; not needed here");
        found->os_errno = t->os_errno;
        found->remedy = t->remedy;
}

void findings_backends(struct findings *f, const struct backends *b)
{
        for (enum backend which = 0; which < BACKEND_NONE; which++)
                report_backend(f, b, which);
}
