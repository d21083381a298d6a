/* random_test: random bytes and UUIDs. */
#include "base/random.h"

#include "unit.h"

TEST(all_bytes_are_filled_and_none_behind)
{
        static unsigned char bytes[100001];
        size_t counts[256] = { 0 };

        bytes[100000] = 0x5a;
        random_bytes(bytes, 100000);
        eq_int(bytes[100000], 0x5a);
        for (size_t i = 0; i < 100000; i++)
                counts[bytes[i]]++;
        for (size_t i = 0; i < 256; i++)
                ok(counts[i] > 200 && counts[i] < 600); /* 391 expected; 10 sigma */
        random_bytes(NULL, 0);
}

TEST(uuids_have_the_form_of_version_4_and_differ)
{
        char ids[200][UUID_TEXT_BYTES];

        for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
                random_uuid(ids[i]);
                eq_u64(strlen(ids[i]), 36);
                for (size_t c = 0; c < 36; c++) {
                        bool dash = c == 8 || c == 13 || c == 18 || c == 23;
                        ok(dash ? ids[i][c] == '-' : strchr("0123456789abcdef", ids[i][c]) != NULL);
                }
                eq_int(ids[i][14], '4');
                ok(strchr("89ab", ids[i][19]) != NULL);
                for (size_t j = 0; j < i; j++)
                        ok(strcmp(ids[i], ids[j]) != 0);
        }
}
