/* random: random bytes from the kernel.
 *
 * getrandom(2) waits only until the kernel has gathered enough randomness after boot; from then on it does not fail.
 */
#include "base/random.h"

#include "base/mem.h"

#include <errno.h>
#include <sys/random.h>

void random_bytes(void *p, size_t n)
{
        char *at = p;

        while (n > 0) {
                ssize_t r = getrandom(at, n, 0);
                if (r < 0 && errno == EINTR)
                        continue;
                must(r > 0);
                at += r;
                n -= (size_t)r;
        }
}

void random_uuid(char ret[UUID_TEXT_BYTES])
{
        static const char hex[] = "0123456789abcdef";
        unsigned char b[16];
        size_t out = 0;

        random_bytes(b, sizeof(b));
        b[6] = (unsigned char)((b[6] & 0x0f) | 0x40); /* RFC 9562, 5.4: version 4 */
        b[8] = (unsigned char)((b[8] & 0x3f) | 0x80); /* variant 10 */

        for (size_t i = 0; i < sizeof(b); i++) {
                if (i == 4 || i == 6 || i == 8 || i == 10)
                        ret[out++] = '-';
                ret[out++] = hex[b[i] >> 4];
                ret[out++] = hex[b[i] & 15];
        }
        ret[out] = '\0';
}

const uint64_t *random_hash_key(void)
{
        static uint64_t key[2];
        static bool is_made;
        if (!is_made) {
                random_bytes(key, sizeof(key));
                is_made = true;
        }
        return key;
}
