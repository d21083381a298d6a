/* network_denials: tells the person once about each host that a command was not let to. */
#include "cli/network_denials.h"

#include "approve/host_denial.h"
#include "base/map.h"
#include "base/mem.h"

#define TOLD_MAX 32

struct network_denials {
        const struct remote *remote;
        struct arena arena; /* the keys of `told` */
        struct map told;
};

struct network_denials *network_denials_new(const struct remote *r)
{
        struct network_denials *d = mem_new(struct network_denials);
        d->remote = r;
        map_init(&d->told);
        return d;
}

void network_denials_free(struct network_denials *d)
{
        if (!d)
                return;
        map_release(&d->told);
        arena_release(&d->arena);
        free(d);
}

void network_denials_take(struct network_denials *d, const struct farhand_network_decision *decision)
{
        if (decision->action == FARHAND_NETWORK_ALLOW || map_count(&d->told) >= TOLD_MAX)
                return;
        bool has_colon = strchr(decision->host, ':') != NULL;
        const char *key = arena_printf(&d->arena, has_colon ? "[%s]:%u" : "%s:%u", decision->host,
                                       (unsigned)decision->port);
        if (map_find(&d->told, slice_from_str(key)))
                return;
        map_put(&d->told, slice_from_str(key), d);
        remote_say(d->remote, "no connection to %s: %s", key, host_denial_text(decision->reason));
        if (map_count(&d->told) == TOLD_MAX)
                remote_say(d->remote, "further refused hosts are not told");
}
