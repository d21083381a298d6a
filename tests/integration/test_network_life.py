"""How long managed networks live, what their proxy program holds, and what happens when it dies, hangs, or is kept busy by its peers."""

import json
import os
import resource
import signal
import time

import pytest

from farhand_client import IS_SANITIZED, PATIENCE, pid_alive, pid_gone, wait_until
from network_rig import PROBE, PYTHON, WAIT, Network, allow, get, http, policy, status
from world import PUBLIC, world_or_skip

EGRESS = "farhand-egress"


@pytest.fixture(scope="module")
def world():
    with world_or_skip() as one:
        yield one


@pytest.fixture
def network(world):
    with Network(world) as one:
        yield one


def stat_of(pid):
    with open(f"/proc/{pid}/stat", "rb") as f:
        head, _, rest = f.read().rpartition(b")")
    return head.partition(b"(")[2].decode(errors="replace"), int(rest.split()[1])


def processes():
    """{pid: (name, parent)} of everything there is."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found[int(pid)] = stat_of(pid)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def below(top):
    """The pids of the tree of a process, without itself."""
    known, found = processes(), {top}
    while True:
        more = {pid for pid, (_, parent) in known.items() if parent in found} - found
        if not more:
            return found - {top}
        found |= more


def egress_of(network):
    """The pid of the proxy program, which there is when a command has used it."""
    found = [pid for pid in below(network.server.pid) if processes().get(pid, ("",))[0] == EGRESS]
    assert len(found) <= 1, found
    return found[0] if found else None


def running_egress(network):
    return wait_until(lambda: egress_of(network), what="the proxy program")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_bytes(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def works(network):
    return status(network.one(allow("good.test"), **http("good.test"))) == 200


HOLD = "import os, socket, sys\n" \
       "p = os.environ['HTTP_PROXY'].rpartition(':')[2]\n" \
       "s = socket.create_connection(('127.0.0.1', int(p)))\n" \
       "s.sendall(b'CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' % (sys.argv[1].encode(), sys.argv[1].encode()))\n" \
       "print(s.recv(12).decode(), flush=True)\n" \
       "while True:\n" \
       "    got = s.recv(65536)\n" \
       "    if not got: break\n" \
       "print('cut', flush=True)\n" \
       "sys.stdin.read()\n"


def hold(network, target="good.test:9"):
    """A command that holds a connection to a silent service: its process id."""
    ident = network.start([PYTHON, "-c", HOLD, target], allow("good.test"), pipeStdin=True)
    network.client.wait_output(ident, b"200")
    return ident


def end(network, ident):
    network.client.call("process/terminate", {"processId": ident})
    return network.finish(ident)


def test_there_is_no_proxy_program_before_it_is_needed(network):
    network.sh("true", None, enforce=False)
    assert egress_of(network) is None
    assert works(network)
    assert egress_of(network) is not None


def test_connections_end_with_the_command(network):
    ident = hold(network)
    since = network.world.mark()
    assert network.world.log(since, "silent-end") == []
    end(network, ident)
    network.world.await_log(since, "silent-end")


def test_nothing_is_left_of_a_network(network):
    """Descriptors and memory of both programs do not grow with the number of networks that there were."""
    def round_of(n):
        for _ in range(n):
            network.probe([http("good.test"), http("other.test"), {"do": "connect", "to": "good.test:7"}], allow("good.test"))

    round_of(3)
    egress = running_egress(network)
    before = [descriptors(egress), descriptors(network.server.pid)]
    round_of(12)
    wait_until(lambda: descriptors(egress) <= before[0] and descriptors(network.server.pid) <= before[1], what="the descriptors of before")


def test_everything_ends_with_the_server(world):
    with Network(world) as network:
        hold(network)
        tree = below(network.server.pid)
        running = processes()
        assert any(running[pid][0] == EGRESS for pid in tree if pid in running)
        since = world.mark()
        os.kill(network.server.pid, signal.SIGKILL)
        for pid in tree:
            pid_gone(pid)
        world.await_log(since, "silent-end")


@pytest.mark.parametrize("signo", [signal.SIGKILL, signal.SIGABRT])
def test_a_killed_proxy_program_is_started_again(network, signo):
    """Connections through it end; the next ones, of the same command, find a new one."""
    ident = hold(network)
    old = running_egress(network)
    os.kill(old, signo)
    network.client.wait_output(ident, b"cut")
    wait_until(lambda: egress_of(network) not in (None, old), what="another proxy program")
    end(network, ident)
    assert works(network)


def test_a_command_whose_proxy_program_was_killed_has_its_network_again(network):
    script = "for i in 1 2 3 4 5 6; do read line; curl -s -m 20 --retry 5 --retry-connrefused --retry-all-errors --retry-delay 1 " \
             "-o /dev/null -w '%{http_code}\\n' http://good.test/; curl -s -m 5 -o /dev/null -w '%{http_code}\\n' http://other.test/; done"
    ident = network.start(["/bin/sh", "-c", script], allow("good.test"), pipeStdin=True)
    since = network.world.mark()
    for turn in range(6):
        old = egress_of(network)
        if turn and old:
            os.kill(old, signal.SIGKILL)
        network.client.write(ident, b"\n")
        wait_until(lambda turn=turn: network.client.output(ident, "stdout").count(b"\n") >= 2 * turn + 2, 60, "two answers")
    ended = network.finish(ident)
    lines = ended.out.split()
    assert lines[0::2] == [b"200"] * 6 and b"200" not in lines[1::2], ended
    assert network.world.packets(since) == {("tcp", PUBLIC, 80)} and network.world.asked(since) == {"good.test"}


def test_a_hung_proxy_program_lets_nothing_through_and_holds_nobody_up(network):
    assert works(network)
    egress = running_egress(network)
    os.kill(egress, signal.SIGSTOP)
    try:
        since = network.world.mark()
        ident = network.start([PYTHON, "-c", HOLD, "other.test:9"], allow("good.test"), pipeStdin=True)
        # The server itself goes on at once.
        assert network.sh("echo on", None, box=False).out == b"on\n"
        assert network.world.packets(since) == set()
    finally:
        if pid_alive(egress):
            os.kill(egress, signal.SIGCONT)
    network.client.wait_output(ident, b"HTTP/1.1 403", WAIT)
    end(network, ident)
    assert works(network)


@pytest.mark.slow
def test_a_proxy_program_that_hangs_for_good_is_replaced(network):
    assert works(network)
    egress = running_egress(network)
    os.kill(egress, signal.SIGSTOP)
    try:
        wait_until(lambda: egress_of(network) not in (None, egress), 60, "another proxy program")
        assert works(network)
    finally:
        if pid_alive(egress):
            os.kill(egress, signal.SIGCONT)


def test_the_proxy_program_has_no_rights(network):
    """Not even when the server is root: no capabilities, no new privileges, a filter, no file system of note."""
    assert works(network)
    egress = running_egress(network)
    with open(f"/proc/{egress}/status", encoding="ascii") as f:
        lines = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    assert int(lines["CapEff"], 16) == int(lines["CapPrm"], 16) == 0 and lines["NoNewPrivs"] == "1"
    assert lines["Seccomp"] == "2" or IS_SANITIZED  # sanitizers need more system calls than the filter allows
    fds = {os.readlink(f"/proc/{egress}/fd/{fd}").partition(":")[0] for fd in os.listdir(f"/proc/{egress}/fd")
           if fd != "2"}  # the server's log
    assert not any(path.startswith("/") and path != "/dev/null" for path in fds), fds


# It holds up descriptors in flight, more than a server of the same user may have: then the kernel passes none on for that server.
IN_FLIGHT = "import array, os, socket, sys, time\n" \
            "null, pairs = array.array('i', [0] * 250), []\n" \
            "for _ in range(int(sys.argv[1]) // 250):\n" \
            "    pairs.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))\n" \
            "    pairs[-1][0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, null)])\n" \
            "print('full', flush=True)\n" \
            "time.sleep(float(sys.argv[2]))"


@pytest.mark.slow
def test_a_command_that_keeps_descriptors_in_flight_cuts_no_other_off(world):
    """A new network has to wait for them, but farhand-egress must not be killed for messages that could not be sent."""
    class Small(Network):
        def _prepare(self):
            resource.setrlimit(resource.RLIMIT_NOFILE, (600, 600))
            super()._prepare()

    with Small(world, user="unprivileged") as network:
        ident = hold(network)
        egress = running_egress(network)
        full = network.start([PYTHON, "-c", IN_FLIGHT, "750", "10"], None, box=False)
        network.client.wait_output(full, b"full")
        late = network.start(["/usr/bin/curl", "-sS", "-m", "60", "http://127.0.0.1/"], allow("127.0.0.1"), box=False)
        assert network.finish(full).code == 0
        assert network.finish(late).code == 0
        assert egress_of(network) == egress
        end(network, ident)


# Peers that take time


CROWD = "import os, resource, select, socket, sys\n" \
        "resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))\n" \
        "p = int(os.environ['HTTP_PROXY'].rpartition(':')[2])\n" \
        "everybody = [socket.socket() for _ in range(int(sys.argv[1]))]\n" \
        "for s in everybody:\n" \
        "    s.setblocking(False)\n" \
        "    s.connect_ex(('127.0.0.1', p))\n" \
        "for s in select.select([], everybody, [], 10)[1]:\n" \
        "    try: s.send(sys.argv[2].encode())\n" \
        "    except OSError: pass\n" \
        "print('crowd', flush=True)\n" \
        "sys.stdin.read()\n"
CROWDS = {"silent": "", "half a head": "GET http://good.test/ HT", "hanging requests": get("good.test", path="/hang"),
          "silent tunnels": "CONNECT good.test:9 HTTP/1.1\r\nHost: good.test:9\r\n\r\n",
          "unread floods": "CONNECT good.test:19 HTTP/1.1\r\nHost: good.test:19\r\n\r\n",
          "names that nobody answers": get("slow.test")}


@pytest.mark.parametrize("crowd", CROWDS)
def test_a_crowd_of_slow_connections_stalls_nobody_else(network, crowd):
    """Of one command, most of them more than it may have: another command is served meanwhile, and memory stays bounded."""
    assert works(network)
    egress = running_egress(network)
    before = resident_bytes(egress)
    # The floods cost the world itself too much.
    amount = "40" if crowd == "unread floods" else "500"
    ident = network.start([PYTHON, "-c", CROWD, amount, CROWDS[crowd]], allow("good.test", "slow.test"), pipeStdin=True)
    network.client.wait_output(ident, b"crowd", WAIT)
    for _ in range(3):
        began = time.monotonic()
        assert works(network)
        assert time.monotonic() - began < 10 * PATIENCE
    if not IS_SANITIZED:
        assert resident_bytes(egress) - before < 64 << 20
    end(network, ident)
    wait_until(lambda: descriptors(egress) < 130, what="the end of the crowd")  # 69 are kept for messages
    assert works(network)


CALLERS_WHO_LEAVE = "import os, socket\n" \
                    "p = int(os.environ['HTTP_PROXY'].rpartition(':')[2])\n" \
                    "for n in range(2000):\n" \
                    "    with socket.create_connection(('127.0.0.1', p)) as s:\n" \
                    "        s.sendall(b'GET http://slow.test/ HTTP/1.1\\r\\nHost: slow.test\\r\\n\\r\\n')"


def test_lookups_that_nobody_waits_for_are_limited(network):
    """A lookup cannot be called off, and asks twice for two kinds of addresses, for more than two seconds: a command that leaves at once
    must not pile them up. 256 may be under way."""
    since, began = network.world.mark(), time.monotonic()
    assert network.run([PYTHON, "-c", CALLERS_WHO_LEAVE], allow("slow.test", "good.test")).code == 0
    assert works(network)
    asked = len(network.world.log(since, "dns", name="slow.test"))
    assert 0 < asked <= 256 * 4 * (1 + (time.monotonic() - began) / 2), asked


def test_a_head_that_never_ends_is_refused(network):
    """By its size, in one piece or in many."""
    for pieces in (None, 50):
        got = network.one(allow("good.test"), "http", raw="GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nX: @PAD@",
                          pad=200000, pieces=pieces, timeout=20)
        assert status(got) == 431 or got["end"] in ("ECONNRESET", "eof"), got


def test_big_bodies_both_ways(network):
    size = 4 << 20
    got = network.one(allow("good.test"), **http("good.test", path=f"/big/{size}", timeout=60))
    assert got["size"] > size and status(got) == 200
    for path in (f"/chunked/{size}", f"/old/{size}"):
        got = network.one(allow("good.test"), "http", raw=get("good.test", path=path), until_end=True, timeout=60)
        assert got["size"] > size
    since = network.world.mark()
    script = f"head -c {size} /dev/zero | curl -sS -m 60 -T - http://good.test/up; " \
             f"head -c {size} /dev/zero | curl -sS -m 60 -H 'Content-Length: {size}' -H 'Transfer-Encoding:' -T - http://good.test/up"
    ended = network.sh(script, allow("good.test"))
    assert [entry["body"] for entry in network.world.log(since, "http")] == [size, size], ended


def test_a_half_closed_tunnel_goes_on_the_other_way(network):
    script = "import os, socket\n" \
             "s = socket.create_connection(('127.0.0.1', int(os.environ['HTTP_PROXY'].rpartition(':')[2])))\n" \
             "s.sendall(b'CONNECT good.test:7 HTTP/1.1\\r\\nHost: good.test:7\\r\\n\\r\\n')\n" \
             "head = b''\n" \
             "while not head.endswith(b'\\r\\n\\r\\n'): head += s.recv(1)\n" \
             "s.sendall(b'x' * 1000000); s.shutdown(socket.SHUT_WR)\n" \
             "n = 0\n" \
             "while True:\n" \
             "    got = s.recv(65536)\n" \
             "    if not got: break\n" \
             "    n += len(got)\n" \
             "print(n)"
    assert network.run([PYTHON, "-c", script], allow("good.test")).out == b"1000002\n"


MANY = "import os, socket, sys, threading\n" \
       "p = int(os.environ['HTTP_PROXY'].rpartition(':')[2])\n" \
       "good = [0] * 16\n" \
       "def work(n):\n" \
       "    for _ in range(int(sys.argv[1]) // 16):\n" \
       "        s = socket.create_connection(('127.0.0.1', p), 30)\n" \
       "        s.sendall(b'GET http://good.test/ HTTP/1.1\\r\\nHost: good.test\\r\\nConnection: close\\r\\n\\r\\n')\n" \
       "        data = b''\n" \
       "        while (got := s.recv(65536)): data += got\n" \
       "        good[n] += data.startswith(b'HTTP/1.1 200') and data.endswith(b'0\\r\\n\\r\\n'); s.close()\n" \
       "ts = [threading.Thread(target=work, args=(n,)) for n in range(16)]\n" \
       "[t.start() for t in ts]; [t.join() for t in ts]\n" \
       "print('all', sum(good), flush=True)\n" \
       "sys.stdin.read()"


@pytest.mark.parametrize("amount", [800, pytest.param(10000, marks=pytest.mark.slow)])
def test_many_connections(network, amount):
    """None is lost, none is counted twice, nothing is left of them."""
    assert works(network)
    egress = running_egress(network)
    before = descriptors(egress)
    each = amount // 4 // 16 * 16
    idents = [network.start([PYTHON, "-c", MANY, str(amount // 4)], allow("good.test"), pipeStdin=True) for _ in range(4)]
    for ident in idents:
        network.client.wait_output(ident, b"all %d\n" % each, 300)
        # Beyond a number in a second they are told as sums.
        wait_until(lambda ident=ident: sum(d.get("count", 1) for d in network.client.decisions(ident)) == each, what="the decisions")
        end(network, ident)
    told = [network.client.wait_exit(ident)["connections"] for ident in idents]
    assert told == [{"allowed": each, "denied": 0}] * 4
    wait_until(lambda: descriptors(egress) <= before, what="the descriptors of before")


# Questions


def asks(network, steps, answer, timeout_ms=20000, domains=None, **more):
    network.client.answer = answer
    return network.probe(steps, policy(domains, **more), launch={"policyDecisionTimeoutMs": timeout_ms})


def test_connections_to_one_target_share_a_question(network):
    ended = asks(network, [{"do": "many", "steps": [http("good.test")] * 8 + [http("good.test", 8080)] * 8}],
                 {"decision": {"type": "allow"}})
    assert all(status(result) == 200 for result in ended.results[0])
    assert 2 <= len(ended.questions) <= 16 and {q["request"]["port"] for q in ended.questions} == {80, 8080}
    assert {d["source"] for d in ended.decisions} == {"decider"}


def test_a_question_that_nobody_answers_is_a_refusal(network):
    ended = asks(network, [http("good.test")], None, timeout_ms=300)
    assert status(ended.results[0]) == 403 and '"reason":"not_allowed"' in ended.results[0]["text"]


@pytest.mark.slow
def test_an_answer_after_the_time_changes_nothing(network):
    ended = asks(network, [http("good.test")], None, timeout_ms=200)
    for message in network.client.questions:
        network.client.send_json({"id": message["id"], "result": {"decision": {"type": "allow"}}})
    assert status(ended.results[0]) == 403
    assert works(network)


def test_an_answer_to_no_question_allows_nothing(network):
    """It ends the connection that it came on, as in the reference; what is no message at all is answered with an error."""
    for ident in (0, -1, 1, 99, "x", None, 1.5, 2 ** 64):
        with network.connect() as other:
            other.send_json({"id": ident, "result": {"decision": {"type": "allow"}}})
    assert status(network.one(policy(), **http("good.test"))) == 403


def test_a_question_ends_with_its_command(network):
    network.client.answer = None
    ident = network.start([PYTHON, "-c", HOLD, "good.test:7"], policy(), launch={"policyDecisionTimeoutMs": 60000}, pipeStdin=True)
    network.client.wait_for(lambda m: m.get("method") == "network/policyRequest")
    since = network.world.mark()
    end(network, ident)
    network.client.send_json({"id": network.client.questions[-1]["id"], "result": {"decision": {"type": "allow"}}})
    assert works(network)
    assert network.world.packets(since) == {("tcp", PUBLIC, 80)}


@pytest.mark.slow
def test_questions_beyond_the_limit_are_refusals(network):
    """400 targets, no answer: the server stays awake, and all are refused in the end."""
    steps = [{"do": "connect", "to": f"good.test:{1000 + n}", "timeout": 60} for n in range(200)]
    network.client.answer = None
    idents = [network.start([PYTHON, PROBE, json.dumps([{"do": "many", "steps": steps}])],
                            policy(), launch={"policyDecisionTimeoutMs": 3000}) for _ in range(2)]
    assert network.sh("echo on", None, box=False).out == b"on\n"
    for ident in idents:
        ended = network.finish(ident, timeout=120)
        assert {status(result) for result in ended.results[0]} <= {403, None}, ended
    assert len(network.client.questions) <= 400


def test_a_question_waits_for_a_client_that_comes_back(network):
    network.client.answer = None
    ident = network.start([PYTHON, "-c", HOLD, "good.test:7"], policy(), launch={"policyDecisionTimeoutMs": 60000}, pipeStdin=True)
    network.client.wait_for(lambda m: m.get("method") == "network/policyRequest")
    session = network.client.session_id
    network.client.abort()
    with network.connect(resume=session, answer={"decision": {"type": "allow"}}) as again:
        again.wait_for(lambda m: m.get("method") == "network/policyRequest")
        again.wait_output(ident, b"200")
        again.call("process/terminate", {"processId": ident})
