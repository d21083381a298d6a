/* methods: the list of all methods, by family. */
#include "server/methods.h"

/* clang-format off */
static const struct family {
        const struct method *methods;
        const size_t *count;
} families[] = {
        { process_methods, &process_method_count },
        { file_methods, &file_method_count },
        { read_methods, &read_method_count },
        { handle_methods, &handle_method_count },
        { watch_methods, &watch_method_count },
        { session_methods, &session_method_count },
        { environment_methods, &environment_method_count },
        { http_methods, &http_method_count },
        { discover_methods, &discover_method_count },
        { config_methods, &config_method_count },
};
/* clang-format on */

const struct method *method_find(struct slice name)
{
        for (size_t f = 0; f < ARRAY_LEN(families); f++)
                for (size_t i = 0; i < *families[f].count; i++)
                        if (slice_eq(name, slice_from_str(families[f].methods[i].name)))
                                return &families[f].methods[i];
        return NULL;
}
