/* config_layers_test: which configuration files apply to a directory, in which order. */
#include "codex/config_layers.h"

#include "base/buf.h"
#include "base/toml_write.h"
#include "fsop/rig.h"
#include "unit.h"

#include <errno.h>

static struct err err;

static struct slice trusted(const char *path)
{
        static char text[1024];
        int n = snprintf(text, sizeof(text), "[projects.\"%s\"]\ntrust_level = \"trusted\"\n", path);
        return slice_from(text, (size_t)n);
}

static struct rig rig_with_project(void)
{
        struct rig rig = rig_new();
        static const char *const directories[] = { "etc",   "home",         "p",         "p/.git", "p/.codex",
                                                   "p/sub", "p/sub/.codex", "p/sub/deep" };
        for (size_t i = 0; i < ARRAY_LEN(directories); i++)
                rig_directory(&rig, directories[i]);
        rig_file(&rig, "p/.codex/config.toml", S("m = \"p\"\notel = 1\n[model_providers.x]\ny = 1\n"));
        rig_file(&rig, "p/sub/.codex/config.toml", S("m = \"sub\"\n"));
        return rig;
}

static int layers(struct arena *a, const struct rig *rig, const char *cwd, struct config_layers *ret)
{
        const struct config_place place = {
                .system = arena_dup(a, slice_from_str(rig_path(rig, "etc"))),
                .home = arena_dup(a, slice_from_str(rig_path(rig, "home"))),
                .cwd = arena_dup(a, slice_from_str(cwd[0] == '/' ? cwd : rig_path(rig, cwd))),
        };
        err = ERR_INIT;
        return fsop_config_layers(a, &place, ret, &err);
}

/* Lists the value of the key `m` in each layer; "-" where it is missing. */
static const char *told(const struct rig *rig, const char *cwd)
{
        static char text[256];
        _arena_ struct arena a = ARENA_INIT;
        struct config_layers l;

        text[0] = 0;
        eq_int(layers(&a, rig, cwd, &l), 0);
        for (size_t i = 0; i < l.count; i++) {
                const struct toml *m = toml_find(l.list[i].table, S("m"));
                size_t n = strlen(text);
                (void)snprintf(text + n, sizeof(text) - n, "%s%.*s", i ? " " : "", m ? (int)m->string.n : 1,
                               m ? m->string.p : "-");
        }
        return text;
}

TEST(layers_come_with_the_lowest_precedence_first)
{
        _rig_ struct rig rig = rig_with_project();
        _arena_ struct arena a = ARENA_INIT;
        struct config_layers l;

        rig_file(&rig, "etc/config.toml", S("m = \"system\"\n"));
        rig_file(&rig, "etc/managed_config.toml", S("m = \"managed\"\n"));
        rig_file(&rig, "home/config.toml", trusted(rig_path(&rig, "p")));
        eq_str(told(&rig, "p/sub/deep"), "system - p sub managed");
        eq_str(told(&rig, "p/none/below"), "system - p managed");
        eq_str(told(&rig, "/"), "system - managed");

        eq_int(layers(&a, &rig, "p", &l), 0);
        ok(l.list[0].is_system && !l.list[1].is_system);
        eq_str(l.list[2].directory, rig_path(&rig, "p/.codex"));
        ok(!toml_find(l.list[2].table, S("otel")) && !toml_find(l.list[2].table, S("model_providers")));
}

TEST(a_project_counts_only_where_it_is_trusted)
{
        _rig_ struct rig rig = rig_with_project();

        eq_str(told(&rig, "p/sub"), "");
        rig_file(&rig, "home/config.toml", trusted(rig_path(&rig, "p/sub")));
        eq_str(told(&rig, "p/sub"), "- sub");
        rig_file(&rig, "home/config.toml", trusted(rig_path(&rig, ".")));
        eq_str(told(&rig, "p/sub"), "-");
        rig_file(&rig, "home/config.toml", trusted(rig_path(&rig, "p")));
        rig_file(&rig, "etc/managed_config.toml", S("project_root_markers = [\"nope\"]\n"));
        eq_str(told(&rig, "p/sub"), "- -");
        eq_str(told(&rig, "p"), "- p -");
}

TEST(a_file_that_cannot_be_read_is_an_error_and_one_that_is_missing_is_none)
{
        _rig_ struct rig rig = rig_with_project();
        _arena_ struct arena a = ARENA_INIT;
        struct config_layers l;

        eq_str(told(&rig, "p"), "");
        rig_file(&rig, "home/config.toml", S("m = \n"));
        ok(layers(&a, &rig, "p", &l) < 0 && strstr(err.text, "home/config.toml: line 1"));
        unlink(rig_path(&rig, "home/config.toml"));
        rig_directory(&rig, "home/config.toml");
        ok(layers(&a, &rig, "p", &l) < 0 && strstr(err.text, "is not a file"));
        rmdir(rig_path(&rig, "home/config.toml"));
        rig_fifo(&rig, "home/config.toml");
        ok(layers(&a, &rig, "p", &l) < 0);
        unlink(rig_path(&rig, "home/config.toml"));
        rig_link(&rig, "home/config.toml", "config.toml");
        ok(layers(&a, &rig, "p", &l) < 0);
}
