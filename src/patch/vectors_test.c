/* vectors_test: what the reference program made of patches, as far as text alone decides it (tests/vectors/apply_patch.json). The files
 * lie in memory; what needs a file system or a command line is left to the tests of the program. */
#include "base/fd.h"
#include "hunk/text_rig.h"
#include "wire/json.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define FILES_MAX 8
/* Vectors of the reference program that this program does not follow: there a file that is moved onto itself is deleted, and files must
 * be UTF-8. */
#define SELF_MOVE 69
#define NOT_UTF8 32

struct file {
        struct slice name, text;
};

struct files {
        struct file list[FILES_MAX];
        size_t count;
};

static struct file *find_file(struct files *f, struct slice name)
{
        for (size_t i = 0; i < f->count; i++)
                if (slice_eq(f->list[i].name, name))
                        return &f->list[i];
        return NULL;
}

static void put_file(struct files *f, struct slice name, struct slice text)
{
        struct file *file = find_file(f, name);

        if (!file) {
                must(f->count < FILES_MAX);
                file = &f->list[f->count++];
        }
        *file = (struct file){ name, text };
}

static void drop_file(struct files *f, struct slice name)
{
        struct file *file = find_file(f, name);

        must(file);
        *file = f->list[--f->count];
}

/* Reads the files of a vector; false when one of them is more than a text. */
static bool read_files(struct arena *a, const struct json_doc *d, const struct json *v, struct files *ret)
{
        *ret = (struct files){ 0 };
        json_each (it, d, v) {
                const struct json *text = it + 1;
                if (text->type == JSON_OBJECT)
                        text = json_get(d, text, S("text"));
                if (!text || text->type != JSON_STRING)
                        return false;
                put_file(ret, json_string(a, d, it), json_string(a, d, text));
        }
        return true;
}

static bool has(struct slice text, const char *part)
{
        return memmem(text.p, text.n, part, strlen(part)) != NULL;
}

/* Returns whether the outcome of a vector follows from the patch and the texts alone. */
static bool is_decided_by_text(struct slice patch, struct slice said, int64_t id, const struct json *extra)
{
        return !extra && id != SELF_MOVE && id != NOT_UTF8 && patch.n && !has(said, "Failed to write") &&
               !has(said, "Failed to delete") && !has(said, "Failed to read");
}

static int update(struct arena *a, struct files *files, const struct hunk *h, struct patch_error *error)
{
        struct file *file = find_file(files, h->path);
        struct drip d = { .text = file->text, .step = 2 };
        struct reader reader = drip_reader(&d);
        struct edits edits;
        struct edits_reader e;
        struct err err = ERR_INIT;
        struct slice path = slice_from_str(arena_printf(a, "<CWD>/%.*s", SLICE(h->path)));
        int r = place_find(a, h, path, &reader, &edits, error, &err);

        if (r < 0)
                return r;
        struct reader fresh = edits_read(&e, &edits, &reader);
        struct slice text = rig_read_all(a, &fresh, 5);
        eq_u64(text.n, edits.new_bytes);
        file->text = text;
        if (h->move_to.p) {
                drop_file(files, h->path);
                put_file(files, h->move_to, text);
        }
        return 0;
}

/* Applies a patch to files in memory. Returns what the program would print as an error, "" for success. */
static struct slice apply(struct arena *a, struct files *files, struct slice text)
{
        struct patch patch;
        struct patch_error error;
        int r = patch_parse(a, text, &patch, &error);

        if (!r && !patch.hunk_count)
                return S("No files were modified.\n");
        for (size_t i = 0; !r && i < patch.hunk_count; i++) {
                const struct hunk *h = &patch.hunks[i];
                if (h->kind == HUNK_ADD)
                        put_file(files, h->path, hunk_added_text(a, h));
                else if (h->kind == HUNK_DELETE)
                        drop_file(files, h->path);
                else
                        r = update(a, files, h, &error);
        }
        return r < 0 ? slice_from_str(arena_printf(a, "%s\n", patch_error_text(a, &error))) : S("");
}

static void eq_files(struct files *got, struct files *want)
{
        eq_u64(got->count, want->count);
        for (size_t i = 0; i < want->count; i++) {
                struct file *file = find_file(got, want->list[i].name);
                ok(file);
                eq_slice(file->text, want->list[i].text);
        }
}

static bool run_vector(struct arena *a, const struct json_doc *d, const struct json *v)
{
        struct files files, after;
        struct slice patch = json_string(a, d, json_get(d, v, S("patch")));
        struct slice said = json_string(a, d, json_get(d, v, S("stderr")));
        int64_t id;

        eq_int(json_i64(d, json_get(d, v, S("id")), &id), 0);
        if (!is_decided_by_text(patch, said, id, json_get(d, v, S("extra_args"))) ||
            !read_files(a, d, json_get(d, v, S("before")), &files) ||
            !read_files(a, d, json_get(d, v, S("after")), &after))
                return false;
        if (has(patch, "<CWD>") || has(patch, "/../")) /* needs a working directory */
                return false;
        struct slice got = apply(a, &files, patch);
        if (!slice_eq(got, said))
                print_message("vector %d: %.*s\n", (int)id, SLICE(got));
        eq_slice(got, said);
        eq_files(&files, &after);
        return true;
}

TEST(patches_do_what_the_reference_program_does)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(4 << 20);
        _close_ int fd = open(UNIT_VECTORS "/apply_patch.json", O_RDONLY | O_CLOEXEC);
        struct json_doc doc;
        struct json_error error;
        unsigned ran = 0;
        char *room;
        ssize_t n;

        ok(fd >= 0);
        do {
                must(buf_reserve(&text, 65536, &room) == 0);
                n = read(fd, room, 65536);
                must(n >= 0);
                buf_commit(&text, (size_t)n);
        } while (n > 0);
        eq_int(json_parse(&a, buf_slice(&text), &doc, &error), 0);
        const struct json *vectors = json_get(&doc, json_root(&doc), S("vectors"));
        json_each (v, &doc, vectors)
                ran += run_vector(&a, &doc, v);
        eq_u64(json_count(&doc, vectors), 128);
        eq_u64(ran, 110);
}
