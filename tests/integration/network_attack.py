"""Runs as the command of a managed network and looks for a way past the proxy: one line of JSON for each try, [name, what came of it].

What came of it is "out" only when something answered that the policy does not grant; the witness of the world sees the rest. argv:
a JSON object with the addresses to try.
"""

import array
import ctypes
import ctypes.util
import errno
import glob
import json
import os
import socket
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
AIM = json.loads(sys.argv[1])
CLONE_NEWUSER, CLONE_NEWNET, CLONE_NEWNS = 0x10000000, 0x40000000, 0x20000
MSG_FASTOPEN, TCP_FASTOPEN_CONNECT, IPPROTO_MPTCP, IPPROTO_SCTP, IPPROTO_UDPLITE, IPPROTO_DCCP = 0x20000000, 30, 262, 132, 136, 33
SYS_pidfd_open, SYS_pidfd_getfd, SYS_io_uring_setup = 434, 438, 425


def call(number, *args):
    done = libc.syscall(number, *args)
    if done < 0:
        raise OSError(ctypes.get_errno(), "")
    return done


def reach(sock, address):
    """Connects and asks for something that only the world would answer."""
    with sock:
        sock.settimeout(1)
        sock.connect(address)
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return "out" if b"UP GET" in sock.recv(4096) else "connected to something else"


def tcp(host, port, protocol=0, family=None):
    family = family or (socket.AF_INET6 if ":" in host else socket.AF_INET)
    return reach(socket.socket(family, socket.SOCK_STREAM, protocol), (host, port))


def fast_open(host):
    with socket.socket() as s:
        s.settimeout(1)
        s.sendto(b"GET / HTTP/1.0\r\n\r\n", MSG_FASTOPEN, (host, 80))
        return "out" if b"UP GET" in s.recv(4096) else "?"


def fast_open_connect(host):
    s = socket.socket()
    s.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
    return reach(s, (host, 80))


def marked(host):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, 36, 1)  # SO_MARK
    return reach(s, (host, 80))


def bound_to_device(host, name=b"eth0"):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name)
    return reach(s, (host, 80))


def freely_bound(host):
    s = socket.socket()
    s.setsockopt(socket.IPPROTO_IP, 15, 1)  # IP_FREEBIND
    s.bind((host, 0))
    return reach(s, (host, 80))


def source_route(host):
    s = socket.socket()
    s.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, b"\x83\x07\x04" + socket.inet_aton(host) + b"\0")
    return reach(s, (host, 80))


def datagram(host, port, protocol=0, family=None, broadcast=False):
    family = family or (socket.AF_INET6 if ":" in host else socket.AF_INET)
    with socket.socket(family, socket.SOCK_DGRAM, protocol) as s:
        s.settimeout(0.3)
        if broadcast:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        # A question for a name that is not granted.
        s.sendto(b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x05other\x04test\0\0\x01\0\x01", (host, port))
        answer = s.recv(4096)
        return "out" if answer[3] & 15 == 0 and answer[7] else "an answer without addresses"


def raw(protocol, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_RAW, protocol) as s:
        s.sendto(b"\x08\0" + b"\0" * 6, (AIM["granted"] if family == socket.AF_INET else AIM["six"], 0))
        return "sent"


def packet():
    with socket.socket(17, socket.SOCK_RAW, socket.htons(3)) as s:
        s.bind(("lo", 0))
        s.send(b"\0" * 64)
        return "sent"


def family(number, kind=socket.SOCK_STREAM):
    socket.socket(number, kind, 0).close()
    return "made"


def netlink_route():
    """A question about interfaces is free; a change of routes is not."""
    with socket.socket(16, socket.SOCK_RAW, 0) as s:
        s.bind((0, 0))
        body = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, 254, 4, 253, 1, 0) + struct.pack("=HHI", 8, 4, 1)
        s.send(struct.pack("=IHHII", 16 + len(body), 24, 0x405, 1, 0) + body)
        error = struct.unpack("=i", s.recv(4096)[16:20])[0]
        if error:
            raise OSError(-error, "")
        return "made"


def unix(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(1)
        s.connect(path)
        return "out"


def unix_datagram_of_a_pair(path):
    a, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    a.sendto(b"x", path)
    return "out"


def unix_reconnected_pair(path):
    a, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    a.connect(path)
    a.send(b"x")
    return "out"


def io_uring():
    call(SYS_io_uring_setup, 4, ctypes.create_string_buffer(120))
    return "made"


def enter(path):
    with open(path) as f:
        if libc.setns(f.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), "")
    return tcp(AIM["granted"], 80)


def unshared(flags):
    if libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "")
    return tcp(AIM["granted"], 80)


def taken_descriptors():
    """Descriptors of other processes: the listeners, or what leads outside."""
    for pid in sorted({int(p) for p in filter(str.isdigit, os.listdir("/proc"))} - {os.getpid()}):
        pidfd = call(SYS_pidfd_open, pid, 0)
        for fd in range(64):
            try:
                got = call(SYS_pidfd_getfd, pidfd, fd, 0)
            except OSError as error:
                if error.errno == errno.EPERM:
                    raise
                continue
            s = socket.socket(fileno=got)
            return f"took {pid}:{fd} {s}"
    return "nobody to take from"


def inherited():
    """Sockets among our own descriptors."""
    found = [f"{fd}:{os.readlink(f'/proc/self/fd/{fd}')}" for fd in os.listdir("/proc/self/fd")
             if os.path.exists(f"/proc/self/fd/{fd}") and "socket" in os.readlink(f"/proc/self/fd/{fd}")]
    return f"has {found}" if found else "none"


def other_descriptors():
    """Files of other processes by way of /proc."""
    found = []
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        if path.split("/")[2] == str(os.getpid()):
            continue
        try:
            if "socket" in os.readlink(path):
                found.append(path)
        except OSError:
            pass
    return f"sees {found}" if found else "none"


def stolen_listener(port):
    """A listener beside ours at the same port would get connections of others, and could answer for the proxy."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", port))
        s.listen()
        return "listens beside it"


def interfaces():
    names = sorted(name for _, name in socket.if_nameindex())
    return "only lo" if names == ["lo"] else f"has {names}"


def as_32_bit():
    """socket(AF_UNIX) by int 0x80, which a filter for the native calls does not see; socketcall is number 102, socket 359."""
    code = bytes.fromhex("53" "b867010000" "bb01000000" "b901000000" "31d2" "cd80" "5b" "c3")
    import mmap
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    got = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    if got < 0:
        raise OSError(-got, "")
    return "made"


def passed_in():
    """A descriptor sent to ourselves keeps its filter and namespace: only its being refused or harmless counts."""
    a, b = socket.socketpair()
    s = socket.socket()
    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [s.fileno()]))])
    _, control, _, _ = b.recvmsg(1, 64)
    fd = array.array("i", control[0][2][:4])[0]
    return reach(socket.socket(fileno=fd), (AIM["granted"], 80))


def in_a_child(act):
    """For what would change this process: its answer comes through a pipe."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(w, json.dumps(tried(act)).encode())
        os._exit(0)
    os.close(w)
    answer = os.read(r, 4096)
    os.waitpid(pid, 0)
    return json.loads(answer) if answer else "died"


def tried(act):
    try:
        return act()
    except OSError as error:
        return "timeout" if isinstance(error, TimeoutError) else errno.errorcode.get(error.errno, str(error))
    except Exception as error:  # pylint: disable=broad-except
        return type(error).__name__


G, SIX = AIM["granted"], AIM["six"]
TRIES = {
    "interfaces": interfaces,
    **{f"tcp {host}:{port}": (lambda host=host, port=port: tcp(host, port)) for host, port in [
        (G, 80), (SIX, 80), ("127.0.0.1", 80), ("0.0.0.0", 80), ("::", 80), ("::1", 80), ("::ffff:127.0.0.1", 80), ("::ffff:" + G, 80),
        ("127.1.2.3", 80), ("10.1.2.3", 80), ("169.254.169.254", 80), ("198.18.0.1", 80), ("255.255.255.255", 80), ("224.0.0.1", 80),
        ("127.0.0.1", AIM["server"]), ("0.0.0.0", AIM["server"]), ("127.0.0.1", 53)]},
    "mptcp": lambda: tcp(G, 80, IPPROTO_MPTCP),
    "sctp": lambda: tcp(G, 80, IPPROTO_SCTP),
    "dccp": lambda: reach(socket.socket(socket.AF_INET, 6, IPPROTO_DCCP), (G, 80)),
    "fast open": lambda: fast_open(G),
    "fast open of loopback": lambda: fast_open("127.0.0.1"),
    "fast open by connect": lambda: fast_open_connect(G),
    "a mark": lambda: marked(G),
    "bound to a device": lambda: bound_to_device(G),
    "bound freely": lambda: freely_bound(G),
    "a source route": lambda: source_route(G),
    **{f"udp {host}:53": (lambda host=host: datagram(host, 53)) for host in (G, SIX, "127.0.0.1", "0.0.0.0", "::1", "::", "224.0.0.251")},
    "udp to everybody": lambda: datagram("255.255.255.255", 53, broadcast=True),
    "udp lite": lambda: datagram(G, 53, IPPROTO_UDPLITE),
    "name server by tcp": lambda: tcp("127.0.0.1", 53),
    **{f"raw {number}": (lambda number=number: raw(number)) for number in (1, 6, 17, 255)},
    "raw icmp 6": lambda: raw(58, socket.AF_INET6),
    "ping socket": lambda: datagram(G, 0, socket.IPPROTO_ICMP),
    "packet": packet,
    "netlink": netlink_route,
    **{f"family {number}": (lambda number=number: family(number)) for number in (1, 4, 9, 15, 16, 17, 29, 30, 31, 38, 40, 44)},
    "vsock datagram": lambda: family(40, socket.SOCK_DGRAM),
    "family in high bits": lambda: call(41, (1 << 32) | 1, 1, 0) and "made",
    "unix": lambda: unix(AIM["unix"]),
    "unix, abstract": lambda: unix("\0" + AIM["abstract"]),
    "unix datagram of a pair": lambda: unix_datagram_of_a_pair(AIM["unix_dgram"]),
    "unix pair that is connected again": lambda: unix_reconnected_pair(AIM["unix_dgram"]),
    "io_uring": io_uring,
    "32 bits": lambda: in_a_child(as_32_bit),
    "namespace of pid 1": lambda: in_a_child(lambda: enter("/proc/1/ns/net")),
    "namespace of our parent": lambda: in_a_child(lambda: enter(f"/proc/{os.getppid()}/ns/net")),
    "namespace of the world": lambda: in_a_child(lambda: enter(AIM["namespace"])),
    "user namespace": lambda: in_a_child(lambda: unshared(CLONE_NEWUSER | CLONE_NEWNET)),
    "network namespace": lambda: in_a_child(lambda: unshared(CLONE_NEWNET)),
    "descriptors of others": taken_descriptors,
    "our own descriptors": inherited,
    "descriptors in /proc": other_descriptors,
    "a socket passed to ourselves": passed_in,
    "a listener beside the proxy": lambda: stolen_listener(AIM["proxy"]),
}

for name, attempt in TRIES.items():
    print(json.dumps([name, tried(attempt)]), flush=True)
