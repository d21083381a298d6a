/* env_config: decodes the params of environmentConfig/read. */
#include "proto/env_config.h"

#include "base/limits.h"

static void decode_paths(struct decoder *d, const char *key, struct toml_path **ret, size_t *ret_count)
{
        const struct json *list = decode_array(d, key);

        if (!list)
                return;
        size_t n = json_count(d->doc, list);
        if (n > LIMIT_CONFIG_PATHS) {
                decode_fail(d, "%s: at most %d paths", key, LIMIT_CONFIG_PATHS);
                return;
        }
        *ret = arena_zalloc(d->arena, MAX(n, (size_t)1) * sizeof(**ret));
        json_each (it, d->doc, list) {
                struct slice *keys = NULL;
                size_t count = 0;
                decode_strings_value(d, it, &keys, &count);
                (*ret)[(*ret_count)++] = (struct toml_path){ keys, count };
        }
}

static bool has_empty(const struct toml_path *paths, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (paths[i].count == 0)
                        return true;
        return false;
}

int env_config_read_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                           struct err *err)
{
        struct env_config_read *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "EnvironmentConfigReadParams", err);
        decode_path(&d, "cwd", &in->cwd);
        decode_paths(&d, "configPaths", &in->config, &in->config_count);
        decode_paths(&d, "requirementsPaths", &in->requirements, &in->requirements_count);
        if (!d.has_failed && in->config_count + in->requirements_count == 0)
                decode_fail(&d, "at least one config or requirements path is required");
        if (!d.has_failed &&
            (has_empty(in->config, in->config_count) || has_empty(in->requirements, in->requirements_count)))
                decode_fail(&d, "TOML paths must contain at least one key segment");
        return decode_end(&d);
}
