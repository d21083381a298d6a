/* methods: the list of all methods. Each family is an array beside the code of its methods. */
#pragma once

#include "core/req.h"
#include "files/request.h"

extern const struct method session_methods[], process_methods[], environment_methods[], http_methods[],
        read_methods[], handle_methods[], watch_methods[], discover_methods[], config_methods[];
extern const size_t session_method_count, process_method_count, environment_method_count, http_method_count,
        read_method_count, handle_method_count, watch_method_count, discover_method_count,
        config_method_count;

/* Returns NULL when no method has that name. Any thread may call this function. */
NODISCARD const struct method *method_find(struct slice name);
