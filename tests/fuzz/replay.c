/* replay: runs a fuzz harness once on each file that is named, in place of libFuzzer: so every compiler builds the harnesses,
 * and their seeds are tests. */
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"

#define SEED_BYTES_MAX (16 * 1024 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

int main(int argc, char **argv)
{
        if (LLVMFuzzerInitialize)
                (void)LLVMFuzzerInitialize(&argc, &argv);
        for (int i = 1; i < argc; i++) {
                _buf_ struct buf seed = BUF_INIT(SEED_BYTES_MAX);
                must(fd_read_file(argv[i], SEED_BYTES_MAX, &seed) == 0);
                /* The buffer is exactly as long as the seed, so that a memory checker reports a read beyond it. */
                _free_ uint8_t *bytes = mem_alloc(MAX(seed.n, (size_t)1));
                if (seed.n > 0)
                        memcpy(bytes, seed.p, seed.n);
                fprintf(stderr, "%s\n", argv[i]);
                (void)LLVMFuzzerTestOneInput(bytes, seed.n);
        }
        return 0;
}
