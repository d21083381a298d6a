/* m_config: the method environmentConfig/read (docs/PROTOCOL.md): returns the configuration files of Codex on this machine. */
#include "base/limits.h"
#include "codex/config_layers.h"
#include "core/environment.h"
#include "core/job.h"
#include "files/answer.h"
#include "proto/env_config.h"
#include "server/methods.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

/* The longest text of one layer: escapes can make it longer than the file. */
#define LAYER_BYTES_MAX ((size_t)LIMIT_CONFIG_BYTES * 8)

static void write_layer(struct jsonw *w, const struct config_layer *layer, struct slice toml)
{
        jsonw_object(w);
        jsonw_member_str(w, "source", layer->source);
        jsonw_key(w, "baseDir");
        fs_write_uri(w, slice_from_str(layer->directory));
        jsonw_member_string(w, "toml", toml);
        jsonw_object_end(w);
}

/* Writes what `paths` select from each layer. A layer in which they select nothing is left out, and does not count for
 * cloudInsertionIndex. */
static int write_stack(struct jsonw *w, const char *key, const struct config_layers *layers,
                       const struct toml_path *paths, size_t count, struct err *err)
{
        size_t insertion = 0;

        jsonw_key(w, key);
        jsonw_object(w);
        jsonw_key(w, "layers");
        jsonw_array(w);
        for (size_t i = 0; i < layers->count; i++) {
                _arena_ struct arena a = ARENA_INIT;
                _buf_ struct buf text = BUF_INIT(LAYER_BYTES_MAX);
                const struct toml *part = toml_select(&a, layers->list[i].table, paths, count);
                if (!part)
                        continue;
                if (toml_write(&text, part) < 0)
                        return err_set(err, RPC_INTERNAL, -EFBIG, "%s is too large", layers->list[i].source);
                write_layer(w, &layers->list[i], buf_slice(&text));
                insertion += layers->list[i].is_system;
        }
        jsonw_array_end(w);
        jsonw_member_u64(w, "cloudInsertionIndex", insertion);
        jsonw_object_end(w);
        return 0;
}

static void write_uri_or_null(struct jsonw *w, const char *key, const char *path)
{
        jsonw_key(w, key);
        if (path)
                fs_write_uri(w, slice_from_str(path));
        else
                jsonw_null(w);
}

static int write_answer(struct job *job, const struct config_place *place, struct jsonw *w, struct err *err)
{
        const struct env_config_read *in = job->params;
        struct config_layers config = { 0 }, requirements = { 0 };
        char hostname[HOST_NAME_MAX + 1] = "";

        int r = in->config_count ? fsop_config_layers(&job->arena, place, &config, err) : 0;
        if (r == 0 && in->requirements_count)
                r = fsop_requirement_layers(&job->arena, place, &requirements, err);
        if (r < 0)
                return r;
        jsonw_object(w);
        write_uri_or_null(w, "userHomeDir", environment_home());
        write_uri_or_null(w, "codexHomeDir", place->home);
        jsonw_member_str(w, "hostname",
                         gethostname(hostname, sizeof(hostname) - 1) == 0 && hostname[0] ? hostname : NULL);
        r = write_stack(w, "config", &config, in->config, in->config_count, err);
        if (r == 0)
                r = write_stack(w, "requirements", &requirements, in->requirements, in->requirements_count,
                                err);
        jsonw_object_end(w);
        return r;
}

static int run_config_read(struct job *job, struct jsonw *w, struct err *err)
{
        const struct env_config_read *in = job->params;
        const struct config_place place = {
                .system = "/etc/codex",
                .home = environment_codex_home(),
                .cwd = in->cwd.p,
        };
        int r = write_answer(job, &place, w, err);
        if (r < 0) {
                err->client_code = RPC_INTERNAL;
                (void)err_wrap(err, "failed to load executor-local config");
        }
        return r;
}

static const struct job_class config_read = { .run = run_config_read };

const struct method config_methods[] = {
        { .name = "environmentConfig/read",
          .family = "environment config",
          .needs = NEEDS_READY,
          METHOD_PARAMS(env_config_read),
          .job = &config_read },
};
const size_t config_method_count = ARRAY_LEN(config_methods);
