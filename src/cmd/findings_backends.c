/* findings_backends: which way of enforcing sandboxes would be taken here, and why not the others. */
#include "base/err.h"
#include "cmd/findings.h"
#include "sandbox/backend.h"

static const char *const names[] = {
        [BACKEND_NAMESPACES] = "back end namespaces",
        [BACKEND_BUBBLEWRAP] = "back end bubblewrap",
        [BACKEND_LANDLOCK] = "back end landlock",
};

/* One that does not work is no complaint where a better one does. */
static void one(struct findings *f, const struct backends *b, enum backend which)
{
        const struct backend_test *t = &b->tests[which];
        bool is_needed = which < b->chosen && (b->wish == BACKEND_AUTO || b->wish == which);
        if (t->os_errno == 0) {
                findings_add(f, names[which], FINDING_OK, "%s",
                             which == b->chosen        ? "works, and is chosen"
                             : b->wish == BACKEND_AUTO ? "works; a better one is chosen"
                                                       : "works; another one is asked for");
                return;
        }
        struct finding *found =
                findings_add(f, names[which], is_needed ? FINDING_WARN : FINDING_OK, "%s: %s%s", t->step,
                             errno_text(t->os_errno), is_needed ? "" : "; not needed here");
        found->os_errno = t->os_errno;
        found->remedy = t->remedy;
}

void findings_backends(struct findings *f, const struct backends *b)
{
        for (enum backend which = 0; which < BACKEND_NONE; which++)
                one(f, b, which);
}
