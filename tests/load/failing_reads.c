/* failing_reads: preloaded into the server by tests: every third read of a command's output fails first.
 *
 * The errors are EINTR and ENOMEM in turn, as after a signal or when memory is short. Only reads of a pipe or a terminal into a
 * large buffer count: those are output; the loop's own pipes are left alone.
 */
#include <dlfcn.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUTPUT_BYTES 4096

static int is_output(int fd, size_t n)
{
        struct stat st;
        return n >= OUTPUT_BYTES && fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode));
}

ssize_t read(int fd, void *to, size_t n)
{
        static ssize_t (*real)(int, void *, size_t);
        static unsigned count;
        if (!real)
                *(void **)&real = dlsym(RTLD_NEXT, "read");
        if (is_output(fd, n) && ++count % 3 == 0) {
                errno = count % 2 ? EINTR : ENOMEM;
                return -1;
        }
        return real(fd, to, n);
}
