/* clients: which MCP clients there are, where each keeps its configuration, and how that is written. */
#pragma once

#include "install/entry.h"

struct client {
        const char *name, *title;
        struct config_shape shape;
        /* Returns the path of its configuration in the arena, or NULL when no variable says where that is. */
        const char *(*path)(struct arena *a);
};

/* Returns NULL when there is no client of that name. */
NODISCARD const struct client *clients_find(const char *name);
/* The names of all clients, for people. */
#define CLIENTS_NAMES "claude, codex, cursor, vscode or gemini"
