/* patch_error: puts the words that belong to the kind of an error before its message. */
#include "hunk/patch_error.h"

/* Returns the message with a text before it. */
static const char *joined(struct arena *a, const char *before, struct slice message)
{
        size_t n = strlen(before);
        char *text = arena_alloc(a, n + message.n + 1);

        memcpy(text, before, n);
        if (message.n)
                memcpy(text + n, message.p, message.n);
        text[n + message.n] = 0;
        return text;
}

const char *patch_error_text(struct arena *a, const struct patch_error *error)
{
        if (error->kind == PATCH_ERROR_TEXT)
                return joined(a, "Invalid patch: ", error->message);
        if (error->kind == PATCH_ERROR_HUNK)
                return joined(a, arena_printf(a, "Invalid patch hunk on line %zu: ", error->line),
                              error->message);
        return error->message.p;
}

const char *patch_error_tool_text(struct arena *a, const struct patch_error *error)
{
        if (error->kind == PATCH_ERROR_TEXT)
                return joined(a, "invalid patch: ", error->message);
        if (error->kind == PATCH_ERROR_HUNK)
                return joined(a, arena_printf(a, "invalid hunk at line %zu, ", error->line), error->message);
        return error->message.p;
}
