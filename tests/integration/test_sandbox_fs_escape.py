"""Hostile file requests in a sandbox, as root and as a user without rights, in views of our own and in those that bwrap builds:
none of them gets out.

The world is that of the hostile commands (sandbox_arena.py). After each attempt the test looks at the trees
around the sandbox (names, modes, contents, inodes, times) and at everything that the server has told.
"""

import os

import pytest

from fs_helpers import PATH_MEMBERS
from sandbox_arena import ABOVE, MASKS, READ_ONLY, SECRET, World
from sandbox_rig import USERS, Box, at, differences, is_error, rig_of, snapshot, workspace_write
from test_sandbox_fs_backends import bwrap_rig

MARK = "MARK-of-the-server"
NEW = "bmV3Cg=="
PROTECTED = [".git", ".codex", ".agents", ".aws"]
WALK = {"maxDepth": 8, "maxDirectories": 1000, "maxEntries": 1000, "followDirectorySymlinks": True}


@pytest.fixture(scope="module", params=[(how, user) for how in ("chosen", "bubblewrap") for user in USERS], ids="-".join)
def rig(request):
    """A server for each back end and user. Views of bwrap are tested without Landlock behind them."""
    how, user = request.param
    env = {"BOX_MARK": MARK}
    with rig_of(user, env=env) if how == "chosen" else bwrap_rig(user, abi="0", env=env) as r:
        yield r


class Attempt:
    """A world, and requests against it that must all leave it as it is and tell no secret."""

    def __init__(self, rig, world=None, profile=None):
        self.rig = rig
        self.world = world or World(rig.tree().base, rig.uid)
        self.w, self.o, self.s = self.world.w, self.world.o, self.world.base + "/s"
        self.box = Box(rig.client, profile or self.world.profile(), self.w)
        self.before = self.look()

    def look(self):
        return snapshot(self.world.base, inodes=True, times=True)

    def path(self, path):
        return path if path.startswith("/") else f"{self.w}/{path}"

    def denied(self, method, **params):
        """Sends a request; checks that it is answered with an error and has changed nothing."""
        answer = self.harmless(method, **params)
        assert is_error(answer), f"{method} {params} was done: {str(answer)[:500]}"
        return answer

    def harmless(self, method, **params):
        """Sends a request; checks that it has changed nothing, whatever the answer is."""
        answer = self.box.ask(method, **{name: self.path(value) if name in PATH_MEMBERS else value
                                         for name, value in params.items()})
        self.unchanged(f"{method} {params}: {answer}")
        return answer

    def unchanged(self, what=""):
        now = self.look()
        assert now == self.before, f"{what} changed {differences(self.before, now)}"
        self.secret_kept()

    def secret_kept(self):
        told = self.box.all_told()
        assert SECRET.encode() not in told and MARK.encode() not in told, told[-2000:]

    def settle(self):
        """Takes the present state of the world as the reference for later comparisons."""
        self.before = self.look()

    def no_reading(self, path):
        """Checks that no method reads the content of `path`."""
        self.denied("readFile", path=path)
        self.denied("open", handleId="h", path=path, mode="read")
        self.denied("getMetadata", path=path, digest=True)
        if not os.path.islink(self.path(path)):  # a link would be copied as a link
            self.denied("copy", sourcePath=path, destinationPath="copied", recursive=True)

    def no_writing(self, path):
        """Checks that no method changes `path`."""
        self.denied("writeFile", path=path, dataBase64=NEW)
        self.denied("writeFile", path=path, dataBase64=NEW, atomic=False)
        self.denied("open", handleId="h", path=path, mode="replace")
        self.denied("open", handleId="h", path=path, mode="resume")
        self.denied("setMetadata", path=path, mode=0o777)
        self.denied("setMetadata", path=path, modifiedAtMs=1000)
        self.denied("copy", sourcePath="a.txt", destinationPath=path, recursive=False)

    def no_way_through(self, path):
        """Checks that nothing can be read or written through `path`, a link to something hidden."""
        self.no_reading(path)
        self.no_writing(path)

    def no_making(self, folder):
        """Checks that no method makes anything in `folder`."""
        new = folder.rstrip("/") + "/new"
        self.denied("writeFile", path=new, dataBase64=NEW)
        self.denied("writeFile", path=new + "/x/y", dataBase64=NEW, createParents=True)
        self.denied("open", handleId="h", path=new, mode="replace")
        self.denied("open", handleId="h", path=new, mode="resume")
        self.denied("createDirectory", path=new, recursive=False)
        self.denied("createDirectory", path=new + "/x", recursive=True)
        self.denied("symlink", path=new, target="x")
        self.denied("copy", sourcePath="a.txt", destinationPath=new, recursive=False)
        self.denied("copy", sourcePath="sub", destinationPath=new, recursive=True)
        self.denied("rename", sourcePath="a.txt", destinationPath=new)
        self.denied("rename", sourcePath="sub", destinationPath=new, replace=False)

    def no_removing(self, path):
        self.denied("remove", path=path, recursive=True, force=False)
        self.denied("remove", path=path, recursive=False, force=False)
        self.denied("rename", sourcePath=path, destinationPath="moved")
        self.denied("rename", sourcePath=path, destinationPath=path + "-moved", replace=False)


@pytest.fixture
def attempt(rig):
    a = Attempt(rig)
    yield a
    a.secret_kept()


def test_the_attempts_get_through_without_a_sandbox(rig):
    """Otherwise they would prove nothing."""
    for method, args in (("no_reading", "p/secret/key"), ("no_writing", "p/ro/f"), ("no_making", ".git"),
                         ("no_removing", "p/ro")):
        with pytest.raises(AssertionError):
            getattr(Attempt(rig, profile={"type": "disabled"}), method)(args)


# Files that may only be read, and files that may not


@pytest.mark.parametrize("path", [path for path in READ_ONLY if path not in ("p/ro", ".git", ".git/hooks", "to-o")])
def test_read_only_files(attempt, path):
    attempt.no_writing(path)


@pytest.mark.parametrize("path", ["p/ro", ".git", ".git/hooks", "a/b/c/ro", "to-o", "p/secret", ".codex", "p/ro/", "p//ro",
                                  "sub/../p/ro", "p/./ro", "to-s"])
def test_nothing_new_where_nothing_can_be_written(attempt, path):
    attempt.no_making(path)


@pytest.mark.parametrize("path", ["p/secret/key", "p/hidden.txt", "q/x/k.env", "to-key", "to-s/key", "q/../p/secret/key",
                                  "p//secret/./key", "to-s/../s/key", "p/secret/none"])
def test_hidden_files(attempt, path):
    attempt.no_reading(path)
    attempt.no_writing(path)


@pytest.mark.parametrize("path", ["p/secret", "to-s", "p/secret/", "p/secret/."])
def test_hidden_folders(attempt, path):
    attempt.denied("readDirectory", path=path)
    attempt.denied("watch", watchId="w", path=path, recursive=True)
    attempt.harmless("walk", path=path, options=WALK)
    if path != "to-s":
        attempt.denied("copy", sourcePath=path, destinationPath="copied", recursive=True)
    assert b"key" not in attempt.box.all_told()


def test_what_is_below_a_hidden_folder_is_not_told(attempt):
    """Below a hidden folder, existing and missing paths get the same answer from every method."""
    attempt.world.dir(attempt.w + "/p/secret/dir")
    attempt.world.link(attempt.w + "/p/secret/link", "key")
    attempt.settle()
    names = ("key", "dir", "link", "none", "none/x", "key/x")
    for method in ("canonicalize", "getMetadata", "readFile", "readDirectory", "readLink"):
        for top in ("p/secret", "to-s"):
            answers = {attempt.denied(method, path=f"{top}/{name}") for name in names}
            assert len(answers) == 1, (method, answers)
    answers = {attempt.denied("rename", sourcePath="a.txt", destinationPath=f"p/secret/{name}", replace=False)
               for name in ("key", "none")}
    assert len(answers) == 1, answers


@pytest.mark.parametrize("top", ["", "p", "/"], ids=["workspace", "above", "base"])
def test_walks_show_no_name_below_what_is_hidden(attempt, top):
    attempt.world.file(attempt.w + "/p/secret/deep/name-of-a-secret", SECRET)
    attempt.settle()
    path = attempt.world.base if top == "/" else attempt.path(top)
    answer = attempt.harmless("walk", path=path, options=WALK)
    assert not is_error(answer)
    text = attempt.box.all_told()
    for name in (b"name-of-a-secret", b"secret/key", b"secret/deep", b"to-s/key", b"/s/key"):
        assert name not in text, name


# Links


def links(attempt):
    """name -> text of a link that leads to what is hidden or outside."""
    w, o, s = attempt.w, attempt.o, attempt.s
    up = os.path.relpath("/", w)
    return {
        "absolute": s + "/key", "relative": "../s/key", "up": f"{up}{s}/key", "through a folder": "sub/../p/secret/key",
        "through a link": "to-s/key", "root": f"/proc/self/root{s}/key", "thread": f"/proc/thread-self/root{s}/key",
        "cwd": "/proc/self/cwd/p/secret/key", "init": f"/proc/1/root{s}/key", "init cwd": "/proc/1/cwd/p/secret/key",
        "server": f"/proc/{attempt.rig.server.pid}/root{s}/key", "dev": f"/dev/fd/../root{s}/key",
        "map": f"/proc/self/task/../root{s}/key", "many slashes": f"//{s}//./key", "o": o + "/../s/key",
    }


def test_links_to_what_is_hidden(attempt):
    targets = links(attempt)
    for number, text in enumerate(targets.values()):
        attempt.world.link(f"{attempt.w}/l{number}", text)
        attempt.world.link(f"{attempt.w}/c{number}", f"sub/../l{number}")
    attempt.settle()
    for number in range(len(targets)):
        for path in (f"l{number}", f"c{number}"):
            attempt.no_way_through(path)


def test_links_that_a_request_makes(attempt):
    """The client makes the link itself, and goes through it: for files and for folders."""
    for number, (name, text) in enumerate(links(attempt).items()):
        for kind, target in (("f", text), ("d", os.path.dirname(text))):
            path = f"{attempt.w}/{kind}{number}"
            assert not is_error(attempt.box.ask("symlink", path=path, target=target))
            attempt.settle()
            if kind == "f":
                attempt.no_way_through(path)
                continue
            attempt.no_way_through(path + "/key")
            attempt.no_making(path)
            attempt.denied("remove", path=path + "/key", recursive=True, force=False)
            assert "key" not in str(attempt.harmless("walk", path=path, options=WALK)), name


@pytest.mark.parametrize("prefix", ["/proc/self/root", "/proc/1/root", "/proc/self/cwd/../../../..", "/proc/self/fd/3",
                                    "/proc/self/fd/4", "/proc/self/fd/5", "/dev/fd/3", "/dev/fd/6",
                                    "/proc/thread-self/root", "/proc/self/task/1/root", "/proc/2/root"])
def test_magic_links_in_the_path(attempt, prefix):
    for path in (f"{prefix}{attempt.s}/key", f"{prefix}{attempt.w}/p/hidden.txt"):
        attempt.denied("readFile", path=path)
        attempt.denied("open", handleId="h", path=path, mode="read")
        attempt.denied("writeFile", path=path, dataBase64=NEW)
        attempt.harmless("remove", path=path, recursive=True, force=True)
    attempt.denied("writeFile", path=f"{prefix}{attempt.o}/o.txt", dataBase64=NEW, atomic=False)
    attempt.denied("writeFile", path=f"{prefix}{attempt.o}/new", dataBase64=NEW)


def test_links_to_descriptors_of_the_helper(attempt):
    """A descriptor of the helper on a directory would lead, through /proc/self/fd, to everything beside that directory."""
    for number in range(0, 40):
        for path in (f"/proc/self/fd/{number}", f"/dev/fd/{number}"):
            for below in ("", "/../s/key", f"/{attempt.s}/key"):
                answer = attempt.harmless("readFile", path=path + below)
                assert is_error(answer), (path + below, answer)
            attempt.harmless("writeFile", path=path, dataBase64=NEW, atomic=False)


def test_loops_of_links_end(attempt):
    attempt.world.link(attempt.w + "/x", "y")
    attempt.world.link(attempt.w + "/y", "x")
    previous = attempt.s + "/key"
    for number in range(60):
        previous = attempt.world.link(f"{attempt.w}/chain{number}", previous)
    attempt.settle()
    for path in ("x", "x/z", "chain59", "chain5"):
        attempt.denied("readFile", path=path)
        attempt.denied("writeFile", path=path, dataBase64=NEW)


def test_hard_links(attempt):
    """There is no method that makes one. A file is judged by the name that was asked for, whatever others it has."""
    os.link(attempt.w + "/p/hidden.txt", attempt.s + "/second")
    os.link(attempt.o + "/o.txt", attempt.w + "/p/ro/second")
    attempt.settle()
    attempt.no_reading("p/hidden.txt")
    attempt.no_writing("p/ro/second")
    attempt.no_writing(attempt.o + "/o.txt")


# Masks and what is above them


@pytest.mark.parametrize("path", MASKS + ABOVE + ["."])
def test_masks_and_what_is_above_them_stay(attempt, path):
    target = attempt.w if path == "." else path
    attempt.denied("rename", sourcePath=target, destinationPath="moved")
    attempt.denied("rename", sourcePath=target, destinationPath="moved", replace=False)
    attempt.denied("rename", sourcePath="sub", destinationPath=target)
    attempt.denied("rename", sourcePath="a.txt", destinationPath=target)
    if path in MASKS:
        attempt.no_removing(target)


@pytest.mark.parametrize("path", ABOVE + ["."])
def test_removal_of_what_is_above_masks(attempt, path):
    """The request may remove files that it may write; masks and everything below them stay."""
    target = attempt.w if path == "." else attempt.path(path)
    kept = {name: what for name, what in attempt.before.items()
            if any(name == attempt.path(mask) or name.startswith(attempt.path(mask) + "/") for mask in MASKS)
            or name.startswith((attempt.o + "/", attempt.s + "/"))}
    for force in (False, True):
        assert is_error(attempt.box.ask("remove", path=target, recursive=True, force=force))
    now = attempt.look()
    assert {name: now.get(name) for name in kept} == kept, differences(kept, now)
    attempt.settle()
    attempt.no_reading("p/hidden.txt")


@pytest.mark.parametrize("mask", MASKS)
def test_copying_what_contains_a_mask(attempt, mask):
    """The copy contains nothing that may not be read."""
    top = mask.split("/")[0]
    attempt.box.ask("copy", sourcePath=attempt.path(top), destinationPath=attempt.path("copied"), recursive=True)
    if os.path.isdir(attempt.w + "/copied"):
        for parent, _, names in os.walk(attempt.w + "/copied"):
            for name in names:
                with open(os.path.join(parent, name), "rb") as f:
                    assert SECRET.encode() not in f.read()
    attempt.secret_kept()
    # The copy does not give access to the masked files either.
    attempt.settle()
    attempt.denied("copy", sourcePath="sub", destinationPath=mask, recursive=True)
    attempt.denied("copy", sourcePath="a.txt", destinationPath=mask, recursive=False)


@pytest.mark.parametrize("way", ["rename", "copy"])
@pytest.mark.parametrize("mask", ["p/secret", "p/hidden.txt", "q/x/k.env", ".git"])
def test_out_and_back_in(attempt, mask, way):
    """A request moves away a directory above a mask and puts a similar one in its place."""
    attempt.box.ask("createDirectory", path=attempt.path("fake/x/secret"), recursive=True)
    attempt.box.write(attempt.path("fake/secret/key"), createParents=True)
    attempt.box.write(attempt.path("fake/x/k.txt"))
    attempt.settle()
    if way == "copy":
        attempt.denied("copy", sourcePath="fake", destinationPath=mask, recursive=True)
        top = attempt.path(mask.split("/")[0])
        attempt.box.ask("copy", sourcePath=attempt.path("fake"), destinationPath=top, recursive=True)
        now = attempt.look()
        inside = {name: what for name, what in attempt.before.items()
                  if (name + "/").startswith(attempt.path(mask) + "/")}
        assert inside == {name: now.get(name) for name in inside}
        return
    for parent in {os.path.dirname(mask), mask} - {""}:
        attempt.denied("rename", sourcePath="fake", destinationPath=parent)
        attempt.denied("rename", sourcePath=parent, destinationPath="out")


# Protected names


def bare(rig, *files):
    tree = rig.tree()
    tree.file(tree.w + "/a.txt")
    tree.file(tree.w + "/sub/b.txt")
    tree.file(tree.o + "/o.txt")
    for path, content in files:
        tree.file(f"{tree.w}/{path}", content)
    return tree


SPELLINGS = ["{}", "{}/", "/{}", "./{}", "sub/../{}", "{}/.", "sub/./../{}//", "../w/{}", "{}/../{}", "here/{}", "via/{}"]


@pytest.mark.parametrize("native", [False, True], ids=["uri", "native"])
@pytest.mark.parametrize("name", PROTECTED)
def test_protected_name_does_not_appear(rig, name, native):
    tree = bare(rig)
    tree.link(tree.w + "/here", ".")
    tree.link(tree.w + "/via", tree.w)
    a = Attempt(rig, tree, workspace_write())
    for spelling in SPELLINGS:
        path = f"{tree.w}/{spelling.format(name, name)}"
        a.denied("createDirectory", path=path, recursive=False, native=native)
        a.harmless("createDirectory", path=path, recursive=True, native=native)
        a.denied("createDirectory", path=path + "/x", recursive=True, native=native)
        a.denied("writeFile", path=path, dataBase64=NEW, native=native)
        a.denied("writeFile", path=path, dataBase64=NEW, atomic=False, native=native)
        a.denied("writeFile", path=path + "/x", dataBase64=NEW, createParents=True, native=native)
        a.denied("open", handleId="h", path=path, mode="replace", native=native)
        a.denied("open", handleId="h", path=path, mode="resume", native=native)
        a.denied("symlink", path=path, target="sub", native=native)
        a.denied("rename", sourcePath="sub", destinationPath=path, native=native)
        a.denied("rename", sourcePath="a.txt", destinationPath=path, replace=False, native=native)
        a.denied("copy", sourcePath="sub", destinationPath=path, recursive=True, native=native)
        a.denied("copy", sourcePath="a.txt", destinationPath=path, recursive=False, native=native)


@pytest.mark.parametrize("name", PROTECTED)
def test_protected_name_that_is_there_stays(rig, name):
    for files in ([(name, "kept\n")], [(name + "/config", "kept\n")]):
        a = Attempt(rig, bare(rig, *files), workspace_write())
        a.no_removing(name)
        a.no_writing(files[0][0])
        a.denied("rename", sourcePath="sub", destinationPath=name)
        a.denied("rename", sourcePath="a.txt", destinationPath=name)
        if "/" in files[0][0]:
            a.no_making(name)
            a.denied("remove", path=files[0][0], recursive=False, force=True)
            a.denied("rename", sourcePath=files[0][0], destinationPath="out")


@pytest.mark.parametrize("name", PROTECTED)
def test_protected_name_inside_of_what_is_moved_or_copied(rig, name):
    """A protected name deeper in a root is not protected; it is when a move or copy would bring it to the top of the root."""
    tree = bare(rig, (f"sub/{name}/config", "x\n"))
    a = Attempt(rig, tree, workspace_write(at(tree.o, "write")))
    a.denied("rename", sourcePath=f"sub/{name}", destinationPath=name)
    a.denied("copy", sourcePath=f"sub/{name}", destinationPath=f"{tree.o}/{name}", recursive=True)
    a.box.ask("copy", sourcePath=tree.w + "/sub", destinationPath=tree.w, recursive=True)
    a.box.ask("copy", sourcePath=tree.w + "/sub", destinationPath=tree.o, recursive=True)
    assert not os.path.lexists(f"{tree.w}/{name}") and not os.path.lexists(f"{tree.o}/{name}")


@pytest.mark.parametrize("kind", ["inside", "relative", "other root", "missing"])
def test_git_pointer(rig, kind):
    tree = bare(rig)
    above, extra = (tree.o + "/meta", [at(tree.o, "write")]) if kind == "other root" else (tree.w + "/meta", [])
    target = above + "/gd"
    tree.file(above + "/beside", "x\n")
    if kind != "missing":
        tree.file(target + "/config", "kept\n")
    tree.file(tree.w + "/.git", f"gitdir: {os.path.relpath(target, tree.w) if kind == 'relative' else target}\n")
    a = Attempt(rig, tree, workspace_write(*extra))
    a.no_writing(".git")
    a.no_removing(".git")
    a.denied("rename", sourcePath=above, destinationPath=tree.w + "/out")
    a.denied("rename", sourcePath="sub", destinationPath=target)
    a.denied("writeFile", path=target + "/new", dataBase64=NEW, createParents=True)
    a.denied("createDirectory", path=target + "/hooks", recursive=True)
    if kind != "missing":
        a.no_writing(target + "/config")
        a.no_removing(target)
    # Each request reads the .git file again: its present target is protected.
    tree.file(tree.w + "/.git", f"gitdir: {tree.w}/sub\n")
    a.settle()
    a.denied("writeFile", path="sub/new", dataBase64=NEW)
    assert not is_error(a.box.write(above + "/new"))


@pytest.mark.parametrize("target", ["o", "s", "w", "w/sub", "none", "/"])
def test_git_that_is_a_link(rig, target):
    """The link is not replaced, whatever it points at, and whether or not the profile names its target."""
    tree = bare(rig)
    tree.file(tree.base + "/s/key", SECRET)
    tree.link(tree.w + "/.git", target if target == "/" else f"{tree.base}/{target}")
    a = Attempt(rig, tree, workspace_write(at(tree.base + "/s", "deny"), at(tree.o, "read")))
    a.denied("rename", sourcePath=".git", destinationPath="out")
    a.denied("rename", sourcePath="sub", destinationPath=".git")
    a.denied("remove", path=".git", recursive=False, force=False)
    a.denied("writeFile", path=".git/new", dataBase64=NEW)
    a.denied("createDirectory", path=".git/new", recursive=True)
    # A command cannot replace the link either.
    done = rig.sh("mv .git out; rm -f .git; mkdir .git; echo x > .git/new", workspace_write(
        at(tree.base + "/s", "deny"), at(tree.o, "read")), tree.w)
    assert not os.path.lexists(tree.w + "/out") and os.path.islink(tree.w + "/.git"), done


def test_protected_name_that_appears_later(rig):
    a = Attempt(rig, bare(rig), workspace_write())
    assert not is_error(a.box.write(a.w + "/first"))
    for name in PROTECTED:
        a.world.file(f"{a.w}/{name}/config", "kept\n")
    a.settle()
    for name in PROTECTED:
        a.no_writing(name + "/config")
        a.no_making(name)
