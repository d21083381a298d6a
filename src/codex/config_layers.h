/* config_layers: reads the configuration files of Codex that apply to a directory of this machine.
 *
 * Each file is a layer. Lowest precedence first, these are the system's file, the user's, the files of the project from its root
 * down to the directory, and the system's managed_config.toml. A file of a project counts only where the files outside of the
 * project call its root, or the directory of the file, trusted; the keys that a project may not set are removed from it. This
 * module does not interpret the other keys. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/toml.h"

struct config_place {
        const char *system; /* "/etc/codex" */
        const char *home;   /* the user's directory of Codex files */
        const char *cwd;    /* absolute, without `.`, `..` and double slashes; need not exist */
};

struct config_layer {
        const char *source; /* as clients know it: "user (PATH)" */
        const char *directory;
        const struct toml *table;
        bool is_system; /* has lower precedence than the configuration that a client gets from the cloud */
};

struct config_layers {
        struct config_layer *list;
        size_t count;
};

/* Reads the configuration layers; blocks. A missing file is no layer; a file that cannot be read, is too large or is not TOML is an
 * error. The result lives in the arena. */
NODISCARD int fsop_config_layers(struct arena *a, const struct config_place *place, struct config_layers *ret,
                                 struct err *err);
/* Reads the requirements of administrators in the same way: the system's requirements.toml. */
NODISCARD int fsop_requirement_layers(struct arena *a, const struct config_place *place,
                                      struct config_layers *ret, struct err *err);
