/* near_files: decodes and runs file requests, as a server would. */
#include "cmd/near_files.h"

#include "agent/agent.h"
#include "base/fatal.h"
#include "base/fd.h"
#include "cmd/cmd.h"
#include "files/answer.h"
#include "files/request.h"
#include "fsop/journal.h"
#include "proto/method.h"

#include <errno.h>
#include <stdio.h>

/* What the requests of one run share. */
static struct {
        struct journal *journal; /* NULL: none was needed yet, or none can be made */
        bool has_tried;
} near;

/* Records that are not of temporary files belong to servers, which will look at them. */
static bool keep_other(UNUSED void *arg, UNUSED const char *directory, UNUSED const char *name)
{
        return false;
}

static struct journal *get_journal(void)
{
        struct err ignored = ERR_INIT;
        if (!near.has_tried && journal_open(NULL, &near.journal, &ignored) < 0)
                near.journal = NULL;
        near.has_tried = true;
        return near.journal;
}

/* Removes temporary files that a killed process has left, as a server does when it starts. */
static void on_interrupted(UNUSED void *arg)
{
        const struct journal *j = get_journal();
        if (j)
                journal_sweep(j, keep_other, NULL);
}

static int tell(struct farhand_error *ret, const struct err *err)
{
        *ret = (struct farhand_error){ .code = -EREMOTEIO, .rpc_code = RPC_INTERNAL };
        if (err->client_code)
                ret->rpc_code = err->client_code;
        else if (err->code == -ESTALE && !err->os_errno)
                ret->rpc_code = RPC_CONFLICT;
        (void)snprintf(ret->text, sizeof(ret->text), "%.1000s", err->text);
        if (err->os_errno)
                (void)snprintf(ret->data, sizeof(ret->data), "{\"errno\":%d}", err->os_errno);
        return ret->code;
}

/* The server sends large files piece by piece, and so has a method of its own for this; here the whole is read at once. */
static int read_file(const struct fs_path *in, struct jsonw *w, struct err *err)
{
        const struct file_open how = { .path = in->path, .mode = FS_OPEN_READ, .follows = in->follows };
        struct stat st;
        _close_ int fd = -1;
        int r = file_open(&how, &fd, &st, err);
        if (r < 0)
                return r;
        jsonw_object(w);
        jsonw_key(w, "dataBase64");
        jsonw_raw(w, S("\""));
        /* One byte more than the file says, so that one that has grown is noticed. */
        ssize_t n = fs_encode(w->out, fd, 0, (size_t)st.st_size + 1);
        if (n < 0)
                return fsop_fail(err, (int)n);
        if (n > st.st_size)
                return fsop_refuse(err, "the file has grown while it was read");
        if (buf_append_char(w->out, '"') < 0)
                return fsop_fail(err, EFBIG);
        jsonw_object_end(w);
        return 0;
}

/* Finds the method, and decodes the params. Of fs/readFile ret->method is NULL. */
static int decode(struct arena *a, const char *method, struct buf *text, struct file_request *ret,
                  struct err *err)
{
        struct json_doc doc;
        struct json_error bad;
        bool is_read = strcmp(method, "fs/readFile") == 0;
        const struct method *m = is_read ? NULL : file_method_find(slice_from_str(method));
        must(is_read || (m && m->run));
        must(json_parse(a, buf_slice(text), &doc, &bad) == 0);
        ret->params = arena_zalloc(a, is_read ? sizeof(struct fs_path) : m->params_size);
        ret->method = m;
        ret->is_change = m && m->is_change;
        params_decode *decoder = is_read ? fs_path_decode : m->decode;
        return decoder(a, &doc, json_root(&doc), ret->params, err);
}

static int call(UNUSED void *arg, const char *method, struct buf *text, struct buf *result,
                struct farhand_error *ret_error)
{
        _arena_ struct arena arena = ARENA_INIT;
        struct err err = ERR_INIT;
        struct jsonw w;
        struct file_request request = { .arena = &arena, .max_message = result->cap };
        int r = decode(&arena, method, text, &request, &err);
        request.journal = request.is_change ? get_journal() : NULL;
        jsonw_begin(&w, result);
        if (r == 0)
                r = request.method ? request.method->run(&request, &w, &err)
                                   : read_file(request.params, &w, &err);
        if (r == 0 && jsonw_end(&w) < 0)
                r = err_set(&err, 0, -EMSGSIZE, "the answer is too large");
        return r < 0 ? tell(ret_error, &err) : 0;
}

/* The paths are real: a link that is found in one was put there meanwhile, by somebody else. */
static int open_file(UNUSED void *arg, const char *path, bool is_written, struct err *err)
{
        const struct file_open how = { .path = slice_from_str(path),
                                       .mode = is_written ? FS_OPEN_REPLACE : FS_OPEN_READ,
                                       .follows = false };
        struct stat st;
        int fd;
        int r = file_open(&how, &fd, &st, err);
        return r < 0 ? r : fd;
}

const struct patch_near near_files = { .call = call, .open = open_file, .on_interrupted = on_interrupted };

void near_files_end(void)
{
        near.journal = journal_close(near.journal);
}

int cmd_apply_patch(int argc, char **argv)
{
        int code = agent_apply_patch(argc, argv, &near_files);
        near_files_end();
        return code;
}

int cmd_apply_patch_by_name(int argc, char **argv)
{
        int code = apply_patch_main(argc, argv, &near_files);
        near_files_end();
        return code;
}
