/* cp_claim: claims the part of a copy on a server (cp_claim.h). */
#include "farfs/cp_claim.h"

#include "base/mem.h"

#include <errno.h>

#define CLAIMS_MAX 4 /* how often a part that cannot be continued is removed before the copy gives up */
#define CUTS_MAX 100 /* how often a request is tried; another try follows only when the connection was lost */

/* Returns whether this is a file that a copy may have left: neither a link nor another name of somebody's file, and a file of the
 * server's user, to whom /proc/self belongs. Another owner could change the part after it was compared. */
static bool is_part(struct cp_dir *dir, const char *part)
{
        struct farhand *client = dir->side->fs.client;
        struct farhand_metadata m, self;
        _free_ char *path = cp_path(dir, part);
        return farhand_stat(client, path, &m, NULL) == 0 && m.is_file && !m.is_symlink && m.links == 1 &&
               farhand_stat(client, "/proc/self", &self, NULL) == 0 && self.has_mode && self.uid == m.uid;
}

/* Makes the part of a private file with its mode from the beginning: a program that opens the file before the mode is set could read all
 * that is written later. What exists stays. */
static int make_private(struct cp_dir *dir, const char *part, struct farhand_error *ret_error)
{
        struct farhand_write options = FARHAND_WRITE_INIT;
        _free_ char *path = cp_path(dir, part);
        options.mode = 0600;
        options.if_absent = true;
        int r = -ECONNRESET;
        for (int i = 0; i < CUTS_MAX && r == -ECONNRESET && !cp_is_lost(dir->cp); i++)
                r = farhand_write_file_with(dir->side->fs.client, path, "", 0, &options, ret_error);
        return r == -EREMOTEIO && ret_error->rpc_code == FARHAND_CONFLICT ? 0 : r;
}

static int remove_part(struct cp_dir *dir, const char *part, struct farhand_error *ret_error)
{
        _free_ char *path = cp_path(dir, part);
        int r = -ECONNRESET;
        for (int i = 0; i < CUTS_MAX && r == -ECONNRESET && !cp_is_lost(dir->cp); i++)
                r = farhand_remove(dir->side->fs.client, path, false, true, ret_error);
        return r;
}

/* Opens the part, which is made when it does not exist, so that no other copy has it. */
static struct farhand_file *open_claim(struct cp_dir *dir, const char *part, struct farhand_error *ret_error)
{
        struct farhand_file_options options = FARHAND_FILE_OPTIONS_INIT;
        _free_ char *path = cp_path(dir, part);
        options.mode = FARHAND_FILE_RESUME;
        options.window = 1;
        options.refuse_links = options.lock = true;
        struct farhand_file *file = farhand_file_open(dir->side->fs.client, path, &options, ret_error);
        if (file && farhand_file_wait(file, -1, ret_error) < 0) {
                farhand_file_free(file);
                return NULL;
        }
        return file;
}

struct farhand_file *cp_claim(struct cp_dir *dir, const char *part, bool is_private,
                              uint64_t (*find)(void *arg), void *arg, uint64_t *ret_offset)
{
        struct farhand_error error = { .code = -EBUSY, .text = "somebody else writes to it" };
        struct cp_meta meta;
        /* From the second round on, this function itself has made the part. So the part is ours even when the server tells no
         * owner, or gives files to another user. */
        for (int i = 0; i < CLAIMS_MAX; i++) {
                /* What is not a file, such as a link, cannot be claimed, and no copy has made it. */
                bool is_file =
                        cp_look(dir, part, &meta) == 0 && (meta.kind == CP_FILE || meta.kind == CP_NOTHING);
                if (!is_file && remove_part(dir, part, &error) < 0)
                        break;
                if (is_private && make_private(dir, part, &error) < 0)
                        break;
                struct farhand_file *claim = open_claim(dir, part, &error);
                if (!claim && farhand_error_errno(&error) == EAGAIN) {
                        cp_complain_text(dir, part, "another copy to this file is under way");
                        return NULL;
                }
                bool is_ours = claim && is_part(dir, part);
                if (claim && (is_ours || i > 0) && cp_look(dir, part, &meta) == 0) {
                        *ret_offset = is_ours && find && meta.size > 0 ? find(arg) : 0;
                        bool was_open = is_private && *ret_offset == 0 && meta.has_mode && (meta.mode & 077);
                        if (meta.size == *ret_offset && !was_open)
                                return claim;
                }
                bool is_gone = remove_part(dir, part, &error) == 0;
                farhand_file_free(claim);
                if (!is_gone)
                        break;
        }
        cp_complain(dir, part, &error);
        return NULL;
}

bool cp_claim_is_held(struct cp_dir *dir, const char *name, struct farhand_file *claim)
{
        struct farhand_error error;
        if (farhand_file_wait(claim, -1, &error) == 0)
                return true;
        if (farhand_error_errno(&error) == EAGAIN)
                cp_complain_text(dir, name, "another copy to this file is under way");
        else
                cp_complain(dir, name, &error);
        return false;
}
