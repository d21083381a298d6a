"""Shared by the tests of the command line in a real terminal: a tmux server of the test's own, one window, keys, pastes and what is seen."""

import os
import re
import shlex
import shutil
import subprocess
import tempfile

from farhand_client import BIN, PATIENCE, merged_env, wait_until

SECONDS = 60 * PATIENCE
ROWS, COLUMNS = 24, 80
# What a shell that reads no commands from the terminal does: it leaves the modes alone, so that what `farhand` left is seen.
SCRIPT = """trap : INT
stty -a > {base}/before
{command}
code=$?
stty -a > {base}/after
echo "[over $code]"
until test -e {base}/end; do read line; done
"""


class Tmux:
    """One tmux server with one window in which `command`, a line of shell, runs. `env` is the environment of the command."""

    def __init__(self, command, env):
        self.base = tempfile.mkdtemp(prefix="fh-tmux-", dir="/tmp")
        self.argv = ["tmux", "-S", f"{self.base}/socket", "-f", "/dev/null"]
        # tmux says what TERM is; TMUX would name another server.
        self.env = {**merged_env({}), **env, "TMUX_TMPDIR": self.base, "LC_ALL": "C.UTF-8"}
        # LeakSanitizer stops the process that it looks at, and waits for ever when the SIGCONT of a closed window comes at that moment.
        self.env["ASAN_OPTIONS"] = self.env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        for name in ("TMUX", "TMUX_PANE", "TERM"):
            self.env.pop(name, None)
        script = SCRIPT.format(base=self.base, command=command)
        with open(f"{self.base}/script", "w", encoding="utf-8") as f:
            f.write(script)
        self.say("new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), "cat > /dev/null", ";",
                 "set-option", "-g", "remain-on-exit", "on", ";",
                 "set-option", "-g", "window-size", "manual", ";",
                 "pipe-pane", "-O", f"cat > {self.base}/raw", ";",
                 "respawn-pane", "-k", f"exec sh {self.base}/script")

    def say(self, *args, **kw):
        return subprocess.run([*self.argv, *args], env=self.env, check=True, capture_output=True, timeout=SECONDS, **kw).stdout

    # What the person does

    def type(self, text):
        self.say("send-keys", "-l", text)

    def keys(self, *names):
        """Enter, Escape, C-c."""
        self.say("send-keys", *names)

    def line(self, text):
        self.type(text)
        self.keys("Enter")

    def paste(self, data, *options):
        """-p: with marks around it, where the program has asked for them."""
        with open(f"{self.base}/paste", "wb") as f:
            f.write(data)
        self.say("load-buffer", f"{self.base}/paste", ";", "paste-buffer", "-r", "-d", *options)

    def resize(self, rows, columns):
        self.say("resize-window", "-x", str(columns), "-y", str(rows))

    # What the person sees

    def screen(self):
        return self.say("capture-pane", "-p").decode()

    def expect(self, text):
        """Waits until `text` is on the screen. Returns the screen."""
        seen = ""

        def is_there():
            nonlocal seen
            seen = self.screen()
            return text in seen

        try:
            wait_until(is_there, SECONDS / PATIENCE, what=text)
        except TimeoutError as e:
            raise AssertionError(f"no {text!r} on the screen:\n{seen}") from e
        return seen

    def raw(self, upto=b""):
        """Every byte that was written to the terminal, in order; waits until `upto` is among them, because they come here after the screen."""
        def is_there():
            return os.path.exists(f"{self.base}/raw") and upto in open(f"{self.base}/raw", "rb").read()

        wait_until(is_there, SECONDS / PATIENCE, what=repr(upto))
        with open(f"{self.base}/raw", "rb") as f:
            return f.read()

    def client(self):
        """The process id of the farhand that runs in the window, a child of the script."""
        shell = self.say("display-message", "-p", "#{pane_pid}").decode().strip()
        found = []

        def is_there():
            with open(f"/proc/{shell}/task/{shell}/children", encoding="ascii") as f:
                found[:] = [int(pid) for pid in f.read().split()]
            try:
                return len(found) == 1 and os.readlink(f"/proc/{found[0]}/exe") == os.path.realpath(BIN)
            except (FileNotFoundError, ProcessLookupError):  # it was another command of the script
                return False

        wait_until(is_there, what="a farhand in the window")
        return found[0]

    def over(self):
        """Waits for the end of the command, checks that the modes of the terminal are what they were, and returns the exit code."""
        seen = self.expect("[over ")
        with open(f"{self.base}/before", encoding="utf-8") as before, open(f"{self.base}/after", encoding="utf-8") as after:
            # The size may have changed meanwhile.
            assert re.sub(r"(rows|columns) \d+", "", before.read()) == re.sub(r"(rows|columns) \d+", "", after.read())
        return int(re.search(r"\[over (\d+)\]", seen).group(1))

    def close(self):
        subprocess.run([*self.argv, "kill-server"], env=self.env, check=False, capture_output=True, timeout=SECONDS)
        shutil.rmtree(self.base, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def farhand(*args):
    """A line of shell that runs farhand."""
    return shlex.join([BIN, *map(str, args)])
