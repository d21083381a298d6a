"""farhand-execve-wrapper against a server of the escalation protocol that is written here: every message, every answer, and what becomes
of the wrapper."""

import array
import base64
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile

import pytest

from farhand_client import BIN, wait_until

WRAPPER = os.path.join(os.path.dirname(BIN), "farhand-execve-wrapper")
VARIABLES = ("CODEX_ESCALATE_SOCKET", "EXEC_WRAPPER", "BASH_EXEC_WRAPPER")


class Asked:
    """One wrapper, and our end of its stream."""

    def __init__(self, argv, kind=socket.SOCK_DGRAM, cwd="/usr", env=None, **popen):
        self.near, far = socket.socketpair(socket.AF_UNIX, kind)
        pass_fds = (far.fileno(), *popen.pop("pass_fds", ()))
        given = {"PATH": "/usr/bin:/bin", "CODEX_ESCALATE_SOCKET": str(far.fileno()), "BASH_EXEC_WRAPPER": WRAPPER, "A": "1", **(env or {})}
        self.proc = subprocess.Popen([WRAPPER, *argv], env=given, pass_fds=pass_fds, cwd=cwd, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, **popen)
        far.close()
        self.near.settimeout(30)
        self.datagram, fds, _, _ = socket.recv_fds(self.near, 100, 4)
        assert len(fds) == 1
        self.stream = socket.socket(fileno=fds[0])
        self.is_nonblocking = not os.get_blocking(self.stream.fileno())
        self.stream.settimeout(30)
        self.fds = []
        self.request = self.read()

    def read(self):
        """The next frame. Descriptors that come with it are kept."""
        head, control, _, _ = self.stream.recvmsg(4, socket.CMSG_SPACE(253 * 4))
        for _, _, data in control:
            fds = array.array("i")
            fds.frombytes(data)
            self.fds += fds
        while 0 < len(head) < 4:
            head += self.stream.recv(4 - len(head))
        size, text = struct.unpack("<I", head)[0], b""
        while len(text) < size:
            text += self.stream.recv(size - len(text))
        return json.loads(text)

    def send(self, message):
        text = json.dumps(message).encode()
        self.stream.sendall(struct.pack("<I", len(text)) + text)

    def end(self):
        # Our copies of the descriptors that the wrapper has sent: its streams end only when these are closed, too.
        for fd in self.fds:
            os.close(fd)
        out, err = self.proc.communicate(timeout=30)
        self.stream.close()
        self.near.close()
        return self.proc.returncode, out, err


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_SEQPACKET], ids=["dgram", "seqpacket"])
def test_a_program_that_may_run_runs(kind):
    asked = Asked(["/usr/bin/echo", "echo", "-n", "hi"], kind)
    assert asked.datagram == b"\0" and asked.is_nonblocking
    assert asked.request == {"file": "/usr/bin/echo", "argv": ["echo", "-n", "hi"], "workdir": "/usr",
                             "env": {"PATH": "/usr/bin:/bin", "A": "1"}}
    asked.send({"action": "Run"})
    assert asked.end() == (0, b"hi", b"")


def test_a_program_that_runs_keeps_the_variables_and_the_socket_but_not_the_stream():
    asked = Asked(["/bin/sh", "sh", "-c", "env; ls -l /proc/self/fd"])
    asked.send({"action": "Run"})
    code, out, _ = asked.end()
    assert code == 0 and all(name.encode() in out for name in VARIABLES if name != "EXEC_WRAPPER")
    assert out.count(b"socket:") == 1


def test_an_escalated_program_gets_the_descriptors():
    asked = Asked(["/usr/bin/echo", "echo", "x"])
    asked.send({"action": "Escalate"})
    assert asked.read() == {"fds": [0, 1, 2]} and len(asked.fds) == 3
    os.write(asked.fds[1], b"by the server")
    asked.send({"exit_code": 42})
    assert asked.end() == (42, b"by the server", b"")


def test_all_descriptors_are_handed_over():
    with tempfile.TemporaryFile() as one, tempfile.TemporaryFile() as two:
        asked = Asked(["/bin/true", "true"], pass_fds=(one.fileno(), two.fileno()))
        asked.send({"action": "Escalate"})
        numbers = asked.read()["fds"]
        assert sorted(numbers) == sorted([0, 1, 2, one.fileno(), two.fileno()])
        assert os.fstat(asked.fds[numbers.index(one.fileno())]).st_ino == os.fstat(one.fileno()).st_ino
        asked.send({"exit_code": 0})
        assert asked.end()[0] == 0


def test_more_descriptors_than_other_servers_take():
    files = [tempfile.TemporaryFile() for _ in range(40)]
    for answer, wanted in (({"action": "Escalate", "farhand": 1}, 0), ({"action": "Escalate"}, 126)):
        asked = Asked(["/bin/true", "true"], pass_fds=[f.fileno() for f in files])
        asked.send(answer)
        if wanted == 0:
            assert len(asked.read()["fds"]) == 43 == len(asked.fds)
            asked.send({"exit_code": 0})
        code, _, err = asked.end()
        assert code == wanted and (b"descriptors" in err) == (wanted == 126)
    for file in files:
        file.close()


@pytest.mark.parametrize("reason, words", [("because", b"Execution denied: because\n"), (None, b"Execution denied\n")])
def test_a_denial(reason, words):
    asked = Asked(["rel/echo", "echo", "--x"])
    assert asked.request["file"] == "rel/echo" and asked.request["argv"] == ["echo", "--x"]
    asked.send({"action": {"Deny": {"reason": reason}}})
    assert asked.end() == (1, b"", words)


@pytest.mark.parametrize("answer", [None, b"\xff\xff\xff\xff", b"\2\0\0\0[]", b"\2\0\0\0{}", b'\x10\0\0\0{"action":"Yes"}',
                                    b"\3\0\0\0{\"a"], ids=repr)
def test_no_answer_or_a_strange_one_runs_nothing(answer):
    asked = Asked(["/usr/bin/echo", "echo", "ran"])
    if answer is not None:
        asked.stream.sendall(answer)
    asked.stream.close()
    code, out, err = asked.end()
    assert (code, out) == (1, b"") and err


@pytest.mark.parametrize("value", [None, "", "-1", "x", "0", "999999", "99999999999999999999"])
def test_without_a_socket_it_runs_nothing(value):
    env = {} if value is None else {"CODEX_ESCALATE_SOCKET": value}
    done = subprocess.run([WRAPPER, "/usr/bin/echo", "echo", "ran"], env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=30,
                          check=False)
    assert (done.returncode, done.stdout) == (1, b"") and b"CODEX_ESCALATE_SOCKET" in done.stderr


def test_programs_that_cannot_be_executed(tmp):
    script = os.path.join(tmp, "script")
    with open(script, "w", encoding="ascii") as f:
        f.write("echo script $1\nexit 5\n")
    os.chmod(script, 0o755)
    for argv, wanted in ((["/no/such", "such"], 127), (["/etc/passwd", "passwd"], 126), ([script, "script", "word"], 5)):
        asked = Asked(argv)
        asked.send({"action": "Run"})
        code, out, err = asked.end()
        assert code == wanted and bool(err) == (wanted > 100) and out == (b"script word\n" if wanted == 5 else b"")


def test_bytes_that_are_not_utf8(tmp):
    folder = os.path.join(os.fsencode(tmp), b"d\xff")
    os.mkdir(folder)
    asked = Asked([b"/x\xfe", b"\xc3(", b"ok"], cwd=folder, env={b"B": b"\xe9"})
    request = asked.request
    assert base64.b64decode(request["fileBase64"]) == b"/x\xfe" and request["file"] == "/x\ufffd"
    assert [base64.b64decode(word) for word in request["argvBase64"]] == [b"\xc3(", b"ok"] and request["argv"][1] == "ok"
    assert base64.b64decode(request["workdirBase64"]) == folder
    variables = {base64.b64decode(one) for one in request["envBase64"]}
    assert b"B=\xe9" in variables and not any(one.startswith(b"CODEX_ESCALATE") for one in variables)
    asked.send({"action": {"Deny": {"reason": None}}})
    asked.end()


def test_a_large_request():
    asked = Asked(["/bin/echo", "echo", "x" * 100_000, *map(str, range(20_000))])
    assert asked.request["argv"][1] == "x" * 100_000 and len(asked.request["argv"]) == 20_002
    asked.send({"action": {"Deny": {"reason": "long " * 1000}}})
    assert asked.end()[2] == b"Execution denied: " + b"long " * 1000 + b"\n"


@pytest.mark.parametrize("name", ["TERM", "KILL", "SEGV", "USR1"])
def test_it_dies_of_the_same_signal(name):
    asked = Asked(["/bin/true", "true"])
    asked.send({"action": "Escalate", "farhand": 1})
    assert asked.read()["fds"] == [0, 1, 2]
    number = getattr(signal, "SIG" + name)
    asked.send({"exit_code": 128 + number, "signal": number})
    assert asked.end()[0] == -number


def test_signals_and_the_umask_are_passed_on():
    asked = Asked(["/bin/true", "true"], umask=0o027)
    asked.send({"action": "Escalate", "farhand": 1})
    assert asked.read()["umask"] == 0o027
    for name in ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "CONT"):
        asked.proc.send_signal(getattr(signal, "SIG" + name))
        assert asked.read() == {"signal": getattr(signal, "SIG" + name)}
    assert asked.proc.poll() is None
    asked.send({"exit_code": 7})
    assert asked.end()[0] == 7


def test_a_signal_ends_it_when_the_server_takes_none():
    asked = Asked(["/bin/true", "true"])
    asked.send({"action": "Escalate"})
    asked.read()
    asked.proc.send_signal(signal.SIGTERM)
    wait_until(lambda: asked.proc.poll() is not None)
    assert asked.end()[0] == -signal.SIGTERM


def test_ignored_signals_stay_ignored():
    asked = Asked(["/bin/true", "true"], preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    asked.send({"action": "Escalate", "farhand": 1})
    asked.read()
    asked.proc.send_signal(signal.SIGINT)
    asked.proc.send_signal(signal.SIGUSR1)
    assert asked.read() == {"signal": signal.SIGUSR1}
    asked.send({"exit_code": 0})
    assert asked.end()[0] == 0


def test_a_seqpacket_socket_is_no_way_to_other_sockets(tmp):
    """An inherited end of a pair of datagram sockets can send to any socket of the machine; one of SOCK_SEQPACKET cannot."""
    path = os.path.join(tmp, "host")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as host:
        host.bind(path)
        host.setblocking(False)
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        far.sendto(b"escaped", path)
        assert host.recv(100) == b"escaped"
        near.close()
        far.close()
    for kind in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
        listening = os.path.join(tmp, f"listening{int(kind)}")
        with socket.socket(socket.AF_UNIX, kind) as host:
            host.bind(listening)
            host.listen()
            near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with pytest.raises(OSError):
                far.connect(listening)
            far.sendto(b"escaped", listening)  # the kernel ignores the address
            assert near.recv(100) == b"escaped"
            near.close()
            with pytest.raises(OSError):
                far.connect(listening)
            far.close()
            host.setblocking(False)
            with pytest.raises(BlockingIOError):
                host.accept()
