/* env_config: params of environmentConfig/read. */
#pragma once

#include "base/toml_write.h"
#include "proto/decode.h"

struct env_config_read {
        struct slice cwd;
        struct toml_path *config;
        size_t config_count;
        struct toml_path *requirements;
        size_t requirements_count;
};
NODISCARD params_decode env_config_read_decode;
