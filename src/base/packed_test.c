/* packed_test: fields are read back as they were written; the first broken one breaks what follows. */
#include "base/packed.h"
#include "unit.h"

#include <errno.h>

TEST(packed_fields_are_read_back)
{
        _buf_ struct buf out = BUF_INIT(100);
        struct packer p = pack_begin(&out);
        pack_number(&p, 1, 0xfe);
        pack_number(&p, 8, UINT64_MAX - 1);
        pack_flag(&p, true);
        pack_count(&p, 2, 2);
        pack_text(&p, S("a\0b"), 3);
        eq_int(pack_end(&p), 0);

        struct unpacker u = unpack_begin(buf_slice(&out));
        eq_int(unpack_number(&u, 1), 0xfe);
        eq_u64(unpack_number(&u, 8), UINT64_MAX - 1);
        ok(unpack_flag(&u));
        eq_int(unpack_count(&u, 2, 1), 2);
        eq_slice(unpack_text(&u, 3), S("a\0b"));
        eq_int(unpack_end(&u), 0);
}

TEST(after_a_broken_field_all_are_empty)
{
        struct unpacker u = unpack_begin(S("\2\1\0\0\0\0"));
        ok(!unpack_flag(&u));
        ok(u.is_broken);
        eq_int(unpack_number(&u, 1), 0);
        eq_int(unpack_text(&u, 10).n, 0);
        eq_int(unpack_count(&u, 10, 1), 0);
        eq_int(unpack_end(&u), -EPROTO);
}

TEST(a_count_of_more_than_can_follow_is_broken)
{
        struct unpacker u = unpack_begin(S("\3\0\0\0ababa"));
        eq_int(unpack_count(&u, 10, 2), 0);
        ok(u.is_broken);
        u = unpack_begin(S("\3\0\0\0ababab"));
        eq_int(unpack_count(&u, 10, 2), 3);
        u = unpack_begin(S("\3\0\0\0ababab"));
        eq_int(unpack_count(&u, 2, 2), 0);
        eq_int(unpack_end(&u), -EPROTO);
}

TEST(what_does_not_fit_leaves_the_buffer_as_it_was)
{
        _buf_ struct buf out = BUF_INIT(8);
        eq_int(buf_append(&out, S("x")), 0);
        struct packer p = pack_begin(&out);
        pack_text(&p, S("abcd"), 3);
        pack_number(&p, 1, 1);
        eq_int(pack_end(&p), -EMSGSIZE);
        p = pack_begin(&out);
        pack_number(&p, 4, 1);
        pack_number(&p, 4, 1);
        eq_int(pack_end(&p), -ENOBUFS);
        eq_slice(buf_slice(&out), S("x"));
}
