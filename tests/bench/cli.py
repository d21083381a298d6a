#!/usr/bin/python3
"""cli.py [--rounds N] [--rows NAME,…] [--json FILE]: times the command line beside ssh, scp and rsync, over loopback.

The sshd is one of our own: its keys, configuration and port are in a directory that is removed at the end, and ssh has a master
connection (ControlMaster), so that no handshake is measured. Each round runs every contender once, in changing order; a figure is
the median over the rounds, a ratio that of the ratios within a round. The memory is the highest resident size of the client.
Ours is the static program, which is what is deployed; FARHAND_BIN names another one.
"""

import argparse
import contextlib
import getpass
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FARHAND = os.environ.get("FARHAND_BIN") or os.path.join(ROOT, "build", "static", "farhand")
TIMED = os.path.join(ROOT, "build", "timed")
SMALL_FILES, SMALL_BYTES, LARGE_BYTES = 10000, 1024, 1 << 30
MEMORY_GOAL = 8 << 20


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for_port(port):
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise RuntimeError(f"nobody listens on port {port}")


@contextlib.contextmanager
def sshd(folder):
    """Yields the options that make ssh, scp and rsync use our sshd through a master connection."""
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{name}"], check=True)
    shutil.copy(f"{folder}/user_key.pub", f"{folder}/authorized_keys")
    port, config = free_port(), f"{folder}/sshd_config"
    with open(config, "w", encoding="ascii") as f:
        f.write(f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host_key\nAuthorizedKeysFile {folder}/authorized_keys\n"
                f"PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nSubsystem sftp internal-sftp\n"
                f"SetEnv HOME={folder}\n")  # no start-up file of a shell is measured
    # A root sshd wants the directory /run/sshd, which a service makes. It gets a /run of its own.
    own_run = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /run && mkdir /run/sshd && exec "$@"', "sh"]
    server = subprocess.Popen([*(own_run if os.getuid() == 0 else []), "/usr/sbin/sshd", "-D", "-e", "-f", config],
                              stderr=subprocess.DEVNULL)
    options = ["-F", "none", "-o", f"Port={port}", "-o", f"IdentityFile={folder}/user_key", "-o", "StrictHostKeyChecking=no",
               "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", f"ControlPath={folder}/master"]
    try:
        wait_for_port(port)
        subprocess.run(["ssh", *options, "-M", "-N", "-f", f"{getpass.getuser()}@127.0.0.1"], check=True)
        yield options
        subprocess.run(["ssh", *options, "-O", "exit", "127.0.0.1"], check=False, stderr=subprocess.DEVNULL)
    finally:
        server.terminate()
        server.wait()


@contextlib.contextmanager
def farhand_server():
    server = subprocess.Popen([FARHAND, "serve", "--listen", "ws://127.0.0.1:0"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait()


def run(argv):
    """Returns the seconds and the highest resident size of a command that must succeed."""
    done = subprocess.run([TIMED, *argv], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: failed")
    micros, kib = done.stdout.split()
    return int(micros) / 1e6, int(kib) * 1024


def same_tree(a, b):
    return subprocess.run(["diff", "-rq", a, b], check=False, stdout=subprocess.DEVNULL).returncode == 0


class Row:
    """One kind of work. `contenders`: name to a function that makes the command for a target directory; ours are those whose name
    begins with "farhand". `check` says of the target of the first round whether the work was done. Each run has a target of its own.
    Where `is_large` it is removed at once. Otherwise it stays until the end of the row, because ext4 makes files more slowly for a
    minute after others were removed."""

    def __init__(self, name, about, contenders, goals, folder, check=lambda _: True, repeat=1, is_large=False):
        self.name, self.about, self.contenders, self.goals = name, about, contenders, goals
        self.folder, self.check, self.repeat, self.is_large, self.runs = folder, check, repeat, is_large, 0

    def new_target(self):
        if self.is_large:
            shutil.rmtree(f"{self.folder}/{self.name}", ignore_errors=True)
        self.runs += 1
        target = f"{self.folder}/{self.name}/{self.runs}"
        os.makedirs(target)
        return target

    def measure(self, rounds):
        seconds, memory = {name: [] for name in self.contenders}, {name: 0 for name in self.contenders}
        for turn in range(rounds):
            for name in random.sample(list(self.contenders), len(self.contenders)):
                samples = []
                for _ in range(self.repeat):
                    target = self.new_target()
                    took, peak = run(self.contenders[name](target))
                    samples.append(took)
                    memory[name] = max(memory[name], peak)
                if turn == 0 and not self.check(target):
                    raise RuntimeError(f"{self.name}: {name} did not do its work")
                seconds[name].append(statistics.median(samples))
        shutil.rmtree(f"{self.folder}/{self.name}")
        others = [name for name in self.contenders if not name.startswith("farhand")]
        result = {"row": self.name, "about": self.about, "seconds": {n: statistics.median(s) for n, s in seconds.items()},
                  "memory": memory, "ratios": {}, "met": {}}
        for name, goal in self.goals.items() if others else ():
            ratio = statistics.median(s / min(seconds[o][i] for o in others) for i, s in enumerate(seconds[name]))
            result["ratios"][name] = ratio
            result["met"][name] = ratio <= goal and memory[name] < MEMORY_GOAL
        return result


def rows(folder, ssh, url):
    there = f"{getpass.getuser()}@127.0.0.1"
    source = f"{folder}/source"
    os.makedirs(source)
    yield Row("run", "`run -- true`", {"farhand": lambda _: [FARHAND, "run", "--url", url, "--", "true"],
                                       "farhand, no server": lambda _: [FARHAND, "run", "--", "true"],
                                       "ssh": lambda _: ["ssh", *ssh, there, "true"]},
              {"farhand": 1 / 3, "farhand, no server": 1 / 2}, folder, repeat=10)
    with open(f"{source}/large", "wb") as f:
        block = os.urandom(1 << 20)
        for _ in range(LARGE_BYTES >> 20):
            f.write(block)
    shell = " ".join(["ssh", *ssh])
    yield Row("cp-large", "`cp` of a file of 1 GiB",
              {"farhand": lambda target: [FARHAND, "cp", "--url", url, f"{source}/large", f":{target}/large"],
               "scp": lambda target: ["scp", "-q", *ssh, f"{source}/large", f"{there}:{target}/large"],
               "rsync": lambda target: ["rsync", "-a", "-W", "-e", shell, f"{source}/large", f"{there}:{target}/large"]},
              {"farhand": 1 / 1.5}, folder, is_large=True, check=lambda target: subprocess.run(
                  ["cmp", "-s", f"{source}/large", f"{target}/large"], check=False).returncode == 0)
    os.unlink(f"{source}/large")
    os.makedirs(f"{source}/tree")
    for i in range(SMALL_FILES):
        if i % 100 == 0:
            os.mkdir(f"{source}/tree/{i // 100}")
        with open(f"{source}/tree/{i // 100}/{i}", "wb") as f:
            f.write(os.urandom(SMALL_BYTES))
    yield Row("cp-small", f"`cp` of {SMALL_FILES} files of {SMALL_BYTES} bytes",
              {"farhand": lambda target: [FARHAND, "cp", "-r", "--url", url, f"{source}/tree", f":{target}/tree"],
               "scp": lambda target: ["scp", "-q", "-r", "-p", *ssh, f"{source}/tree", f"{there}:{target}/tree"],
               "rsync": lambda target: ["rsync", "-a", "-e", shell, f"{source}/tree", f"{there}:{target}"]},
              {"farhand": 1 / 1.5}, folder, check=lambda target: same_tree(f"{source}/tree", f"{target}/tree"))


def show(result):
    for name, seconds in result["seconds"].items():
        ratio = result["ratios"].get(name)
        told = "" if ratio is None else f"{ratio:.2f} of the best other, {'met' if result['met'][name] else 'MISSED'}"
        print(f"| {result['about']} | {name} | {seconds * 1000:.1f} ms | {result['memory'][name] / (1 << 20):.1f} MiB | {told} |",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description="Times the command line beside ssh, scp and rsync.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", default="")
    parser.add_argument("--json")
    args = parser.parse_args()
    missing = [p for p in ("ssh", "scp", "rsync", "/usr/sbin/sshd") if not shutil.which(p)]
    if missing:
        print(f"the command line is not compared: no {', '.join(missing)} here (Debian: openssh-server, openssh-client, rsync)")
        return 0
    results = []
    with tempfile.TemporaryDirectory(prefix="fh-bench-", dir=os.environ.get("TMPDIR", "/var/tmp")) as folder:
        with sshd(folder) as ssh, farhand_server() as url:
            print("| work | contender | time | memory | ratio, goal |\n| --- | --- | --: | --: | --- |")
            for row in rows(folder, ssh, url):
                if not args.rows or row.name in args.rows.split(","):
                    results.append(row.measure(args.rounds))
                    show(results[-1])
    if args.json:
        with open(args.json, "w", encoding="ascii") as f:
            json.dump(results, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
