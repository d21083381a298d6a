/* exec_path: makes paths absolute, and takes their last component. */
#include "rules/exec_path.h"

/* Appends the components of `path` to the text of *n bytes, which begins with a slash and has no slash at its end. */
static void append_components(char *text, size_t *n, struct slice path)
{
        while (path.p) {
                struct slice part = slice_split(&path, '/');
                if (part.n == 0 || slice_eq(part, S(".")))
                        continue;
                if (slice_eq(part, S(".."))) {
                        while (*n > 0 && text[--*n] != '/')
                                ;
                        continue;
                }
                text[(*n)++] = '/';
                memcpy(text + *n, part.p, part.n);
                *n += part.n;
        }
}

struct slice exec_path_absolute(struct arena *a, const char *cwd, struct slice path)
{
        bool is_absolute = path.n > 0 && path.p[0] == '/';
        struct slice from = slice_from_str(is_absolute ? "" : cwd);
        size_t size, n = 0;

        if (!is_absolute && !cwd)
                return (struct slice){ 0 };
        if (ckd_add(&size, from.n, path.n) || ckd_add(&size, size, 3))
                return (struct slice){ 0 };
        char *text = arena_alloc(a, size);
        append_components(text, &n, from);
        append_components(text, &n, path);
        if (n == 0)
                text[n++] = '/';
        return slice_from(text, n);
}

struct slice exec_path_base(struct slice path)
{
        size_t start = path.n;

        while (start > 0 && path.p[start - 1] != '/')
                start--;
        return slice_from(path.p + start, path.n - start);
}
