/* errno_text: the names of the system's errors, and the sentences that clients see for them.
 *
 * The sentences are those of musl, because clients know these from the reference server; where musl has none they are the usual
 * ones. strerror(3) is not used: another libc or another locale would change what is sent to clients.
 */
#include "base/errno_text.h"

#include "base/compat.h"
#include "base/slice.h"

#include <errno.h>

/* clang-format off */
#define ERRNO_LIST(X) \
        X(EPERM, "Operation not permitted") \
        X(ENOENT, "No such file or directory") \
        X(ESRCH, "No such process") \
        X(EINTR, "Interrupted system call") \
        X(EIO, "I/O error") \
        X(ENXIO, "No such device or address") \
        X(E2BIG, "Argument list too long") \
        X(ENOEXEC, "Exec format error") \
        X(EBADF, "Bad file descriptor") \
        X(ECHILD, "No child process") \
        X(EAGAIN, "Resource temporarily unavailable") \
        X(ENOMEM, "Out of memory") \
        X(EACCES, "Permission denied") \
        X(EFAULT, "Bad address") \
        X(ENOTBLK, "Block device required") \
        X(EBUSY, "Resource busy") \
        X(EEXIST, "File exists") \
        X(EXDEV, "Cross-device link") \
        X(ENODEV, "No such device") \
        X(ENOTDIR, "Not a directory") \
        X(EISDIR, "Is a directory") \
        X(EINVAL, "Invalid argument") \
        X(ENFILE, "Too many open files in system") \
        X(EMFILE, "No file descriptors available") \
        X(ENOTTY, "Not a tty") \
        X(ETXTBSY, "Text file busy") \
        X(EFBIG, "File too large") \
        X(ENOSPC, "No space left on device") \
        X(ESPIPE, "Invalid seek") \
        X(EROFS, "Read-only file system") \
        X(EMLINK, "Too many links") \
        X(EPIPE, "Broken pipe") \
        X(EDOM, "Domain error") \
        X(ERANGE, "Result not representable") \
        X(EDEADLK, "Resource deadlock would occur") \
        X(ENAMETOOLONG, "Filename too long") \
        X(ENOLCK, "No locks available") \
        X(ENOSYS, "Function not implemented") \
        X(ENOTEMPTY, "Directory not empty") \
        X(ELOOP, "Symbolic link loop") \
        X(ENOMSG, "No message of desired type") \
        X(EIDRM, "Identifier removed") \
        X(ECHRNG, "Channel number out of range") \
        X(EL2NSYNC, "Level 2 not synchronized") \
        X(EL3HLT, "Level 3 halted") \
        X(EL3RST, "Level 3 reset") \
        X(ELNRNG, "Link number out of range") \
        X(EUNATCH, "Protocol driver not attached") \
        X(ENOCSI, "No CSI structure available") \
        X(EL2HLT, "Level 2 halted") \
        X(EBADE, "Invalid exchange") \
        X(EBADR, "Invalid request descriptor") \
        X(EXFULL, "Exchange full") \
        X(ENOANO, "No anode") \
        X(EBADRQC, "Invalid request code") \
        X(EBADSLT, "Invalid slot") \
        X(EBFONT, "Bad font file format") \
        X(ENOSTR, "Device not a stream") \
        X(ENODATA, "No data available") \
        X(ETIME, "Device timeout") \
        X(ENOSR, "Out of streams resources") \
        X(ENONET, "Machine is not on the network") \
        X(ENOPKG, "Package not installed") \
        X(EREMOTE, "Object is remote") \
        X(ENOLINK, "Link has been severed") \
        X(EADV, "Advertise error") \
        X(ESRMNT, "Srmount error") \
        X(ECOMM, "Communication error on send") \
        X(EPROTO, "Protocol error") \
        X(EMULTIHOP, "Multihop attempted") \
        X(EDOTDOT, "RFS specific error") \
        X(EBADMSG, "Bad message") \
        X(EOVERFLOW, "Value too large for data type") \
        X(ENOTUNIQ, "Name not unique on network") \
        X(EBADFD, "File descriptor in bad state") \
        X(EREMCHG, "Remote address changed") \
        X(ELIBACC, "Can not access a needed shared library") \
        X(ELIBBAD, "Accessing a corrupted shared library") \
        X(ELIBSCN, ".lib section in a.out corrupted") \
        X(ELIBMAX, "Attempting to link in too many shared libraries") \
        X(ELIBEXEC, "Cannot exec a shared library directly") \
        X(EILSEQ, "Illegal byte sequence") \
        X(ERESTART, "Interrupted system call should be restarted") \
        X(ESTRPIPE, "Streams pipe error") \
        X(EUSERS, "Too many users") \
        X(ENOTSOCK, "Not a socket") \
        X(EDESTADDRREQ, "Destination address required") \
        X(EMSGSIZE, "Message too large") \
        X(EPROTOTYPE, "Protocol wrong type for socket") \
        X(ENOPROTOOPT, "Protocol not available") \
        X(EPROTONOSUPPORT, "Protocol not supported") \
        X(ESOCKTNOSUPPORT, "Socket type not supported") \
        X(EOPNOTSUPP, "Not supported") \
        X(EPFNOSUPPORT, "Protocol family not supported") \
        X(EAFNOSUPPORT, "Address family not supported by protocol") \
        X(EADDRINUSE, "Address in use") \
        X(EADDRNOTAVAIL, "Address not available") \
        X(ENETDOWN, "Network is down") \
        X(ENETUNREACH, "Network unreachable") \
        X(ENETRESET, "Connection reset by network") \
        X(ECONNABORTED, "Connection aborted") \
        X(ECONNRESET, "Connection reset by peer") \
        X(ENOBUFS, "No buffer space available") \
        X(EISCONN, "Socket is connected") \
        X(ENOTCONN, "Socket not connected") \
        X(ESHUTDOWN, "Cannot send after socket shutdown") \
        X(ETOOMANYREFS, "Too many references: cannot splice") \
        X(ETIMEDOUT, "Operation timed out") \
        X(ECONNREFUSED, "Connection refused") \
        X(EHOSTDOWN, "Host is down") \
        X(EHOSTUNREACH, "Host is unreachable") \
        X(EALREADY, "Operation already in progress") \
        X(EINPROGRESS, "Operation in progress") \
        X(ESTALE, "Stale file handle") \
        X(EUCLEAN, "Data consistency error") \
        X(ENOTNAM, "Not a XENIX named type file") \
        X(ENAVAIL, "Resource not available") \
        X(EISNAM, "Is a named type file") \
        X(EREMOTEIO, "Remote I/O error") \
        X(EDQUOT, "Quota exceeded") \
        X(ENOMEDIUM, "No medium found") \
        X(EMEDIUMTYPE, "Wrong medium type") \
        X(ECANCELED, "Operation canceled") \
        X(ENOKEY, "Required key not available") \
        X(EKEYEXPIRED, "Key has expired") \
        X(EKEYREVOKED, "Key has been revoked") \
        X(EKEYREJECTED, "Key was rejected by service") \
        X(EOWNERDEAD, "Previous owner died") \
        X(ENOTRECOVERABLE, "State not recoverable") \
        X(ERFKILL, "Operation not possible due to RF-kill") \
        X(EHWPOISON, "Memory page has hardware error")
/* clang-format on */

struct errno_entry {
        const char *name, *text;
};

#define ERRNO_ENTRY(number, words) [number] = { #number, words },
static const struct errno_entry errno_table[] = { ERRNO_LIST(ERRNO_ENTRY) };

/* Returns the entry of `e` or -`e`; NULL when there is none. */
static const struct errno_entry *errno_find(int e)
{
        size_t number = e < 0 ? 0u - (size_t)e : (size_t)e;

        if (number >= ARRAY_LEN(errno_table) || !errno_table[number].name)
                return NULL;
        return &errno_table[number];
}

const char *errno_name(int e)
{
        static _Thread_local char unknown[16];

        const struct errno_entry *entry = errno_find(e);
        if (entry)
                return entry->name;

        (void)snprintf(unknown, sizeof(unknown), "E%u", e < 0 ? 0u - (unsigned)e : (unsigned)e);
        return unknown;
}

const char *errno_text(int e)
{
        const struct errno_entry *entry = errno_find(e);
        return entry ? entry->text : "No error information";
}
