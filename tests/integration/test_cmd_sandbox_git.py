"""`farhand sandbox --workspace-write --git`: honest commits work, and nothing can be planted that git runs later."""

import os
import shutil

import pytest

from cmd_rig import USERS, cmd_of
from sandbox_rig import differences, snapshot

GIT = ["--workspace-write", "--git"]


@pytest.fixture(params=USERS)
def cmd(request):
    if not shutil.which("git"):
        pytest.skip("needs git")
    with cmd_of(request.param) as c:
        c.git("init", "-q", "-b", "main", ".")
        yield c


@pytest.fixture
def me():
    if not shutil.which("git"):
        pytest.skip("needs git")
    with cmd_of("root" if os.geteuid() == 0 else "unprivileged") as c:
        c.git("init", "-q", "-b", "main", ".")
        yield c


COMMIT = "echo more >> file && git add file && git commit -q -m inside && git log --oneline | wc -l"


def run(cmd, script, *options, **kw):
    return cmd.sandbox(*(options or GIT), "--", "sh", "-c", script, **kw)


def test_a_commit_works_and_is_there_afterwards(cmd):
    code, out, err = run(cmd, COMMIT)
    assert (code, out.strip()) == (0, b"1"), err
    assert cmd.git("log", "--format=%s") == "inside"
    assert cmd.git("status", "--short") == ""
    code, out, err = run(cmd, "git checkout -q -b topic && " + COMMIT + " && git checkout -q main && git merge -q topic "
                         "&& git rebase -q topic && git tag -a -m t v1 && git gc -q && git stash list && git fsck")
    assert code == 0, err
    assert cmd.git("rev-parse", "main") == cmd.git("rev-parse", "topic")


def test_without_git_no_commit_works(me):
    code, _, err = run(me, COMMIT, "--workspace-write")
    assert code != 0 and b"Read-only file system" in err


PLANTS = [
    "echo '#!/bin/sh' > .git/hooks/pre-commit",
    "echo '#!/bin/sh' > .git/hooks/new && chmod +x .git/hooks/new",
    "ln -s /bin/true .git/hooks/post-checkout",
    "mv .git/hooks .git/old && mkdir .git/hooks",
    "rm -rf .git/hooks && mkdir .git/hooks",
    "git config core.fsmonitor ./evil",
    "git config --local core.hooksPath evil",
    "echo '[core] pager=./evil' >> .git/config",
    "rm .git/config && cp /dev/null .git/config",
    "cp .git/config new && echo '[core] pager=./evil' >> new && mv -f new .git/config",
    "ln -f file .git/config",
    "echo '[core] pager=./evil' > .git/config.worktree",
    "mkdir .git/config.worktree",
    "mv .git .other && cp -r .other .git",
    "git init -q --template=/usr/share/git-core/templates . && git config a.b c",
    "cd .. && mv w w2",
]


@pytest.mark.parametrize("plant", PLANTS)
def test_nothing_can_be_planted(me, plant):
    me.tree.file(os.path.join(me.tree.w, "file"), "[core]\npager=./evil\n")
    places = [os.path.join(me.tree.w, ".git", name) for name in ("config", "hooks", "config.worktree", "commondir")]
    before = snapshot(*places)
    code, out, _ = run(me, f"( {plant} ) && echo planted")
    assert b"planted" not in out and code != 0
    assert not differences(before, snapshot(*places))
    assert "evil" not in me.git("config", "--list", "--show-origin")


@pytest.mark.parametrize("plant", ["mkdir -p evil; echo ../evil > .git/commondir", "echo ../evil > c; mv c .git/commondir",
                                   "mkdir .git/commondir", "ln -s ../evil .git/commondir"])
def test_a_common_directory_that_appears_ends_the_command_and_is_removed(me, plant):
    code, out, err = run(me, f"{plant}; sleep 1000; echo survived")
    assert (code, out) == (125, b"")
    assert b"commondir" in err and b"step: git" in err
    assert not os.path.lexists(os.path.join(me.tree.w, ".git", "commondir"))
    for _ in range(20):  # the file may be there before the start is reported, or the command over before farhand looks
        code, out, err = run(me, plant)
        assert (code, out) == (125, b"") and b"commondir" in err, err
        assert not os.path.lexists(os.path.join(me.tree.w, ".git", "commondir"))


def test_missing_hooks_do_not_come_into_being(me):
    shutil.rmtree(os.path.join(me.tree.w, ".git", "hooks"))
    code, out, err = run(me, "mkdir .git/hooks && echo planted; " + COMMIT)
    assert (code, out.strip()) == (0, b"1"), err
    assert not os.path.exists(os.path.join(me.tree.w, ".git", "hooks"))


def worktree(cmd):
    """A linked worktree of the repository in `w`, outside of it."""
    cmd.git("commit", "-q", "--allow-empty", "-m", "first")
    path = os.path.join(cmd.tree.o, "tree")
    cmd.git("worktree", "add", "-q", "-b", "side", path)
    return path


def test_commits_in_a_worktree_work_and_plant_nothing(cmd):
    tree = worktree(cmd)
    code, out, err = run(cmd, COMMIT, cwd=tree)
    assert (code, out.strip()) == (0, b"2"), err
    assert cmd.git("log", "-1", "--format=%s", "side") == "inside"
    main = os.path.join(cmd.tree.w, ".git")
    admin = os.path.join(main, "worktrees", "tree")
    before = snapshot(os.path.join(main, "config"), os.path.join(main, "hooks"), admin, skip=(os.path.join(admin, "index"),))
    for plant in (f"echo x > {main}/hooks/pre-commit", f"echo x >> {main}/config", f"echo x > {main}/config.worktree",
                  f"echo x > {admin}/commondir", f"echo x > {admin}/gitdir", f"echo x > {admin}/config.worktree",
                  f"mv {admin} {main}/worktrees/other", f"mkdir {main}/worktrees/new", "echo x > .git",
                  f"echo x > {cmd.tree.w}/file"):
        code, out, _ = run(cmd, f"( {plant} ) && echo planted", cwd=tree)
        assert b"planted" not in out and code != 0, plant
    assert not differences(before, snapshot(os.path.join(main, "config"), os.path.join(main, "hooks"), admin,
                                            skip=(os.path.join(admin, "index"),)))


def test_the_main_repository_cannot_change_its_worktrees(me):
    worktree(me)
    admin = os.path.join(me.tree.w, ".git", "worktrees", "tree")
    for plant in (f"echo x > {admin}/commondir", f"echo x > {admin}/config.worktree", f"mv {admin} {admin}2"):
        assert b"planted" not in run(me, f"( {plant} ) && echo planted")[1]
    assert run(me, COMMIT)[0] == 0


def test_commits_in_a_submodule_that_is_named_work(me):
    source = me.tree.dir(os.path.join(me.tree.o, "source"))
    me.git("init", "-q", ".", cwd=source)
    me.git("commit", "-q", "--allow-empty", "-m", "first", cwd=source)
    me.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", source, "sub")
    sub = os.path.join(me.tree.w, "sub")
    code, out, err = run(me, COMMIT, cwd=sub)
    assert (code, out.strip()) == (0, b"2"), err
    code, out, err = run(me, "git config a.b c && echo planted", cwd=sub)
    assert b"planted" not in out and code != 0
    code, out, err = run(me, f"( cd sub && {COMMIT} )")  # with the superproject as workspace its submodules are not opened
    assert code != 0


def test_a_git_file_opens_no_directory_that_is_not_its_own(me):
    worktree(me)
    victim = me.tree.dir(os.path.join(me.tree.base, "victim"))
    me.tree.file(os.path.join(victim, "keys"), "k\n")
    stranger = me.tree.dir(os.path.join(me.tree.base, "stranger"))
    admin = os.path.join(me.tree.w, ".git", "worktrees", "tree")
    fake = me.tree.dir(os.path.join(stranger, "fake"))
    me.tree.file(os.path.join(fake, "gitdir"), os.path.join(stranger, ".git") + "\n")
    me.tree.file(os.path.join(fake, "commondir"), victim + "\n")
    for target in (victim, admin, os.path.join(me.tree.w, ".git"), fake, "fake", "/no/such/place", ""):
        me.tree.file(os.path.join(stranger, ".git"), f"gitdir: {target}\n")
        code, out, err = run(me, "echo ran", cwd=stranger)
        assert (code, out) == (125, b""), target
        assert b"--git: " in err and b"remedy: " in err
    os.unlink(os.path.join(stranger, ".git"))
    me.tree.link(os.path.join(stranger, ".git"), os.path.join(me.tree.w, ".git"))
    assert run(me, "echo ran", cwd=stranger)[0] == 125


def test_workspaces_without_a_repository_are_refused_only_when_no_other_has_one(me):
    code, _, err = run(me, "echo ran", "--workspace-write", me.tree.o, "--git")
    assert code == 125 and b"no workspace has a .git" in err
    code, out, err = run(me, COMMIT, "--workspace-write", me.tree.o, me.tree.w, "--git")
    assert (code, out.strip()) == (0, b"1"), err


def test_the_repository_is_as_it_was_when_nothing_was_done(cmd):
    cmd.git("commit", "-q", "--allow-empty", "-m", "first")
    before = snapshot(cmd.tree.base)
    assert run(cmd, "true")[0] == 0
    assert run(cmd, "kill -9 $$")[0] == 137
    assert not differences(before, snapshot(cmd.tree.base))
