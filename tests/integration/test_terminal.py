"""The command line in a real terminal, tmux: programs that draw, keys that interrupt, windows that change, people who leave and come back,
bytes that are no text, and pastes. Tmux.over() checks after each that the modes of the terminal are what they were."""

import hashlib
import os
import random
import re
import shlex
import shutil
import signal
import tempfile

import pytest

from cutting_proxy import CuttingProxy
from farhand_client import IS_SANITIZED, Server, is_idle, pid_gone, wait_until
from test_cmd_detached import Desk
from tmux_rig import Tmux, farhand

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="no tmux")
PASTE_BYTES = 10 * 1024 * 1024
PEAK_KIB = 24 * 1024
VIM = shutil.which("vim.tiny") or shutil.which("vim")


@pytest.fixture
def desk():
    with tempfile.TemporaryDirectory(prefix="fh-term-", dir="/tmp") as home:
        with open(f"{home}/.bash_profile", "w", encoding="utf-8") as f:
            f.write("PS1='far> '\n")
        d = Desk(home)
        yield d
        d.end()


@pytest.fixture
def window(desk):
    """Opens windows in which farhand runs with these arguments."""
    opened = []

    def open_one(*args):
        opened.append(Tmux(farhand(*args), desk.env))
        return opened[-1]

    yield open_one
    for t in opened:
        t.close()


def text_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


# --- programs


@pytest.mark.skipif(not VIM, reason="no vim")
def test_vim_edits_a_file(desk, window):
    path = f"{desk.home}/letter"
    t = window("run", "-t", "--", VIM, "-N", "-u", "NONE", "-i", "NONE", path)
    t.expect("letter")
    t.type("ifar away")
    t.keys("Enter")
    t.type("and back")
    t.expect("and back")
    t.keys("Escape")
    t.line(":wq")
    assert t.over() == 0 and text_of(path) == "far away\nand back\n"


@pytest.mark.skipif(not shutil.which("top"), reason="no top")
def test_top_draws_and_ends(window):
    t = window("run", "-t", "--", "top", "-d", "1")
    t.expect("load average")
    t.expect("PID")
    t.type("q")
    assert t.over() == 0


def test_the_size_follows_the_window(window):
    t = window("run", "-t", "--", "bash", "-c", "trap 'stty size; test $(tput cols) = 132 && exit 4' WINCH; stty size; "
               "while :; do sleep 0.05; done")
    t.expect("24 80")
    t.resize(30, 100)
    t.expect("30 100")
    t.resize(43, 132)
    t.expect("43 132")
    assert t.over() == 4


# --- keys


def test_ctrl_c_interrupts_the_far_command_and_not_us(window):
    t = window("run", "-t", "--", "bash", "-c", "trap 'echo interrupted' INT; echo ready; read line; echo got $line; exit 9")
    t.expect("ready")
    t.keys("C-c")
    t.expect("interrupted")
    t.line("more")
    t.expect("got more")
    assert t.over() == 9


def test_ctrl_c_without_a_far_terminal_reaches_the_command(window):
    t = window("run", "--", "bash", "-c", "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.05; done")
    t.expect("ready")
    t.keys("C-c")
    t.expect("interrupted")
    assert t.over() == 9


def shell(window, *args):
    t = window("shell", *args)
    t.expect("far>")
    return t


def test_ctrl_z_stops_a_job_of_the_far_shell(window):
    t = shell(window)
    client = t.client()
    t.line("""bash -c 'trap "echo go-$((40+2))" CONT; trap "exit 7" INT; echo begun-$((40+2)); while :; do sleep 0.05; done'""")
    t.expect("begun-42")
    t.keys("C-z")
    t.expect("Stopped")
    t.line("echo stopped-$(jobs -s | wc -l)")
    t.expect("stopped-1")
    t.line("fg")
    t.expect("go-42")
    t.keys("C-c")
    t.line("echo end-$?")
    t.expect("end-7")
    assert t.client() == client
    t.line("exit 3")
    assert t.over() == 3


# --- leaving and coming back


def test_a_person_leaves_and_comes_back(window):
    t = shell(window)
    t.line("kept=value; echo first-$((40+2))")
    t.expect("first-42")
    t.type("~?")
    seen = t.expect("~~  one ~")
    assert "~.  leave: the command runs on" in seen and "~?  this list" in seen
    t.keys("Enter")
    t.line("~~. is typed")
    t.expect("~. is typed")
    t.expect("~.: ")  # the shell knows no such command
    t.type("~.")
    seen = t.expect("come back with: farhand attach ")
    ident = re.search(r"farhand attach ([0-9a-f-]+)", seen).group(1)
    assert t.over() == 0
    back = window("attach", ident)
    seen = back.expect("first-42")
    back.line("echo [$kept]")
    back.expect("[value]")
    back.line("exit 5")
    assert back.over() == 5


@pytest.mark.skipif(not VIM, reason="no vim")
def test_the_screen_is_there_again_after_coming_back(desk, window):
    path = f"{desk.home}/letter"
    t = shell(window)
    t.line(shlex.join([VIM, "-N", "-u", "NONE", "-i", "NONE", path]))
    t.expect("letter")
    t.type("ifirst line")
    t.expect("first line")
    t.expect("INSERT")  # by now the terminal has answered what vim had asked, so that no answer comes between Enter and ~.
    t.keys("Enter")
    t.type("~.")
    ident = re.search(r"farhand attach ([0-9a-f-]+)", t.expect("farhand attach ")).group(1)
    t.over()
    back = window("attach", ident)
    back.expect("first line")
    back.type("second line")
    back.keys("Escape")
    back.line(":wq")
    back.expect("far>")
    assert text_of(path) == "first line\nsecond line\n"
    back.line("exit")
    assert back.over() == 0


def test_old_questions_to_the_terminal_are_not_answered_again(desk, window):
    """The first terminal answers, and what reads there gets the answer. The second one shows the rest of the output only."""
    t = window("shell")
    t.expect("far>")
    t.line("stty -echo; printf 'ask-\\033[c\\033[6n\\033[5n'; IFS= read -rsd n answer; stty echo; echo got-${#answer}")
    t.expect("ask-got-")  # not what was typed, but what was printed
    t.keys("Enter")
    t.type("~.")
    ident = re.search(r"farhand attach ([0-9a-f-]+)", t.expect("farhand attach ")).group(1)
    assert t.over() == 0
    wait_until(lambda: b"\x1b[c\x1b[6n\x1b[5n" in t.raw(), what="the questions")
    back = window("attach", ident)
    back.expect("ask-got-")
    wait_until(lambda: b"ask-got-" in back.raw(), what="the bytes that the window has shown")
    assert b"\x1b[c" not in back.raw() and b"\x1b[6n" not in back.raw()
    back.line(f"cat > {desk.home}/typed; echo type''d-$?")  # no word of the lines that are shown again
    back.line("word")
    back.keys("C-d")
    back.expect("typed-0")
    assert text_of(f"{desk.home}/typed") == "word\n"
    back.line("exit")
    assert back.over() == 0


def test_leaving_a_command_of_run_ends_it(window):
    t = window("run", "-t", "--", "sh", "-c", "echo pid-$$; sleep 600")
    pid = int(re.search(r"pid-(\d+)\n", t.expect("pid-")).group(1))
    t.type("~?")
    t.expect("~.  leave: the command ends")
    t.keys("Enter")
    t.type("~.")
    assert t.over() == 255
    pid_gone(pid)


# --- bytes


def test_output_that_is_no_text_passes_unchanged(desk, window):
    data = bytes(range(256)) * 4 + "ä€".encode() + b"\xc3\x28\xff\xfe\x80"
    with open(f"{desk.home}/bytes", "wb") as f:
        f.write(data)
    t = window("run", "-t", "--", "sh", "-c", f"stty raw; printf '<<<'; cat {desk.home}/bytes; printf '>>>'")
    assert t.over() == 0
    wait_until(lambda: b">>>" in t.raw())
    assert re.search(b"<<<(.*)>>>", t.raw(), re.S).group(1) == data


def paste_data():
    """Bytes of all values; only a ~, which may begin an escape, is not among them."""
    return random.Random(14).randbytes(PASTE_BYTES).replace(b"~", b"-")


def test_a_paste_that_is_marked_has_no_escapes(desk, window):
    data, path = b"one\n~.\n~~two\n~?\n", f"{desk.home}/pasted"
    size = len(data) + 2 * len(b"\x1b[200~")
    t = window("run", "-t", "--", "sh", "-c", f"stty raw -echo; printf '\\033[?2004hready\\r\\n'; head -c {size} > {path}; "
               "printf '\\033[?2004l'; exit 7")
    t.expect("ready")
    t.paste(data, "-p")
    assert t.over() == 7
    with open(path, "rb") as f:
        assert f.read() == b"\x1b[200~" + data + b"\x1b[201~"


def peak_kib(pid):
    return int(re.search(r"VmHWM:\s*(\d+)", text_of(f"/proc/{pid}/status")).group(1))


@pytest.mark.parametrize("reader", ["at once", "later"])
def test_a_large_paste_arrives_byte_for_byte(desk, window, reader):
    data, path = paste_data(), f"{desk.home}/pasted"
    wait = f"until test -e {desk.home}/go; do sleep 0.05; done; " if reader == "later" else ""
    t = window("run", "-t", "--", "sh", "-c", f"stty raw -echo; printf 'ready\\r\\n'; {wait}head -c {PASTE_BYTES} > {path}; "
               "printf 'taken\\r\\n'; cat > /dev/null")
    client = t.client()
    t.expect("ready")
    t.paste(data)
    if reader == "later":
        wait_until(lambda: is_idle(client), what="a paste that waits")
        with open(f"{desk.home}/go", "w", encoding="utf-8"):
            pass
    t.expect("taken")
    with open(path, "rb") as f:
        assert hashlib.sha256(f.read()).digest() == hashlib.sha256(data).digest()
    if not IS_SANITIZED:
        assert peak_kib(client) < PEAK_KIB
    t.keys("Enter")
    t.type("~.")
    assert t.over() == 255


# --- ends that nobody has typed


def test_a_signal_ends_the_command_of_run(window):
    t = window("run", "-t", "--", "sh", "-c", "echo pid-$$; exec sleep 600")
    t.expect("pid-")
    os.kill(t.client(), signal.SIGTERM)
    assert t.over() == 128 + signal.SIGTERM


def session_of(desk):
    process, = desk.processes()
    assert process["running"]
    return process["sessionId"]


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_a_shell(desk, window, signo):
    t = shell(window)
    os.kill(t.client(), signo)
    t.expect("come back with: farhand attach ")
    assert t.over() == 0
    session_of(desk)


def test_a_window_that_is_closed_leaves_a_shell(desk, window):
    t = shell(window)
    t.line("echo seen-$((40+2))")
    t.expect("seen-42")
    client = t.client()
    t.close()
    pid_gone(client)
    back = window("attach", session_of(desk))
    back.expect("seen-42")
    back.line("exit 6")
    assert back.over() == 6


def test_a_command_without_a_terminal_is_left_by_a_line(desk, window):
    ident = desk.detach("sh", "-c", "echo begun; exec sleep 600")
    t = window("attach", ident)
    t.expect("begun")
    t.line("~?")
    t.expect("~.  leave: the command runs on")
    t.line("~.")
    t.expect("come back with: farhand attach ")
    assert t.over() == 0
    session_of(desk)


# --- connections


def test_a_lost_connection_resumes_and_says_so(desk, window):
    """The connection is cut once, when it carries output; every line arrives, and once."""
    with Server() as server, CuttingProxy(server.port, seed=3, kinds={"reset": 1}, most_struck=1, spares_first=True) as proxy:
        t = window("run", "-t", "--url", f"ws://127.0.0.1:{proxy.port}", "--", "sh", "-c",
                   f"echo begun; until test -e {desk.home}/go; do sleep 0.05; done; stty -opost; seq 1 40000; stty opost; read line")
        t.expect("begun")
        with open(f"{desk.home}/go", "w", encoding="utf-8"):
            pass
        wait_until(lambda: b"\n40000\n" in t.raw() and b"resumed" in t.raw(), 60)
        assert proxy.counts["reset"] == 1
        t.keys("Enter")
        assert t.over() == 0
        said = re.findall(rb"farhand: [^\r\n]*\r\n", t.raw())
        assert len(said) == 2 and said[0].endswith(b"; trying to resume\r\n") and said[1] == b"farhand: resumed\r\n"
        rest = t.raw()
        for line in said:
            rest = rest.replace(line, b"", 1)
        assert [int(n) for n in re.findall(rb"^(\d+)$", rest, re.M)] == list(range(1, 40001))
