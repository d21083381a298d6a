/* codex_test: what is asked and read for the configuration of Codex and for its plugins and skills. */
#include "client/client_rig.h"

#include <errno.h>

static char told[1024];

static void add(const char *fmt, ...) PRINTF_LIKE(1, 2);
static void add(const char *fmt, ...)
{
        size_t n = strlen(told);
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(told + n, sizeof(told) - n, fmt, ap);
        va_end(ap);
}

static struct farhand *client(int *server)
{
        struct farhand *f = played_client(server);
        free(f->info);
        f->info = strdup("{\"environmentInfo\":{\"capabilities\":{\"environmentConfigRead\":true,"
                         "\"capabilityDiscoverySandbox\":true}}}");
        told[0] = '\0';
        return f;
}

static void note_config(UNUSED void *arg, const struct farhand_config *c)
{
        add("%s %s %s %zu/%zu", c->home ? c->home : "-", c->codex_home ? c->codex_home : "-",
            c->hostname ? c->hostname : "-", c->config.system_count, c->requirements.count);
        for (size_t i = 0; i < c->config.count; i++)
                add(" %s %s %s", c->config.layers[i].source, c->config.layers[i].base_dir,
                    c->config.layers[i].toml);
}

TEST(layers_are_read_whole_or_not_at_all)
{
        static const char *const model[] = { "model", NULL }, *const env[] = { "a", "\"b\"", NULL };
        static const char *const *const keys[] = { model, env };
        static const char *const broken[] = {
                "7",
                "{}",
                "{\"config\":{\"layers\":[{}],\"cloudInsertionIndex\":0}}",
                "{\"config\":{\"layers\":[],\"cloudInsertionIndex\":1}}",
                "{\"config\":{\"layers\":[],\"cloudInsertionIndex\":0}}",
        };
        int server;
        struct farhand *f = client(&server);
        struct farhand_config_query query = FARHAND_CONFIG_QUERY_INIT;
        query.cwd = "/w";
        query.config = keys;
        query.config_count = 2;
        played_queue(
                server,
                "{\"id\":1,\"result\":{\"userHomeDir\":\"file:///h\",\"codexHomeDir\":null,\"hostname\":"
                "\"m\",\"config\":{\"layers\":[{\"source\":\"s\",\"baseDir\":\"file:///b\",\"toml\":\"t\"}],"
                "\"cloudInsertionIndex\":1},\"requirements\":{\"layers\":[],\"cloudInsertionIndex\":0}}}\n");
        eq_int(farhand_config_read(f, &query, note_config, NULL, NULL), 0);
        eq_str(played_sent(f, server),
               "{\"id\":1,\"method\":\"environmentConfig/read\",\"params\":{\"cwd\":\"file:///w\","
               "\"configPaths\":[[\"model\"],[\"a\",\"\\\"b\\\"\"]],\"requirementsPaths\":[]}}\n");
        eq_str(told, "/h - m 1/0 s /b t");
        for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
                char answer[512];
                (void)snprintf(answer, sizeof(answer), "{\"id\":%zu,\"result\":%s}\n", i + 2, broken[i]);
                played_queue(server, answer);
                eq_int(farhand_config_read(f, &query, note_config, NULL, NULL), -EPROTO);
        }
        (void)played_sent(f, server);
        query.config_count = 257;
        eq_int(farhand_config_read(f, &query, note_config, NULL, NULL), -EINVAL);
        query.config_count = 0;
        eq_int(farhand_config_read(f, &query, note_config, NULL, NULL), -EINVAL);
        eq_str(played_sent(f, server), "");
        farhand_free(f);
        fd_close(server);
}

static void note_root(UNUSED void *arg, size_t index, const struct farhand_found_root *r)
{
        add("%zu %s %s %s", index, r->id, r->error ? r->error : "-",
            r->plugin.path ? r->plugin.content : "-");
        for (size_t i = 0; i < r->skill_count; i++)
                add(" %s %zu %d", r->skills[i].instructions.path, r->skills[i].instructions.n,
                    r->skills[i].metadata.path != NULL);
        for (size_t i = 0; i < r->namespace_manifest_count; i++)
                add(" %s", r->namespace_manifests[i].path);
        for (size_t i = 0; r->warnings[i]; i++)
                add(" %s", r->warnings[i]);
        add(";");
}

TEST(roots_are_told_in_their_order)
{
        struct farhand_root roots[2] = { FARHAND_ROOT_INIT, FARHAND_ROOT_INIT };
        int server;
        struct farhand *f = client(&server);
        roots[0].id = "one";
        roots[1].id = "t\"wo";
        roots[0].path = "/a";
        roots[1].path = "/b";
        roots[1].sandbox = "{\"x\":1}";
        played_queue(server, "{\"id\":1,\"result\":{\"roots\":[{\"id\":\"other\","
                             "\"plugin\":{\"manifest\":{\"path\":\"file:///a/p\",\"contents\":\"m\"},"
                             "\"mcpConfig\":null},\"skills\":[{\"instructions\":{\"path\":"
                             "\"file:///a/s\",\"contents\":\"x\\u0000y\"},\"metadata\":"
                             "{\"path\":\"file:///a/t\",\"contents\":\"\"}},7,{}],"
                             "\"namespaceManifests\":[{\"path\":\"file:///a/n\",\"contents\":\"\"},"
                             "{\"path\":7}],\"warnings\":[\"w\",7],\"error\":null},"
                             "{\"error\":\"bad\",\"skills\":7}]}}\n");
        eq_int(farhand_discover_roots(f, roots, 2, note_root, NULL, NULL), 0);
        eq_str(played_sent(f, server),
               "{\"id\":1,\"method\":\"capabilityRoots/"
               "discoverV1\",\"params\":{\"roots\":[{\"id\":\"one\",\"path\":"
               "\"file:///a\"},{\"id\":\"t\\\"wo\",\"path\":\"file:///b\",\"sandbox\":{\"x\":1}}]}}\n");
        eq_str(told, "0 one - m /a/s 3 1 /a/n w;1 t\"wo bad -;");
        played_queue(server, "{\"id\":2,\"result\":{\"roots\":[{}]}}\n");
        eq_int(farhand_discover_roots(f, roots, 2, note_root, NULL, NULL), -EPROTO);
        (void)played_sent(f, server);
        eq_int(farhand_discover_roots(f, roots, 129, note_root, NULL, NULL), -EINVAL);
        played_lose_capabilities(f, true);
        eq_int(farhand_discover_roots(f, roots, 2, note_root, NULL, NULL), -EOPNOTSUPP);
        roots[1].path = "b";
        eq_int(farhand_discover_roots(f, roots, 2, note_root, NULL, NULL), -EINVAL);
        eq_str(played_sent(f, server), "");
        farhand_free(f);
        fd_close(server);
}
