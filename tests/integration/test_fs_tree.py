"""fs/createDirectory, fs/walk, fs/remove, fs/copy: directories and trees."""

import os
import stat

import pytest

from fs_helpers import (EEXIST, EISDIR, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, ENOTEMPTY, HAS_LINK, MIB, content,
                        failure, fs, make, noise, sparse, tree, uri)

COPY_INTO_ITSELF = (-32600, "fs/copy cannot copy a directory to itself or one of its descendants")
COPY_NEEDS_RECURSIVE = (-32600, "fs/copy requires recursive: true when sourcePath is a directory")
COPY_KINDS = (-32600, "fs/copy only supports regular files, directories, and symlinks")
WALK_ZERO = (-32600, "filesystem walk limits must be greater than zero")
WALK_MAX = (-32600, "filesystem walk limits exceed maximums: depth=64, directories=10000, entries=50000")


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture
def mixed(tmp):
    """A tree with one of everything; `tmp`/out must stay as it is."""
    os.makedirs(f"{tmp}/out")
    make(f"{tmp}/out/keep", b"keep")
    top = f"{tmp}/top"
    os.makedirs(f"{top}/a/b/c")
    make(f"{top}/a/1", b"one", 0o600)
    make(f"{top}/a/b/exe", b"#!", 0o755)
    make(f"{top}/.hidden", b"")
    make(os.fsencode(top) + b"/bad\xff", b"bytes")
    os.symlink("../out", f"{top}/dirlink")
    os.symlink("a/1", f"{top}/link")
    os.symlink("none", f"{top}/broken")
    os.symlink("..", f"{top}/a/up")
    os.mkfifo(f"{top}/fifo")
    return top


# fs/createDirectory


def test_parents_are_made_by_default(client, tmp):
    assert fs(client, "createDirectory", path=f"{tmp}/a/b/c") == {}
    assert fs(client, "createDirectory", path=f"{tmp}/a/b/d", recursive=True) == {}
    assert fs(client, "createDirectory", path=f"{tmp}/a/e", recursive=False) == {}
    assert fs(client, "createDirectory", path=f"{tmp}/a/f", recursive=None) == {}
    assert sorted(tree(tmp)) == [b"a", b"a/b", b"a/b/c", b"a/b/d", b"a/e", b"a/f"]
    assert mode_of(f"{tmp}/a") == mode_of(f"{tmp}/a/e") == 0o777 & ~umask()


@pytest.mark.parametrize("follow", [True, False])
def test_an_existing_directory_is_fine_when_recursive(client, tmp, follow):
    for _ in range(2):
        assert fs(client, "createDirectory", path=f"{tmp}/d", followSymlinks=follow) == {}
    assert fs(client, "createDirectory", path=tmp, followSymlinks=follow) == {}
    assert fs(client, "createDirectory", path="/", followSymlinks=follow) == {}
    assert failure(client, "createDirectory", path=f"{tmp}/d", recursive=False, followSymlinks=follow) == EEXIST
    assert failure(client, "createDirectory", path="/", recursive=False, followSymlinks=True) == EEXIST


@pytest.mark.parametrize("follow", [True, False])
def test_directories_that_cannot_be_made(client, tmp, follow):
    make(f"{tmp}/file")
    for recursive in (True, False):
        more = {"recursive": recursive, "followSymlinks": follow}
        assert failure(client, "createDirectory", path=f"{tmp}/file/d", **more) == ENOTDIR
        assert failure(client, "createDirectory", path=f"{tmp}/" + "n" * 256, **more) == ENAMETOOLONG
    assert failure(client, "createDirectory", path=f"{tmp}/file", recursive=False, followSymlinks=follow) == EEXIST
    assert failure(client, "createDirectory", path=f"{tmp}/a/b", recursive=False, followSymlinks=follow) == ENOENT
    assert os.listdir(tmp) == ["file"]


def test_a_file_in_the_place_of_the_directory(client, tmp):
    make(f"{tmp}/file")
    assert failure(client, "createDirectory", path=f"{tmp}/file", recursive=True) == EEXIST
    assert failure(client, "createDirectory", path=f"{tmp}/file", recursive=True, followSymlinks=False) in (
        EEXIST, ENOTDIR)


def test_directories_through_links(client, tmp):
    os.mkdir(f"{tmp}/dir")
    for name, target in (("dirlink", "dir"), ("broken", "none")):
        os.symlink(target, f"{tmp}/{name}")
    assert fs(client, "createDirectory", path=f"{tmp}/dirlink") == {}
    assert fs(client, "createDirectory", path=f"{tmp}/dirlink/a/b") == {}
    assert failure(client, "createDirectory", path=f"{tmp}/dirlink", recursive=False) == EEXIST
    assert failure(client, "createDirectory", path=f"{tmp}/broken") == EEXIST
    assert failure(client, "createDirectory", path=f"{tmp}/dirlink/n", followSymlinks=False) == ENOTDIR
    assert failure(client, "createDirectory", path=f"{tmp}/dirlink/n", followSymlinks=False, recursive=False) == ENOTDIR
    assert failure(client, "createDirectory", path=f"{tmp}/dirlink", followSymlinks=False, recursive=False) == EEXIST
    assert failure(client, "createDirectory", path=f"{tmp}/dirlink", followSymlinks=False)[0] == -32603
    assert tree(tmp) == {b"dir": None, b"dir/a": None, b"dir/a/b": None, b"dirlink": (b"dir",), b"broken": (b"none",)}


def test_a_directory_whose_name_is_not_utf_8(client, tmp):
    path = os.fsencode(tmp) + b"/\xff\xfe/\x80"
    assert fs(client, "createDirectory", path=path) == {}
    assert os.path.isdir(path)


# fs/walk

ALL = {"maxDepth": 64, "maxDirectories": 10000, "maxEntries": 50000, "followDirectorySymlinks": False}


def walk(client, path, **options):
    return fs(client, "walk", path=path, options={**ALL, **options})


def names(result, top):
    """The entries relative to `top`, directories with a slash."""
    head = uri(top) + "/"
    assert all(e["path"].startswith(head) for e in result["entries"])
    assert {e["kind"] for e in result["entries"]} <= {"directory", "file"}
    return [e["path"][len(head):] + ("/" if e["kind"] == "directory" else "") for e in result["entries"]]


def test_a_walk_is_breadth_first_and_sorted(client, mixed):
    result = walk(client, mixed)
    assert names(result, mixed) == [".hidden", "a/", "bad%FF", "a/1", "a/b/", "a/b/c/", "a/b/exe"]
    assert (result["errors"], result["truncated"]) == ([], False)
    assert set(result) == {"entries", "errors", "truncated"}


def test_a_walk_that_follows_directory_links(client, mixed):
    """Each real directory is entered once; its link is listed all the same."""
    result = walk(client, mixed, followDirectorySymlinks=True)
    assert names(result, mixed) == [".hidden", "a/", "bad%FF", "dirlink/", "a/1", "a/b/", "a/up/", "dirlink/keep",
                                    "a/b/c/", "a/b/exe"]
    assert result["truncated"] is False


def test_the_order_of_a_walk_is_by_bytes_directory_by_directory(client, tmp):
    for name in ("b", "a.d", "a", "B", "\u00e4", "z", "a-c"):
        os.mkdir(f"{tmp}/{name}")
        make(f"{tmp}/{name}/f")
    order = ["B", "a", "a-c", "a.d", "b", "z", "%C3%A4"]
    assert names(walk(client, tmp), tmp) == [n + "/" for n in order] + [n + "/f" for n in order]


@pytest.mark.parametrize("depth, expected", [(0, ["x/"]), (1, ["x/", "x/y/"]), (2, ["x/", "x/y/", "x/y/z"]),
                                             (64, ["x/", "x/y/", "x/y/z"])])
def test_depth_0_is_the_children(client, tmp, depth, expected):
    os.makedirs(f"{tmp}/x/y")
    make(f"{tmp}/x/y/z")
    result = walk(client, tmp, maxDepth=depth)
    assert (names(result, tmp), result["truncated"]) == (expected, False)


def test_hidden_directories_are_listed_but_not_entered(client, tmp):
    os.makedirs(f"{tmp}/.git/objects")
    os.makedirs(f"{tmp}/src/.cache/x")
    make(f"{tmp}/.profile")
    assert names(walk(client, tmp, pruneHiddenDirectories=True), tmp) == [".git/", ".profile", "src/", "src/.cache/"]
    every = [".git/", ".profile", "src/", ".git/objects/", "src/.cache/", "src/.cache/x/"]
    for more in ({}, {"pruneHiddenDirectories": False}):
        assert names(walk(client, tmp, **more), tmp) == every


@pytest.mark.parametrize("limit, expected, truncated", [
    (1, ["a"], True), (2, ["a"], True), (3, ["a"], True), (4, ["a", "d/"], True), (5, ["a", "d/", "d/x"], False),
    (6, ["a", "d/", "d/x"], False)])
def test_every_name_counts_as_an_entry(client, tmp, limit, expected, truncated):
    """Links and special files also count for the limit, though they are not listed."""
    make(f"{tmp}/a")
    os.symlink("a", f"{tmp}/b")
    os.mkfifo(f"{tmp}/c")
    os.mkdir(f"{tmp}/d")
    make(f"{tmp}/d/x")
    result = walk(client, tmp, maxEntries=limit)
    assert (names(result, tmp), result["truncated"]) == (expected, truncated)


@pytest.mark.parametrize("limit, expected, truncated", [
    (1, ["a/", "b/"], True), (2, ["a/", "b/", "a/x"], True), (3, ["a/", "b/", "a/x", "b/y"], False)])
def test_the_limit_of_directories_stops_the_descent_only(client, tmp, limit, expected, truncated):
    for path in ("a/x", "b/y"):
        os.makedirs(os.path.dirname(f"{tmp}/{path}"))
        make(f"{tmp}/{path}")
    result = walk(client, tmp, maxDirectories=limit)
    assert (names(result, tmp), result["truncated"]) == (expected, truncated)


@pytest.mark.parametrize("options, answer", [
    ({"maxDirectories": 0}, WALK_ZERO), ({"maxEntries": 0}, WALK_ZERO), ({"maxDepth": 65}, WALK_MAX),
    ({"maxDirectories": 10001}, WALK_MAX), ({"maxEntries": 50001}, WALK_MAX), ({"maxDepth": 2 ** 40}, WALK_MAX)])
def test_limits_of_a_walk(client, tmp, options, answer):
    assert failure(client, "walk", path=tmp, options={**ALL, **options}) == answer


@pytest.mark.parametrize("options", [{"maxDepth": -1}, {"maxEntries": "1"}, {"maxDepth": 1.5}, {"maxDirectories": None},
                                     {"followDirectorySymlinks": None}, {"followDirectorySymlinks": 1},
                                     {"pruneHiddenDirectories": "yes"}], ids=str)
def test_options_of_a_walk_that_do_not_decode(client, tmp, options):
    assert failure(client, "walk", path=tmp, options={**ALL, **options})[0] == -32602


def test_missing_members_of_a_walk_are_named(client, tmp):
    assert failure(client, "walk", path=tmp) == (-32602, "missing field `options`")
    for member in ("maxDepth", "maxDirectories", "maxEntries", "followDirectorySymlinks"):
        options = {k: v for k, v in ALL.items() if k != member}
        assert failure(client, "walk", path=tmp, options=options) == (-32602, f"missing field `{member}`")


def test_roots_that_are_no_directories(client, mixed):
    nothing = {"entries": [], "errors": [], "truncated": False}
    for name in ("link", "dirlink", ".hidden", "fifo"):
        assert walk(client, f"{mixed}/{name}") == nothing, name
    assert walk(client, "/dev/null") == nothing
    assert names(walk(client, f"{mixed}/dirlink", followDirectorySymlinks=True), f"{mixed}/dirlink") == ["keep"]
    assert walk(client, f"{mixed}/link", followDirectorySymlinks=True) == nothing
    os.symlink("loop", f"{mixed}/loop")
    for follow in (True, False):
        options = {**ALL, "followDirectorySymlinks": follow}
        for name in ("none", "broken"):
            assert failure(client, "walk", path=f"{mixed}/{name}", options=options) == ENOENT
        assert failure(client, "walk", path=f"{mixed}/loop", options=options) == ELOOP
    assert failure(client, "walk", path=f"{mixed}/.hidden/x", options=ALL) == ENOTDIR


def test_a_walk_of_a_ring_ends(client, tmp):
    os.makedirs(f"{tmp}/a/b")
    for n in range(50):
        os.symlink("../..", f"{tmp}/a/b/l{n}")
    result = walk(client, tmp, followDirectorySymlinks=True)
    assert names(result, tmp) == ["a/", "a/b/"] + sorted(f"a/b/l{n}/" for n in range(50))
    assert result["truncated"] is False


def test_the_answer_of_a_walk_is_bounded(client, tmp):
    """The bound is 4 MiB; an item counts as 64 bytes and its text."""
    for n in range(14000):
        os.close(os.open(f"{tmp}/{n:05}" + "n" * 245, os.O_CREAT | os.O_WRONLY))
    result = walk(client, tmp)
    assert result["truncated"] is True
    count, each = len(result["entries"]), 64 + len(result["entries"][0]["path"])
    assert 4 * MIB - 2 * each < count * each <= 4 * MIB
    assert [e["path"] for e in result["entries"]] == sorted(e["path"] for e in result["entries"])


# fs/remove


@pytest.mark.parametrize("more", [{}, {"recursive": True}, {"recursive": True, "force": True}, {"force": False}],
                         ids=str)
def test_a_tree_is_removed_and_nothing_else(client, mixed, more):
    out = os.path.dirname(mixed) + "/out"
    assert fs(client, "remove", path=mixed, **more) == {}
    assert not os.path.lexists(mixed) and tree(out) == {b"keep": b"keep"}


def test_a_link_is_removed_itself(client, mixed):
    out = os.path.dirname(mixed) + "/out"
    for name in ("dirlink", "link", "broken"):
        assert fs(client, "remove", path=f"{mixed}/{name}") == {}
        assert not os.path.lexists(f"{mixed}/{name}")
    assert content(f"{mixed}/a/1") == b"one" and os.path.isdir(out)
    os.symlink(out, f"{mixed}/again")
    assert fs(client, "remove", path=f"{mixed}/again", recursive=False, force=False) == {}
    assert tree(out) == {b"keep": b"keep"}


def test_single_files_of_any_kind_are_removed(client, mixed):
    for name in ("fifo", ".hidden", "a/1"):
        assert fs(client, "remove", path=f"{mixed}/{name}", recursive=False, force=False) == {}
        assert not os.path.lexists(f"{mixed}/{name}")
    assert fs(client, "remove", path=os.fsencode(mixed) + b"/bad\xff") == {}


def test_a_link_on_the_way_is_followed(client, mixed):
    assert fs(client, "remove", path=f"{mixed}/dirlink/keep") == {}
    assert os.listdir(os.path.dirname(mixed) + "/out") == []


def test_without_recursive_only_empty_directories(client, tmp):
    os.makedirs(f"{tmp}/full/empty")
    assert failure(client, "remove", path=f"{tmp}/full", recursive=False) == ENOTEMPTY
    assert failure(client, "remove", path=f"{tmp}/full", recursive=False, force=False) == ENOTEMPTY
    assert fs(client, "remove", path=f"{tmp}/full/empty", recursive=False) == {}
    assert fs(client, "remove", path=f"{tmp}/full", recursive=False) == {}
    assert os.listdir(tmp) == []


@pytest.mark.parametrize("recursive", [True, False])
def test_what_is_missing(client, tmp, recursive):
    make(f"{tmp}/file")
    os.symlink("loop", f"{tmp}/loop")
    for name in ("none", "none/x"):
        assert fs(client, "remove", path=f"{tmp}/{name}", recursive=recursive) == {}
        assert fs(client, "remove", path=f"{tmp}/{name}", recursive=recursive, force=True) == {}
        assert failure(client, "remove", path=f"{tmp}/{name}", recursive=recursive, force=False) == ENOENT
    for force in (True, False):
        assert failure(client, "remove", path=f"{tmp}/file/x", recursive=recursive, force=force) == ENOTDIR
        assert failure(client, "remove", path=f"{tmp}/loop/x", recursive=recursive, force=force) == ELOOP


def test_removal_without_following(client, mixed):
    no_recursion = {"recursive": False, "force": False, "followSymlinks": False}
    unsupported = (-32603, "recursive no-follow removal is unsupported")
    for more in ({}, {"recursive": True}, {"force": False}):
        assert failure(client, "remove", path=f"{mixed}/a", followSymlinks=False, **more) == unsupported
    assert failure(client, "remove", path=f"{mixed}/a/1", followSymlinks=False, recursive=True) == unsupported
    for name in ("link", "dirlink", "broken"):
        assert failure(client, "remove", path=f"{mixed}/{name}", **no_recursion) == HAS_LINK
    assert failure(client, "remove", path=f"{mixed}/dirlink/keep", **no_recursion) == ENOTDIR
    assert failure(client, "remove", path=f"{mixed}/none", **no_recursion) == ENOENT
    assert fs(client, "remove", path=f"{mixed}/none", recursive=False, force=True, followSymlinks=False) == {}
    assert failure(client, "remove", path=f"{mixed}/a", **no_recursion) == ENOTEMPTY
    assert fs(client, "remove", path=f"{mixed}/a/b/c", **no_recursion) == {}
    assert fs(client, "remove", path=f"{mixed}/a/1", **no_recursion) == {}
    assert tree(os.path.dirname(mixed) + "/out") == {b"keep": b"keep"}


def test_a_deep_tree_is_removed(client, tmp):
    """Deeper than a path can be long."""
    fd = os.open(tmp, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(600):
        os.mkdir("d" * 20, dir_fd=fd)
        deeper = os.open("d" * 20, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    assert fs(client, "remove", path=f"{tmp}/" + "d" * 20, timeout=20) == {}
    assert os.listdir(tmp) == []


@pytest.mark.parametrize("method, members", [
    ("remove", {"recursive": 1}), ("remove", {"force": "x"}), ("createDirectory", {"recursive": "x"}),
    ("createDirectory", {"followSymlinks": []}), ("remove", {"sandbox": 5})], ids=str)
def test_members_of_the_wrong_type(client, tmp, method, members):
    os.mkdir(f"{tmp}/d")
    assert failure(client, method, path=f"{tmp}/d", **members)[0] == -32602
    assert os.listdir(tmp) == ["d"]


# fs/copy


def copy(client, source, destination, recursive=False):
    return fs(client, "copy", sourcePath=source, destinationPath=destination, recursive=recursive)


def copy_failure(client, source, destination, recursive=False):
    return failure(client, "copy", sourcePath=source, destinationPath=destination, recursive=recursive)


@pytest.mark.parametrize("recursive", [True, False])
@pytest.mark.parametrize("size", [0, 5, 3 * MIB + 7])
def test_a_file_is_copied_with_its_bits(client, tmp, size, recursive):
    make(f"{tmp}/from", noise(size), 0o751)
    make(f"{tmp}/over", b"old" * MIB, 0o600)
    for name in ("new", "over"):
        assert copy(client, f"{tmp}/from", f"{tmp}/{name}", recursive) == {}
        assert content(f"{tmp}/{name}") == noise(size) and mode_of(f"{tmp}/{name}") == 0o751
    assert content(f"{tmp}/from") == noise(size)


def test_a_copied_directory_keeps_its_mode(client, tmp):
    for name, mode in (("from", 0o2775), ("from/open", 0o1777), ("from/closed", 0o500), ("from/closed/own", 0o700)):
        os.mkdir(f"{tmp}/{name}")
        make(f"{tmp}/{name}/f", b"x")
        os.chmod(f"{tmp}/{name}", mode)
    os.mkdir(f"{tmp}/there")
    os.mkdir(f"{tmp}/there/open")
    os.chmod(f"{tmp}/there/open", 0o710)
    for to in ("new", "above/new", "there"):
        assert copy(client, f"{tmp}/from", f"{tmp}/{to}", True) == {}
        assert content(f"{tmp}/{to}/closed/own/f") == b"x"
        modes = [mode_of(f"{tmp}/{to}/{name}") for name in ("", "open", "closed", "closed/own")]
        assert modes == ([0o755, 0o710] if to == "there" else [0o775, 0o1777]) + [0o500, 0o700]


def test_a_file_over_a_link_goes_to_its_target(client, tmp):
    make(f"{tmp}/from", b"new")
    make(f"{tmp}/target", b"old")
    os.symlink("target", f"{tmp}/link")
    assert copy(client, f"{tmp}/from", f"{tmp}/link") == {}
    assert os.readlink(f"{tmp}/link") == "target" and content(f"{tmp}/target") == b"new"


def test_a_sparse_file_is_copied(client, tmp):
    sparse(f"{tmp}/from", 64 * MIB)
    with open(f"{tmp}/from", "r+b") as f:
        f.seek(40 * MIB)
        f.write(b"data")
    copy(client, f"{tmp}/from", f"{tmp}/to")
    with open(f"{tmp}/to", "rb") as f:
        f.seek(40 * MIB)
        assert f.read(5) == b"data\0"
    assert os.stat(f"{tmp}/to").st_size == 64 * MIB


def test_files_of_proc_are_copied(client, tmp):
    copy(client, "/proc/version", f"{tmp}/version")
    assert content(f"{tmp}/version") == content("/proc/version")


def test_a_file_onto_itself_keeps_its_content(client, tmp):
    make(f"{tmp}/f", b"precious", 0o640)
    os.link(f"{tmp}/f", f"{tmp}/hard")
    os.symlink("f", f"{tmp}/soft")
    for name in ("f", "hard", "soft"):
        # A copy onto itself may fail or do nothing; the content must stay.
        client.response(client.request("fs/copy", {"sourcePath": uri(f"{tmp}/f"), "recursive": False,
                                                   "destinationPath": uri(f"{tmp}/{name}")}))
        assert content(f"{tmp}/f") == content(f"{tmp}/hard") == b"precious", name
    assert mode_of(f"{tmp}/f") == 0o640 and os.readlink(f"{tmp}/soft") == "f"


def test_files_that_cannot_be_copied(client, mixed):
    assert copy_failure(client, f"{mixed}/none", f"{mixed}/new") == ENOENT
    assert copy_failure(client, f"{mixed}/none", f"{mixed}/new", True) == ENOENT
    assert copy_failure(client, f"{mixed}/a/1", f"{mixed}/none/new") == ENOENT
    assert copy_failure(client, f"{mixed}/a/1", f"{mixed}/a/b") == EISDIR
    assert copy_failure(client, f"{mixed}/a/1", f"{mixed}/.hidden/x") == ENOTDIR
    assert copy_failure(client, f"{mixed}/.hidden/x", f"{mixed}/new") == ENOTDIR
    assert copy_failure(client, f"{mixed}/fifo", f"{mixed}/new") == COPY_KINDS
    assert copy_failure(client, "/dev/null", f"{mixed}/new", True) == COPY_KINDS
    assert not os.path.lexists(f"{mixed}/new")


@pytest.mark.parametrize("recursive", [True, False])
def test_a_link_is_copied_as_a_link(client, mixed, recursive):
    for name in ("link", "dirlink", "broken"):
        assert copy(client, f"{mixed}/{name}", f"{mixed}/new-{name}", recursive) == {}
        assert os.readlink(f"{mixed}/new-{name}") == os.readlink(f"{mixed}/{name}")
        for there in (f"new-{name}", "a/1", "a"):
            assert copy_failure(client, f"{mixed}/{name}", f"{mixed}/{there}", recursive) == EEXIST


def test_a_tree_is_copied_without_its_special_files(client, mixed):
    to = os.path.dirname(mixed) + "/copy"
    before = tree(mixed)
    assert copy_failure(client, mixed, to) == COPY_NEEDS_RECURSIVE
    assert not os.path.lexists(to)
    assert copy(client, mixed, to, True) == {}
    assert tree(to) == {name: what for name, what in before.items() if name != b"fifo"}
    assert tree(mixed) == before
    assert (mode_of(f"{to}/a/1"), mode_of(f"{to}/a/b/exe")) == (0o600, 0o755)


def test_trees_are_merged(client, tmp):
    os.makedirs(f"{tmp}/from/both")
    make(f"{tmp}/from/both/new", b"new")
    make(f"{tmp}/from/over", b"over")
    os.makedirs(f"{tmp}/to/both")
    make(f"{tmp}/to/both/old", b"old")
    make(f"{tmp}/to/over", b"under")
    make(f"{tmp}/to/stays", b"stays")
    copy(client, f"{tmp}/from", f"{tmp}/to", True)
    assert tree(f"{tmp}/to") == {b"both": None, b"both/new": b"new", b"both/old": b"old", b"over": b"over",
                                 b"stays": b"stays"}


def test_parents_of_a_copied_tree_are_made(client, tmp):
    os.makedirs(f"{tmp}/from/x")
    copy(client, f"{tmp}/from", f"{tmp}/a/b/c", True)
    assert os.path.isdir(f"{tmp}/a/b/c/x")


def test_a_tree_never_goes_into_itself(client, tmp):
    os.makedirs(f"{tmp}/d/sub")
    make(f"{tmp}/d/f", b"x")
    os.symlink("d", f"{tmp}/same")
    os.symlink("d/sub", f"{tmp}/inside")
    before = tree(tmp)
    for to in ("d", "d/sub", "d/new", "d/new/deeper", "same", "same/new", "inside", "inside/new", "d/sub/../new"):
        assert copy_failure(client, f"{tmp}/d", f"{tmp}/{to}", True) == COPY_INTO_ITSELF, to
    assert tree(tmp) == before
    # A name that only begins alike is another directory.
    copy(client, f"{tmp}/d", f"{tmp}/d2", True)
    assert content(f"{tmp}/d2/f") == b"x"


def test_a_tree_onto_a_file(client, tmp):
    os.mkdir(f"{tmp}/d")
    make(f"{tmp}/file", b"x")
    assert copy_failure(client, f"{tmp}/d", f"{tmp}/file", True) == EEXIST
    assert content(f"{tmp}/file") == b"x"


def test_a_link_inside_that_is_already_there(client, tmp):
    for name in ("from", "to"):
        os.mkdir(f"{tmp}/{name}")
        os.symlink("target", f"{tmp}/{name}/link")
    assert copy_failure(client, f"{tmp}/from", f"{tmp}/to", True) == EEXIST


@pytest.mark.parametrize("name, target", [("sub", "../other"), ("f", "../other/f"), ("f", "../other/new")])
def test_no_link_below_the_destination_is_followed(client, tmp, name, target):
    """Another user could have planted the link: nothing outside of the destination may be touched."""
    for top in ("from/sub", "other", "to"):
        os.makedirs(f"{tmp}/{top}")
    make(f"{tmp}/other/f", b"old")
    make(f"{tmp}/from/sub/f", b"new")
    make(f"{tmp}/from/f", b"new")
    os.symlink(target, f"{tmp}/to/{name}")
    assert copy_failure(client, f"{tmp}/from", f"{tmp}/to", True) == EEXIST
    assert tree(f"{tmp}/other") == {b"f": b"old"} and os.readlink(f"{tmp}/to/{name}") == target


def test_recursive_is_required_of_a_copy(client, tmp):
    make(f"{tmp}/f")
    for params, member in (({}, "sourcePath"), ({"sourcePath": tmp}, "destinationPath"),
                           ({"sourcePath": f"{tmp}/f", "destinationPath": f"{tmp}/g"}, "recursive")):
        assert failure(client, "copy", **params) == (-32602, f"missing field `{member}`")
    assert failure(client, "copy", sourcePath=f"{tmp}/f", destinationPath=f"{tmp}/g", recursive=None)[0] == -32602
    assert os.listdir(tmp) == ["f"]
