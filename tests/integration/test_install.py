"""What `make install` brings, and that it works where it is put."""

import json
import os
import re
import shutil
import subprocess
import tempfile

import pytest

from farhand_client import BIN, PATIENCE, REPO, Client, merged_env
from reach import UNPRIVILEGED

BUILD = os.path.join(REPO, "build")


@pytest.fixture(scope="module")
def installed():
    """The directory (DESTDIR) into which `make install` has installed."""
    folder = os.environ.get("FARHAND_BIN") and os.path.dirname(os.path.abspath(os.environ["FARHAND_BIN"])) or BUILD
    if not os.path.exists(os.path.join(folder, "build.ninja")) or not shutil.which("meson"):
        pytest.skip("not in a build directory")
    with tempfile.TemporaryDirectory(prefix="fh-root-") as root:
        yield install(folder, root)


def install(folder, root):
    """Installs the build `folder` below `root`. Returns the prefix there."""
    done = subprocess.run(["meson", "install", "-C", folder, "--no-rebuild", "--quiet", "--destdir", root],
                          capture_output=True, timeout=60 * PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [prefix] = [os.path.dirname(path) for path, names, _ in os.walk(root) if path.endswith("/bin")]
    return prefix


def test_programs_work_where_they_are_put(installed):
    done = subprocess.run([os.path.join(installed, "bin", "farhand"), "doctor", "--json"], capture_output=True,
                          timeout=60 * PATIENCE, check=False)
    found = {f["name"]: f for f in json.loads(done.stdout)["findings"]}
    if os.path.exists(os.path.join(os.path.dirname(BIN), "farhand-net")):
        assert os.path.join(installed, "bin/../libexec/farhand/farhand-net") in found["farhand-net"]["text"]


@pytest.mark.parametrize("name", ["apply_patch", "applypatch"])
def test_patches_are_applied_under_the_names_that_agents_know(installed, tmp, name):
    program = os.path.join(installed, "bin", name)
    done = subprocess.run([program, "*** Begin Patch\n*** Add File: n\n+x\n*** End Patch"], capture_output=True, check=True, cwd=tmp,
                          env={**os.environ, "XDG_STATE_HOME": f"{tmp}/state"})
    assert done.stdout == b"Success. Updated the following files:\nA n\n" and os.path.exists(f"{tmp}/n")
    page = os.path.join(installed, "share/man/man1", f"{name}.1")
    assert not os.path.islink(page) or os.path.exists(page), "the manual page of a name leads to that of the command"


def test_documents_and_schemas_are_there_and_their_links_hold(installed):
    docs = os.path.join(installed, "share/doc/farhand")
    for name in ("README.md", "docs/PROTOCOL.md", "docs/PERMISSIONS.md", "docs/SECURITY.md", "docs/schema/profile.json"):
        assert os.path.isfile(os.path.join(docs, name)), name
    broken = []
    for folder, _, names in os.walk(docs):
        for name in names:
            if name.endswith(".md"):
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", f.read())
                broken += [(name, link) for link in links if not os.path.exists(os.path.join(folder, link))]
    assert not broken


def test_completions_are_where_shells_look_for_them(installed):
    for shell, name in (("bash", "bash-completion/completions/farhand"), ("zsh", "zsh/site-functions/_farhand"),
                        ("fish", "fish/vendor_completions.d/farhand.fish")):
        made = subprocess.run([os.path.join(REPO, "scripts/make-completions"), shell, BIN], capture_output=True, text=True,
                              timeout=60 * PATIENCE, check=True).stdout
        with open(os.path.join(installed, "share", name), encoding="utf-8") as f:
            assert "--listen" in made.replace("-l listen", "--listen") and f.read() == made, name


def unit_of(installed):
    with open(os.path.join(installed, "lib/systemd/user/farhand.service"), encoding="utf-8") as f:
        return f.read()


def test_the_unit_is_one(installed, tmp):
    """systemd-analyze accepts the unit, with the path of the installed program in it."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    text = re.sub(r"\S+/bin/farhand serve", f"{BIN} serve", unit_of(installed)).replace("man:farhand-serve(1)", "man:true(1)")
    path = os.path.join(tmp, "farhand.service")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    done = subprocess.run(["systemd-analyze", "--user", "--man=no", "verify", path], capture_output=True,
                          env=merged_env({"XDG_RUNTIME_DIR": tmp}), timeout=60 * PATIENCE, check=False)
    assert done.returncode == 0 and done.stderr == b"", done


def test_the_command_of_the_unit_starts_a_server(installed, tmp):
    """Runs the unit's ExecStart, with systemd's escapes removed, as a user who may not make cgroups."""
    os.mkdir(os.path.join(tmp, "farhand"))
    with open(os.path.join(tmp, "farhand", "farhand.toml"), "w", encoding="utf-8") as f:
        f.write(f'listen = "unix:{tmp}/sock"\n')
    os.chmod(tmp, 0o777)
    unit = unit_of(installed).replace("\\\n", "")
    [command] = re.findall(r"^ExecStart=/bin/sh -c '(.*)'$", unit, re.M)
    script = re.sub(r"\S+/bin/farhand serve", f"{BIN} serve", command.replace("$$", "$").replace("%E", tmp))
    user = UNPRIVILEGED if os.geteuid() == 0 else os.geteuid()
    with subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, user=user,
                          group=user if user == UNPRIVILEGED else None, extra_groups=[] if user == UNPRIVILEGED else None,
                          cwd="/", env=merged_env({"XDG_STATE_HOME": tmp})) as proc:
        try:
            assert proc.stdout.readline() == f"unix:{tmp}/sock\n".encode()
            with Client(f"unix:{tmp}/sock") as c:
                assert c.run(["echo", "served"])[0] == b"served\n"
        finally:
            proc.terminate()
            out, err = proc.communicate()
        assert (proc.returncode, out, err) == (0, b"", b"")


def test_make_help_names_every_target():
    done = subprocess.run(["make", "help"], cwd=REPO, capture_output=True, text=True, timeout=30 * PATIENCE, check=False)
    with open(os.path.join(REPO, "Makefile"), encoding="utf-8") as f:
        targets = set(re.search(r"^\.PHONY: (.*)$", f.read(), re.M).group(1).split())
    named = set(re.findall(r"[a-z][a-z0-9-]+", " ".join(re.findall(r"^make (.*?)  ", done.stdout, re.M))))
    assert targets - named == {"all", "help", "build", "check-compilers"}, done.stdout


def test_the_static_build_says_what_it_leaves_out():
    done = subprocess.run(["make", "-n", "static"], cwd=REPO, capture_output=True, text=True, timeout=30 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    said = " ".join(re.findall(r'^echo "(.*)"$', done.stdout, re.M))
    for word in ("farhand-net", "http/request", "manual pages", "farhand-init"):
        assert word in said, said
