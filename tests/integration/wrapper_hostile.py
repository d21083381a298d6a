"""Runs in an intercepted command of the mechanism `wrapper` and sends its broker what no wrapper sends (test_intercept_wrapper_hostile.py).

    wrapper_hostile.py KIND          once, or until standard input ends for those that flood; prints `up` when the broker has had it
"""

import array
import ctypes
import itertools
import json
import os
import select
import socket
import struct
import sys

SHARED = socket.socket(fileno=int(os.environ["CODEX_ESCALATE_SOCKET"]))
WHERE = sys.argv[2] if len(sys.argv) > 2 else "/bin/true"
HUGE = 1 << 32


def rights(fds):
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]


def send(fds, data=b"\0"):
    SHARED.sendmsg([data], rights(fds) if fds else [])


def stream():
    """A stream to the broker, which has the other end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    send([theirs.fileno()])
    theirs.close()
    ours.settimeout(60)
    return ours


def frame(message):
    text = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack("<I", len(text)) + text


def question(file=WHERE, argv=("where",), **more):
    return {"file": file, "argv": argv, "workdir": "/", "env": {}, **more}


def answer(s):
    """The next frame; None when the broker closes the stream."""
    try:
        head = s.recv(4, socket.MSG_WAITALL)
        return json.loads(s.recv(struct.unpack("<I", head)[0], socket.MSG_WAITALL)) if len(head) == 4 else None
    except ConnectionResetError:
        return None


def refused(*parts, fds=()):
    """Sends it on a stream of its own, which the broker must close without an answer."""
    s = stream()
    try:
        for n, part in enumerate(parts):
            s.sendmsg([part], rights(fds) if fds and n == 0 else [])
    except (BrokenPipeError, ConnectionResetError):
        pass
    got = answer(s)
    assert got is None, (parts[0][:200], got)


def escalated():
    s = stream()
    s.sendall(frame(question()))
    assert answer(s)["action"] == "Escalate"
    return s


def no_streams():
    """Sends descriptors that are no streams, and any number of them; the broker then takes good requests all the same."""
    null, inside, outside = os.open("/dev/null", os.O_RDWR), *os.pipe()
    memory, poll = os.memfd_create("x"), select.epoll()
    packets = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for fd in (null, inside, outside, memory, poll.fileno(), packets[0].fileno(), SHARED.fileno(), 0, 1, 2):
        send([fd])
    for count in (0, 2, 3, 253):
        send([null] * count)
    for data in (b"\0\0", b"x" * 1000, b"x" * 100_000):
        send([], data)
        send([null], data)


def bad_frames():
    refused(struct.pack("<I", HUGE - 1))
    refused(struct.pack("<I", 24 * 1024 * 1024 + 1))
    refused(struct.pack("<I", HUGE - 1) + b"{" * 1000)
    for text in (b"", b"{", b"[]", b"null", b"{}", b"[" * 100_000, b"\xff\xfe", b'{"file":1}', b'{"file":"a","file":"b"}'):
        refused(frame(text))
    for change in ({"file": ""}, {"file": "a\0b"}, {"workdir": "relative"}, {"argv": "x"}, {"argv": [1]}, {"argv": ["\0"]}, {"env": []},
                   {"env": {"A": 1}}, {"argvBase64": ["!"]}, {"fileBase64": "AA=="}, {"envBase64": [None]}):
        refused(frame(question(**change)))
    refused(frame(question()), fds=[0])  # with descriptors
    s = stream()
    s.shutdown(socket.SHUT_WR)
    assert answer(s) is None
    s = stream()
    s.sendall(frame(question(argv=["x" * 6_500_000])))  # more than the kernel takes; it fails as execve would, with 126
    assert answer(s)["action"] == "Escalate"
    s.sendall(frame({"fds": []}))
    assert answer(s)["exit_code"] == 126


def bad_descriptors():
    null = os.open("/dev/null", os.O_RDWR)
    for message, fds in (({"fds": [0]}, []), ({"fds": []}, [null]), ({"fds": [0, 1]}, [null]), ({"fds": [0]}, [null, null]),
                         ({"fds": [5, 5]}, [null, null]), ({"fds": [-1]}, [null]), ({"fds": [2**31 - 1]}, [null]), ({"fds": [2**40]}, [null]),
                         ({"fds": ["0"]}, [null]), ({"fds": list(range(251))}, [null] * 251), ({"fds": [0], "umask": 0o1000}, [null]),
                         ({"signal": 9}, []), ({"signal": 15}, [null]), ({}, []), ([], [])):
        s = escalated()
        s.sendmsg([frame(message)], rights(fds) if fds else [])
        assert answer(s) is None, message
    # The number is valid in the message, but no program can have a descriptor with it.
    s = escalated()
    s.sendmsg([frame({"fds": [2**31 - 2]})], rights([null]))
    assert answer(s)["exit_code"] == 126


def talks_out_of_turn():
    """Signals that no wrapper passes on, and bytes while the client is asked, which ends the question."""
    for text in (frame({"signal": 9}), frame({"signal": 19}), frame({"fds": []}), b"\xff\xff\xff\xff", frame({"signal": 15}) + b"\0"):
        s = stream()
        s.sendall(frame(question("/bin/sleep", ["sleep", "1000"])))
        assert answer(s)["action"] == "Escalate"
        s.sendall(frame({"fds": []}))
        s.sendall(text)
        if text[:1] == b"\xff" or b"15" not in text:
            assert answer(s) is None
    s = stream()
    s.sendall(frame(question("/bin/ls", ["ls"])) + frame({"fds": []}))
    assert answer(s) is None


def keeps_the_brokers_end():
    """The end that the broker got stays open here too: reads from it, writes to it, changes what the kernel puts beside messages."""
    for option in (socket.SO_PASSCRED, getattr(socket, "SO_PASSSEC", 34), 76, 29, 35, 42):  # 76: SO_PASSPIDFD; SO_TIMESTAMP, …NS, SO_PEEK_OFF
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.settimeout(60)
        send([theirs.fileno()])
        try:
            theirs.setsockopt(socket.SOL_SOCKET, option, 1)
        except OSError:
            continue
        ours.sendall(frame(question()))
        theirs.setblocking(True)
        theirs.sendall(b"to myself")
        theirs.shutdown(socket.SHUT_RDWR)
        theirs.close()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    send([theirs.fileno()])
    ours.sendall(frame(question("/bin/false", ["false", "x"])))
    ours.settimeout(60)
    answer(ours)


def descriptors_in_streams():
    """Streams that hold streams that hold streams, which nobody has read."""
    inner = None
    for _ in range(50):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        if inner:
            ours.sendmsg([b"\0"], rights([inner.fileno()]))
        inner = theirs
        send([theirs.fileno()])
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.sendmsg([b"\0"], rights([theirs.fileno(), ours.fileno(), SHARED.fileno()]))
    send([theirs.fileno()])
    send([ours.fileno()])


def ends(fd):
    return bool(select.select([fd], [], [], 0)[0])


def flood(step, every=50):
    """Until standard input ends."""
    for n in itertools.count():
        step()
        if n == every:
            print("up", flush=True)
        if n % every == 0 and ends(0):
            return


def flood_messages():
    null = os.open("/dev/null", os.O_RDWR)
    flood(lambda: (send([null] * 250), send([], b"x" * 50_000), send([null])))


def flood_streams():
    """Half frames on as many streams as there can be, each with as many descriptors as one message takes."""
    null, kept = os.open("/dev/null", os.O_RDWR), []
    SHARED.setblocking(False)

    def step():
        try:
            s = stream()
            s.setblocking(False)
            kept.append(s)
            s.sendmsg([struct.pack("<I", 20_000_000)], rights([null] * 200))
            s.send(b"{" * 150_000)
        except OSError:
            select.select([0], [], [], 0.01)
            if kept:
                kept.pop(0).close()
    flood(step, 300)


def flood_questions():
    """Questions that are answered at once, one after the other, and their streams closed in every state."""
    def step():
        s = stream()
        s.sendall(frame(question("/bin/false", ["false"])))
        s = stream()
        s.sendall(frame(question())[:30])
        s = escalated()
        s.sendall(frame({"fds": []}))
    flood(step)


def to_other_sockets():
    """Tries to reach sockets of the machine, whose names are the arguments, by the end of the pair."""
    libc = ctypes.CDLL(None, use_errno=True)
    any_family = struct.pack("=H", socket.AF_UNSPEC) + bytes(14)
    assert SHARED.type & 0xF == socket.SOCK_SEQPACKET
    for name in sys.argv[3:]:
        address = "\0" + name[1:] if name[0] == "@" else name
        for again in range(2):
            try:
                SHARED.connect(address)
                print("connected to", name, again)
            except OSError:
                pass
            for _ in range(2):
                try:
                    SHARED.sendto(b"escaped", socket.MSG_DONTWAIT, address)
                    SHARED.sendmsg([b"escaped"], rights([0]), socket.MSG_DONTWAIT, address)
                except OSError:
                    pass
            if libc.connect(SHARED.fileno(), any_family, len(any_family)) == 0:
                print("not connected any more", again)
        for what in (SHARED.listen, SHARED.accept, lambda: os.open(f"/proc/self/fd/{SHARED.fileno()}", os.O_RDWR)):
            try:
                what()
                print("another socket", what)
            except OSError:
                pass
    try:
        print("received", SHARED.recvmsg(1000, 1000, socket.MSG_DONTWAIT))
    except BlockingIOError:
        pass


globals()[sys.argv[1]]()
print("done", flush=True)
