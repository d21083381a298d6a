/* clients: which MCP clients there are. A client that has a variable for the place of its configuration is found by that variable. */
#include "install/clients.h"

#include <stdlib.h>

/* Returns the path below the directory that the variable names; without the variable, below `otherwise` in the home directory. A
 * relative path in a variable would mean another file to each program that reads it. */
static const char *path_in(struct arena *a, const char *variable, const char *otherwise, const char *name)
{
        const char *directory = variable ? getenv(variable) : NULL, *home = getenv("HOME");

        if (directory && directory[0])
                return directory[0] == '/' ? arena_printf(a, "%s/%s", directory, name) : NULL;
        return home && home[0] == '/' ? arena_printf(a, "%s/%s%s", home, otherwise, name) : NULL;
}

static const char *claude_path(struct arena *a)
{
        return path_in(a, "CLAUDE_CONFIG_DIR", "", ".claude.json");
}

static const char *codex_path(struct arena *a)
{
        return path_in(a, "CODEX_HOME", ".codex/", "config.toml");
}

static const char *cursor_path(struct arena *a)
{
        return path_in(a, NULL, ".cursor/", "mcp.json");
}

static const char *vscode_path(struct arena *a)
{
        return path_in(a, "XDG_CONFIG_HOME", ".config/", "Code/User/mcp.json");
}

static const char *gemini_path(struct arena *a)
{
        return path_in(a, "GEMINI_CLI_HOME", "", ".gemini/settings.json");
}

static const struct client clients[] = {
        { "claude", "Claude Code", { FORM_JSON, "mcpServers", .has_type = true }, claude_path },
        { "codex", "Codex", { FORM_TOML, "mcp_servers", .has_type = false }, codex_path },
        { "cursor", "Cursor", { FORM_JSON, "mcpServers", .has_type = false }, cursor_path },
        { "vscode", "VS Code", { FORM_JSON_COMMENTS_COMMAS, "servers", .has_type = true }, vscode_path },
        { "gemini", "Gemini CLI", { FORM_JSON_COMMENTS, "mcpServers", .has_type = false }, gemini_path },
};

const struct client *clients_find(const char *name)
{
        for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++)
                if (strcmp(clients[i].name, name) == 0)
                        return &clients[i];
        return NULL;
}
