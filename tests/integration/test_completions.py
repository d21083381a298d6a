"""The completions of bash, zsh and fish: made of the program's option tables, and used by the real shells."""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time

import pytest

from farhand_client import BIN, PATIENCE, REPO

SECONDS = 60 * PATIENCE
SHELLS = ["bash", "zsh", "fish"]

# The option tables of a program that uses all that tables can say.
ROWS = """\
option	-h	--help	-	nothing	once	Print the list of commands
option	-V	--version	-	nothing	once	Print the version
command	run	run a command: there
option	-t	--tty	-	nothing	once	on a [real] terminal
option	-i	--interactive	-	nothing	once	it's passed on
option	-e	--env	KEY=VALUE	nothing	many	a variable
option	-C	--cwd	DIR	directory	once	where
option	-	--on	NAME	environment	once	in which environment
option	-	--profile	FILE	file	once	a profile
option	-h	--help	-	nothing	once	Print this help
operands	command	command	first
command	sandbox	run a command here
option	-	--network	-	nothing	once	leave the network open
option	-	--cwd	DIR	directory	once	where
option	-h	--help	-	nothing	once	Print this help
operands	directory	command	mixed
command	cp	copy
option	-r	--recursive	-	nothing	once	directories too
option	-h	--help	-	nothing	once	Print this help
operands	file	file	mixed
command	connect	use an environment
option	-h	--help	-	nothing	once	Print this help
operands	environment	environment	first
command	env	environments
verb	list	print them
option	-	--json	-	nothing	once	as JSON
option	-h	--help	-	nothing	once	Print this help
operands	nothing	nothing	first
verb	check	try one
option	-h	--help	-	nothing	once	Print this help
operands	environment	environment	first
command	mcp	serve, without a verb
option	-	--read-only	-	nothing	once	write nothing
option	-h	--help	-	nothing	once	Print this help
operands	nothing	nothing	first
verb	install	put it there
option	-	--yes	-	nothing	once	do not ask
option	-h	--help	-	nothing	once	Print this help
operands	client	environment	mixed
"""
ENVIRONMENTS = "local   here\nfar     ssh far\nfarther ws://x\n"


def make(shell, program):
    done = subprocess.run([os.path.join(REPO, "scripts/make-completions"), shell, program], capture_output=True, timeout=SECONDS,
                          check=False)
    assert done.returncode == 0 and done.stderr == b"", done
    return done.stdout.decode()


class Desk:
    """A directory with a program `farhand` that has ROWS, the completions made of it, and some files."""

    def __init__(self, base):
        self.base = os.path.join(base, "desk")
        self.program = self.write("bin/farhand", f"#!/bin/sh\ncase $1 in\n--help-table) cat <<'END'\n{ROWS}END\n;;\n"
                                                 f"env) cat <<'END'\n{ENVIRONMENTS}END\n;;\n*) echo \"GOT<$*>\";;\nesac\n")
        os.chmod(self.program, 0o755)
        os.chmod(self.write("bin/zz-tool", "#!/bin/sh\n"), 0o755)
        self.files = {shell: self.write({"zsh": "functions/_farhand"}.get(shell, f"farhand.{shell}"), make(shell, self.program))
                      for shell in SHELLS}
        self.write("work/alpha/beta/x", "")
        self.write("work/alps", "")
        self.write("work/gam ma", "")
        self.write("home/.config/x", "")
        self.cwd = os.path.join(self.base, "work")
        self.env = {"PATH": f"{self.base}/bin:/usr/bin:/bin", "HOME": f"{self.base}/home", "LC_ALL": "C.UTF-8", "TERM": "dumb"}

    def write(self, name, text):
        path = os.path.join(self.base, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def run(self, argv):
        done = subprocess.run(argv, cwd=self.cwd, env=self.env, capture_output=True, timeout=SECONDS, stdin=subprocess.DEVNULL,
                              check=False)
        assert done.stderr == b"", done.stderr.decode()
        return done.stdout.decode().split("\n")[:-1]

    def bash(self, line):
        """What bash would offer at the end of the line. Words are split as bash does it."""
        words = re.findall(r"[=:]+|[^\s=:]+", line) + ([""] if line.endswith(" ") else [])
        return sorted(self.run(["bash", "--norc", "-c", """
            source "$1"; COMP_LINE=$2; COMP_POINT=${#2}; shift 2; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
            _farhand farhand "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
            ((${#COMPREPLY[@]} == 0)) || printf '%s\\n' "${COMPREPLY[@]}" """, "bash", self.files["bash"], line, *words]))

    def fish(self, line):
        offered = self.run(["fish", "--private", "-c", "source $argv[1]; complete -C $argv[2]", self.files["fish"], line])
        return sorted(offer.partition("\t")[0] for offer in offered)

    def typed(self, shell, line):
        """Types the line, a tab and return into the shell. Returns the arguments that the program got then."""
        setup = {"bash": f"bind 'set enable-bracketed-paste off'; source {self.files['bash']}",
                 "zsh": f"unset zle_bracketed_paste; fpath=({self.base}/functions $fpath); autoload -Uz compinit; compinit -u -D"}[shell]
        argv = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}[shell]
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(self.cwd)
            os.execvpe(argv[0], argv, {**self.env, "PS1": ""})
        try:
            os.write(fd, (setup + "; PS1='rea''dy>'\r").encode())
            expect(fd, b"ready>")
            os.write(fd, (line + "\t\r").encode())
            return expect(fd, rb"GOT<(.*?)>").group(1).decode()
        finally:
            os.kill(pid, signal.SIGKILL)
            os.close(fd)
            os.waitpid(pid, 0)


def expect(fd, pattern):
    seen, end = b"", time.monotonic() + SECONDS
    while not re.search(pattern, seen):
        assert select.select([fd], [], [], max(0, end - time.monotonic()))[0], seen
        seen += os.read(fd, 65536)
    return re.search(pattern, seen)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    return Desk(str(tmp_path_factory.mktemp("completions")))


def needs(shell):
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")


# What each shell offers at the end of a line. Where the shells differ, the second value is for fish.
OFFERED = [
    ("farhand ", ["connect", "cp", "env", "mcp", "run", "sandbox"], None),
    ("farhand c", ["connect", "cp"], None),
    ("farhand --v", ["--version"], None),
    ("farhand env ", ["check", "list"], None),
    ("farhand env l", ["list"], None),
    ("farhand env list --", ["--help", "--json"], None),
    ("farhand mcp ", ["install"], None),
    ("farhand mcp --r", ["--read-only"], None),
    ("farhand mcp install --y", ["--yes"], None),
    ("farhand mcp install c", ["claude", "codex", "cursor"], None),
    ("farhand env check ", ["far", "farther", "local"], None),
    ("farhand run --o", ["--on"], None),
    ("farhand run -t --on far", ["far", "farther"], None),
    ("farhand run --on=far", ["far", "farther"], ["--on=far", "--on=farther"]),
    ("farhand run --cwd al", ["alpha"], ["alpha/"]),
    ("farhand run --cwd=al", ["alpha"], ["--cwd=alpha/"]),
    ("farhand run -C al", ["alpha"], ["alpha/"]),
    ("farhand run -tC al", ["alpha"], ["alpha/"]),
    ("farhand run --cwd=", ["alpha"], ["--cwd=alpha/"]),
    ("farhand run --profile al", ["alpha", "alps"], ["alpha/", "alps"]),
    ("farhand run --profile ", ["alpha", "alps", "gam ma"], ["alpha/", "alps", "gam ma"]),
    ("farhand run -e K=V -t --pro", ["--profile"], None),
    ("farhand run zz-", ["zz-tool"], None),
    ("farhand run -e K=V -C alpha -- zz-", ["zz-tool"], None),
    ("farhand run -- zz-tool alp", ["alpha", "alps"], ["alpha/", "alps"]),
    ("farhand run zz-tool --o", [], None),
    ("farhand sandbox alp", ["alpha"], ["alpha/"]),
    ("farhand sandbox alpha --net", ["--network"], None),
    ("farhand sandbox zz-", [], None),
    ("farhand sandbox --network -- zz-", ["zz-tool"], None),
    ("farhand sandbox -- zz-tool --net", [], None),
    ("farhand cp alpha --r", ["--recursive"], None),
    ("farhand cp alpha a", ["alpha", "alps"], ["alpha/", "alps"]),
    ("farhand connect l", ["local"], None),
    ("farhand nonsense ", [], None),
]


@pytest.mark.parametrize("line,offered", [row[:2] for row in OFFERED])
def test_bash_offers(desk, line, offered):
    assert desk.bash(line) == offered


@pytest.mark.parametrize("line,offered", [(row[0], row[2] or row[1]) for row in OFFERED])
def test_fish_offers(desk, line, offered):
    needs("fish")
    assert desk.fish(line) == offered


# Lines that can be completed in one way only, and what the program gets when they are.
TYPED = [
    ("farhand conn", "connect"),
    ("farhand --vers", "--version"),
    ("farhand run --prof", "run --profile"),
    ("farhand run -t --inter", "run -t --interactive"),
    ("farhand run --cwd=al", "run --cwd=alpha/"),
    ("farhand run -C al", "run -C alpha/"),
    ("farhand run --on lo", "run --on local"),
    ("farhand run -e A=1 -e B=2 --prof", "run -e A=1 -e B=2 --profile"),
    ("farhand run --profile gam", "run --profile gam ma"),
    ("farhand run zz-t", "run zz-tool"),
    ("farhand run -t -- zz-t", "run -t -- zz-tool"),
    ("farhand sandbox --net", "sandbox --network"),
    ("farhand sandbox --network -- zz-t", "sandbox --network -- zz-tool"),
    ("farhand sandbox alpha --net", "sandbox alpha --network"),
    ("farhand cp alps --rec", "cp alps --recursive"),
    ("farhand connect lo", "connect local"),
    ("farhand mcp install cl", "mcp install claude"),
    ("farhand mcp --re", "mcp --read-only"),
]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize("line,got", TYPED)
def test_a_tab_completes_the_line(desk, shell, line, got):
    needs(shell)
    # Zsh takes back the slash behind a directory and the = behind an option when nothing follows.
    assert desk.typed(shell, line).strip().rstrip("/=") == got.rstrip("/")


def words_of(help_text):
    return set(re.findall(r"^ +(-\w)?,? *(--[a-z0-9-]+)", help_text, re.M))


def ask(*args):
    done = subprocess.run([BIN, *args], capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_every_option_of_the_program_is_offered(tmp):
    """Bash offers every option that --help shows."""
    desk = Desk(tmp)
    desk.files["bash"] = desk.write("ours.bash", make("bash", BIN))
    commands, command = re.findall(r"^  ([a-z-]+) ", ask("--help"), re.M), None
    assert desk.bash("farhand ") == sorted(commands)
    assert desk.bash("farhand sandbox --network -- zz-") == ["zz-tool"]
    paths = []
    for kind, name, *_ in (row.split("\t") for row in ask("--help-table").splitlines()):
        if kind in ("command", "verb"):
            paths.append(name if kind == "command" else f"{command} {name}")
            command = name if kind == "command" else command
    assert [path for path in paths if " " not in path] == commands
    for path in paths:
        offered = set(desk.bash(f"farhand {path} -"))
        assert {word for pair in words_of(ask(*path.split(), "--help")) for word in pair if word} == offered, path


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_accepts_the_completions_of_the_program(tmp, shell):
    needs(shell)
    path = os.path.join(tmp, "completions")
    with open(path, "w", encoding="utf-8") as f:
        f.write(make(shell, BIN))
    done = subprocess.run([shell, "-n", path], capture_output=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_table_is_printed_and_nothing_is_done(tmp):
    """With a home that does not exist: whatever a command makes there would fail or be seen."""
    def asked(*args):
        done = subprocess.run([BIN, *args, "--help-table"], env={"HOME": f"{tmp}/home", "PATH": ""}, cwd=tmp, capture_output=True,
                              text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, check=False)
        assert (done.returncode, done.stderr, os.listdir(tmp)) == (0, "", []), done
        return done.stdout
    rows = asked()
    for command in re.findall(r"^command\t(\S+)", rows, re.M):
        alone = asked(command)
        assert alone and alone in rows
        assert {row.split("\t")[0] for row in alone.splitlines()} <= {"option", "operands", "verb"}
