/* env_config: params of environmentConfig/read. */
#pragma once

#include "base/toml_write.h"
#include "proto/decode.h"

struct env_config_read {
        struct slice cwd;
        struct toml_path *config; /* the members of the configuration to be read */
        size_t config_count;
        struct toml_path *requirements; /* the members of requirements.toml to be read */
        size_t requirements_count;
};
NODISCARD params_decode env_config_read_decode;
