/* task_network_environment: the variables by which programs find the proxies of a managed network. They are those of the reference
 * server. */
#include "session/task_network_internal.h"

#define NO_PROXY_LOCAL "localhost,127.0.0.1,::1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"

static const char *const http_names[] = {
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "http_proxy",
        "https_proxy",
        "WS_PROXY",
        "WSS_PROXY",
        "ws_proxy",
        "wss_proxy",
        "YARN_HTTP_PROXY",
        "YARN_HTTPS_PROXY",
        "BUNDLE_HTTP_PROXY",
        "BUNDLE_HTTPS_PROXY",
        "npm_config_proxy",
        "npm_config_http_proxy",
        "npm_config_https_proxy",
        "NPM_CONFIG_PROXY",
        "NPM_CONFIG_HTTP_PROXY",
        "NPM_CONFIG_HTTPS_PROXY",
        "PIP_PROXY",
        "DOCKER_HTTP_PROXY",
        "DOCKER_HTTPS_PROXY",
};
static const char *const socks_names[] = { "ALL_PROXY", "all_proxy", "FTP_PROXY", "ftp_proxy" };
static const char *const no_names[] = { "NO_PROXY", "no_proxy", "npm_config_noproxy", "NPM_CONFIG_NOPROXY",
                                        "BUNDLE_NO_PROXY" };
static const char *const fixed_names[] = { "ELECTRON_GET_USE_PROXY", "NODE_USE_ENV_PROXY",
                                           "CODEX_NETWORK_PROXY_ACTIVE",
                                           "CODEX_NETWORK_ALLOW_LOCAL_BINDING" };
static const char *const fixed_values[ARRAY_LEN(fixed_names)] = { "true", "1", "1" };

#define VARIABLES \
        (ARRAY_LEN(http_names) + ARRAY_LEN(socks_names) + ARRAY_LEN(no_names) + ARRAY_LEN(fixed_names))

static bool is_ours(struct slice name)
{
        return slice_find(name, http_names, ARRAY_LEN(http_names)) < ARRAY_LEN(http_names) ||
               slice_find(name, socks_names, ARRAY_LEN(socks_names)) < ARRAY_LEN(socks_names) ||
               slice_find(name, no_names, ARRAY_LEN(no_names)) < ARRAY_LEN(no_names) ||
               slice_find(name, fixed_names, ARRAY_LEN(fixed_names)) < ARRAY_LEN(fixed_names);
}

const char *const *network_environment(struct arena *a, const char *const *env, uint16_t http_port,
                                       uint16_t socks_port, bool allows_local)
{
        const char *http = arena_printf(a, "http://127.0.0.1:%u", http_port);
        const char *socks = socks_port ? arena_printf(a, "socks5h://127.0.0.1:%u", socks_port) : http;
        const char *none = allows_local ? NO_PROXY_LOCAL : "";
        size_t count = 0, kept = 0;
        while (env[count])
                count++;
        const char **ret = arena_alloc(a, (count + VARIABLES + 1) * sizeof(*ret));
        for (size_t i = 0; i < count; i++) {
                struct slice rest = slice_from_str(env[i]);
                if (!is_ours(slice_split(&rest, '=')))
                        ret[kept++] = env[i];
        }
        for (size_t i = 0; i < ARRAY_LEN(http_names); i++)
                ret[kept++] = arena_printf(a, "%s=%s", http_names[i], http);
        for (size_t i = 0; i < ARRAY_LEN(socks_names); i++)
                ret[kept++] = arena_printf(a, "%s=%s", socks_names[i], socks);
        for (size_t i = 0; i < ARRAY_LEN(no_names); i++)
                ret[kept++] = arena_printf(a, "%s=%s", no_names[i], none);
        for (size_t i = 0; i < ARRAY_LEN(fixed_names); i++)
                ret[kept++] = arena_printf(a, "%s=%s", fixed_names[i],
                                           fixed_values[i] ? fixed_values[i]
                                           : allows_local  ? "1"
                                                           : "0");
        ret[kept] = NULL;
        return ret;
}
