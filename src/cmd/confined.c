/* confined: makes the sandbox of a single command, and notes when the sandbox is broken from outside. */
#include "cmd/confined.h"

static void on_broken(struct guarded *g)
{
        struct confined *c = container_of(g, struct confined, sandbox);
        c->is_broken = true;
}

int confined_make(struct confined *c, struct arena *a, const struct profile *profile,
                  const struct place *place, enum backend wish, struct err *err)
{
        *c = CONFINED_INIT;
        if (!profile_must_enforce(profile))
                return 0;
        confine_init(&c->confine, NULL, NULL, wish);
        c->has_confine = true;
        int r = confine_make(&c->confine, a, profile, place, &c->sandbox, &c->plan, err);
        if (r == 0)
                confine_begin(&c->confine, &c->sandbox, on_broken);
        return r;
}

int confined_fd(const struct confined *c)
{
        return c->has_confine ? confine_fd(&c->confine) : -1;
}

void confined_look(struct confined *c)
{
        confine_look(&c->confine);
}

void confined_started(struct confined *c)
{
        if (c->has_confine)
                confine_started(&c->confine, &c->sandbox);
        c->sandbox.has_started = true;
}

void confined_release(struct confined *c)
{
        if (!c->has_confine)
                return;
        confine_unmake(&c->confine, &c->sandbox);
        confine_release(&c->confine);
        c->has_confine = false;
}
