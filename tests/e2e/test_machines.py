"""Machines that are not as others: git configured for every repository, a user whom the user database does not know."""

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from tests.agent.checkouts import checkout, git
from tests.conftest import need
from tests.installed import TREADLE, treadle
from tests.scripts import calls, says

LFS = """
[filter "lfs"]
    clean = git-lfs clean -- %f
    smudge = git-lfs smudge -- %f
    process = git-lfs filter-process
    required = true
"""
POINTER = "version https://git-lfs.github.com/spec/v1"
WORK = "echo two > file.txt && printf 'many bytes' > new.bin && git add -A && git commit -qm two"


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's checkout on that machine, with a large file that is stored by LFS."""
    need("git-lfs")
    hook = tmp_path / "husky" / "pre-commit"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\npwd >> {tmp_path}/hooked\n")
    hook.chmod(0o755)
    (tmp_path / "template").write_text("Why:\n")
    settings = f"{LFS}[core]\n\thooksPath = {hook.parent}\n[commit]\n\ttemplate = {tmp_path}/template\n"
    (tmp_path / "settings").write_text(settings)
    monkeypatch.delenv("GIT_CONFIG_NOSYSTEM")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", str(tmp_path / "settings"))
    made = checkout(tmp_path / "repo")
    git(made, "config", "user.name", "u")
    git(made, "config", "user.email", "u@user")
    (made / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    (made / "large.bin").write_text("large")
    git(made, "add", "-A")
    git(made, "commit", "-qm", "large")
    (tmp_path / "hooked").unlink()
    return made


def work(top: Path, *words: str) -> None:
    script = top.parent / "script.toml"
    script.write_text(calls("bash", {"command": WORK}) + says("Done."))
    done = treadle(*words, "--model", f"scripted:{script}", cwd=top)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (top.parent / "hooked").exists(), "no git of ours runs a hook"
    assert (top / "file.txt").read_text() == "two\n" and (top / "new.bin").read_text() == "many bytes"
    assert (top / "large.bin").read_text() == "large" and git(top, "show", "HEAD:large.bin").startswith(POINTER)


@pytest.mark.slow
def test_a_large_file_that_an_agent_commits_in_the_checkout_is_stored_by_lfs(top: Path) -> None:
    work(top, "-p", "two", "--permission-mode", "full-auto")
    assert git(top, "log", "-1", "--format=%B") == "two" and git(top, "status", "--porcelain") == ""
    assert git(top, "show", "HEAD:new.bin").startswith(POINTER) and git(top, "lfs", "fsck") == "Git LFS fsck OK"


@pytest.mark.slow
def test_a_large_file_of_an_order_comes_as_it_is(top: Path) -> None:
    work(top, *("host", "run", "--agent", "native", "--workspace-mode", "worktree", "--apply", "--task", "two"))
    assert git(top, "log", "-1", "--format=%B", "--branches=treadle/*") == "two"
    branch = git(top, "for-each-ref", "--format=%(refname)", "refs/heads/treadle/")
    assert git(top, "show", f"{branch}:new.bin") == "many bytes"


NUMBER = "54321"
SCRIPTED = ("--model", "scripted:model.toml")
COMMANDS = {
    "a prompt": ("-p", "write", "--permission-mode", "full-auto", *SCRIPTED),
    "an order": ("host", "run", "--task", "write", "--apply", *SCRIPTED),
    "the small demo": ("demo", "--one"),
}


def run(place: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run it as a user with that number alone, to whom our files still belong."""
    subprocess.run(["git", "init", "-q", place], check=True)
    script = calls("bash", {"command": "echo made > made.txt"}) + says("done", times="always")
    (place / "model.toml").write_text(script)
    env = {name: value for name, value in os.environ.items() if name not in ("HOME", "TREADLE_HOME")}
    command = [need("unshare"), "--user", f"--map-user={NUMBER}", f"--map-group={NUMBER}", TREADLE, *words]
    streams = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 100}
    done = subprocess.run(command, cwd=place, env=env | more, **streams)
    if done.stderr.startswith("unshare:"):
        pytest.skip(f"no user namespace here: {done.stderr.strip()}")
    return done


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.slow
def test_a_user_without_an_entry_works_like_any_other(words: tuple[str, ...], tmp_path: Path) -> None:
    home = pwd.getpwuid(os.geteuid()).pw_dir  # ours: Python itself may be installed there
    done = run(tmp_path, *words, HOME=home, TREADLE_HOME=f"{tmp_path}-state")
    assert done.returncode == 0, done.stdout + done.stderr
    assert words[0] == "demo" or (tmp_path / "made.txt").read_text() == "made\n"


def test_without_a_home_such_a_user_is_told_to_set_one(tmp_path: Path) -> None:
    done = run(tmp_path, *COMMANDS["a prompt"])
    told = f"treadle: HOME is not set, and user {NUMBER} has no other home directory (set HOME)\n"
    assert (done.returncode, done.stderr) == (1, told)
