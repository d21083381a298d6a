/* state: asks the server for the states of files, and compares them. */
#include "patch/state.h"

#include <errno.h>
#include <nettle/sha2.h>

#define DIGEST_PREFIX "sha256:"

/* ---- digests ---- */

void digest_of(struct slice bytes, uint8_t ret[DIGEST_BYTES])
{
        struct sha256_ctx hash;
        sha256_init(&hash);
        sha256_update(&hash, bytes.n, (const uint8_t *)bytes.p);
        sha256_digest(&hash, DIGEST_BYTES, ret);
}

void digest_write(const uint8_t digest[DIGEST_BYTES], char ret[DIGEST_TEXT_BYTES])
{
        static const char digits[] = "0123456789abcdef";
        memcpy(ret, DIGEST_PREFIX, sizeof(DIGEST_PREFIX) - 1);
        char *to = ret + sizeof(DIGEST_PREFIX) - 1;
        for (size_t i = 0; i < DIGEST_BYTES; i++) {
                *to++ = digits[digest[i] >> 4];
                *to++ = digits[digest[i] & 15];
        }
        *to = '\0';
}

bool digest_read(struct slice text, uint8_t ret[DIGEST_BYTES])
{
        if (text.n != DIGEST_TEXT_BYTES - 1 || !slice_starts(text, S(DIGEST_PREFIX)))
                return false;
        const char *from = text.p + sizeof(DIGEST_PREFIX) - 1;
        for (size_t i = 0; i < DIGEST_BYTES; i++) {
                int high = ascii_hex_value(from[2 * i]), low = ascii_hex_value(from[2 * i + 1]);
                if (high < 0 || low < 0)
                        return false;
                ret[i] = (uint8_t)(high * 16 + low);
        }
        return true;
}

void state_set_content(struct file_state *state, struct slice bytes)
{
        state->size = bytes.n;
        state->has_digest = true;
        digest_of(bytes, state->digest);
}

/* ---- states ---- */

static void take_state(void *arg, const struct answer *answer)
{
        struct look *look = arg;
        const struct json *root = answer->root;
        const struct failure *failure = answer->failure;
        look->state = (struct file_state){ .kind = FILE_ABSENT };
        if (failure) {
                bool is_absent = failure->os_errno == ENOENT && !failure->denial;
                look->failure = is_absent ? NULL : failure;
                return;
        }
        look->is_link = answered_flag(answer, root, "isSymlink");
        look->state = (struct file_state){
                .kind = answered_flag(answer, root, "isFile")        ? FILE_REGULAR
                        : answered_flag(answer, root, "isDirectory") ? FILE_DIRECTORY
                                                                     : FILE_OTHER,
                .size = answered_number(answer, root, "size"),
                .modified_ms = answered_time(answer, root, "modifiedAtMs"),
                .has_mode = json_get(answer->doc, root, S("mode")) != NULL,
                .mode = (uint32_t)answered_number(answer, root, "mode") & 07777,
                .uid = (uint32_t)answered_number(answer, root, "uid"),
                .gid = (uint32_t)answered_number(answer, root, "gid"),
                .links = answered_number(answer, root, "links"),
        };
        look->state.has_digest = digest_read(answered_text(answer, root, "digest"), look->state.digest);
}

void look_send(struct asks *s, struct look *look)
{
        struct jsonw *w = ask_about(s, look->path);
        if (asks_has(s, "fsControlV1")) {
                if (look->wants_digest)
                        jsonw_member_bool(w, "digest", true);
                if (!look->follows)
                        jsonw_member_bool(w, "followSymlinks", false);
        }
        ask_send(s, "fs/getMetadata", true, take_state, look);
}

void look_now(struct asks *s, struct look *look)
{
        look_send(s, look);
        asks_wait(s);
}

bool state_is_same(const struct file_state *a, const struct file_state *b)
{
        if (a->kind != b->kind)
                return false;
        if (a->kind == FILE_LINK)
                return a->target && b->target && strcmp(a->target, b->target) == 0;
        if (a->kind != FILE_REGULAR)
                return true;
        if (a->size != b->size)
                return false;
        if (a->has_digest && b->has_digest)
                return memcmp(a->digest, b->digest, DIGEST_BYTES) == 0;
        return a->modified_ms == b->modified_ms;
}
