/* packed: reads and writes fields one after the other, and remembers the first that is broken or does not fit. */
#include "base/packed.h"

#include <errno.h>

uint64_t unpack_number(struct unpacker *u, size_t bytes)
{
        struct slice s = unpack_bytes(u, bytes);
        uint64_t v = 0;
        for (size_t i = s.n; i-- > 0;)
                v = v << 8 | (unsigned char)s.p[i];
        return v;
}

uint64_t unpack_number_to(struct unpacker *u, size_t bytes, uint64_t max)
{
        uint64_t v = unpack_number(u, bytes);
        if (v <= max)
                return v;
        u->is_broken = true;
        return 0;
}

bool unpack_flag(struct unpacker *u)
{
        return unpack_number_to(u, 1, 1) == 1;
}

struct slice unpack_bytes(struct unpacker *u, size_t n)
{
        if (u->is_broken || u->rest.n < n) {
                u->is_broken = true;
                return S("");
        }
        struct slice s = slice_from(u->rest.p, n);
        u->rest = slice_from(u->rest.p + n, u->rest.n - n);
        return s;
}

struct slice unpack_text(struct unpacker *u, uint32_t max)
{
        return unpack_bytes(u, (size_t)unpack_number_to(u, 4, max));
}

uint32_t unpack_count(struct unpacker *u, uint32_t max, size_t least)
{
        uint32_t count = (uint32_t)unpack_number_to(u, 4, max);
        if (!u->is_broken && count <= u->rest.n / least)
                return count;
        u->is_broken = true;
        return 0;
}

int unpack_end(const struct unpacker *u)
{
        return u->is_broken || u->rest.n > 0 ? -EPROTO : 0;
}

void pack_number(struct packer *p, size_t bytes, uint64_t v)
{
        char le[8];
        for (size_t i = 0; i < bytes; i++, v >>= 8)
                le[i] = (char)(v & 0xff);
        pack_bytes(p, slice_from(le, bytes));
}

void pack_flag(struct packer *p, bool v)
{
        pack_number(p, 1, v);
}

void pack_bytes(struct packer *p, struct slice bytes)
{
        if (!p->error)
                p->error = buf_append(p->out, bytes);
}

void pack_text(struct packer *p, struct slice text, uint32_t max)
{
        pack_count(p, text.n, max);
        pack_bytes(p, text);
}

void pack_count(struct packer *p, size_t count, uint32_t max)
{
        if (!p->error && count > max)
                p->error = -EMSGSIZE;
        pack_number(p, 4, count);
}

int pack_end(struct packer *p)
{
        if (p->error)
                buf_truncate(p->out, p->at);
        return p->error;
}
