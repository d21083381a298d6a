/* environment: finds environments in a list, and names their kinds and keys. */
#include "env/environment.h"

const struct environment environment_local = { .id = ENVIRONMENT_LOCAL_ID, .kind = ENVIRONMENT_LOCAL };

const struct environment *environments_find(const struct environments *e, struct slice id)
{
        for (size_t i = 0; i < e->count; i++)
                if (slice_eq(slice_from_str(e->list[i].id), id))
                        return &e->list[i];
        return NULL;
}

const char *environment_key(struct arena *a, const struct environment *e)
{
        const char *key = e->url ? e->url : e->id;
        for (size_t i = 0; e->argv && e->argv[i]; i++)
                key = arena_printf(a, "%s %s", key, e->argv[i]);
        return key;
}

const struct environment *environments_default(const struct environments *e)
{
        return e->default_index < e->count ? &e->list[e->default_index] : NULL;
}

const char *environment_kind_name(enum environment_kind kind)
{
        static const char *const names[] = {
                [ENVIRONMENT_LOCAL] = "local",
                [ENVIRONMENT_URL] = "url",
                [ENVIRONMENT_COMMAND] = "command",
                [ENVIRONMENT_SSH] = "ssh",
        };
        return names[kind];
}
