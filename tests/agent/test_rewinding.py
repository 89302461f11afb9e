"""/rewind: the workspace as it was before a turn, whatever changed it; and what is said of the rest."""

import math
import os
import subprocess
from pathlib import Path

import pytest

from tests.agent.commands.conftest import ran
from tests.agent.commands.test_history import say
from tests.agent.conftest import Opened
from tests.scripts import calls, says
from treadle.agent import rewinding

Snapshot = dict[bytes, tuple[int, bytes]]


def git(work: Path, *words: str) -> str:
    options = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    return subprocess.run(["git", *options, *words], cwd=work, check=True, capture_output=True, text=True).stdout


def snapshot(work: Path) -> Snapshot:
    found: Snapshot = {}
    for at, folders, names in os.walk(os.fsencode(work)):
        folders[:] = [name for name in folders if name != b".git"]
        for name in (*names, *folders):
            path = os.path.join(at, name)
            mode = os.lstat(path).st_mode
            link = os.path.islink(path)
            data = os.readlink(path) if link else b"" if os.path.isdir(path) else Path(os.fsdecode(path)).read_bytes()
            found[os.path.relpath(path, os.fsencode(work))] = (0 if link else mode, data)
    return found


@pytest.fixture
def project(work: Path) -> Path:
    (work / "src").mkdir()
    (work / "empty").mkdir()
    for name, data in {
        "a.txt": b"one\ntwo\n",
        "src/b.py": b"print()\n",
        "crlf.txt": b"a\r\nb\r\n",
        "bin": bytes(range(256)),
        ".gitignore": b"build/\n*.log\n",
        "gone.sh": b"#!/bin/sh\n",
    }.items():
        (work / name).write_bytes(data)
    (work / "gone.sh").chmod(0o755)
    (work / "link").symlink_to("a.txt")
    git(work, "init", "-q", "-b", "main")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "first")
    return work


RESTORED = {
    "edit": "echo more >> a.txt",
    "create": "mkdir -p new/deep && echo x > new/deep/file",
    "delete": "rm a.txt",
    "rename": "mv a.txt src/c.txt",
    "executable": "chmod +x a.txt && chmod -x gone.sh",
    "permissions": "chmod 600 a.txt",
    "private file deleted": "rm private",
    "link to file": "rm link && echo x > link",
    "file to link": "rm a.txt && ln -s src/b.py a.txt",
    "link moved": "ln -sfn /etc/passwd link",
    "directory to file": "rm -r src && echo x > src",
    "file to directory": "rm a.txt && mkdir a.txt && echo x > a.txt/x",
    "binary": "head -c 300000 /dev/zero > bin",
    "line ends": "sed -i 's/$/x/' crlf.txt",
    "empty directory": "rmdir empty && mkdir -p other/one",
    "not UTF-8": "echo x > $'b\\xffd' && rm $'k\\xfft'",
    "large": "head -c 3000000 /dev/urandom > large",
    "everything": "rm -rf * .gitignore",
    "never committed": "echo more > own.txt; rm src/new.py",
    "all at once": "mv src lib; echo x >> lib/b.py; ln -s lib src; rm own.txt; chmod +x bin",
}


@pytest.mark.parametrize("command", RESTORED.values(), ids=list(RESTORED))
@pytest.mark.parametrize("repository", [True, False])
async def test_the_tree_is_as_it_was_before_the_turn(
    opened: Opened, project: Path, command: str, repository: bool
) -> None:
    (project / "own.txt").write_text("not committed\n")
    (project / "src/new.py").write_text("")
    (project / "a.txt").write_text("dirty\n")
    (project / "private").write_text("x")
    (project / "private").chmod(0o600)
    (project / os.fsdecode(b"k\xfft")).write_text("x")
    if not repository:
        subprocess.run(["rm", "-r", ".git"], cwd=project, check=True)
    before = snapshot(project)
    state = (git(project, "rev-parse", "HEAD"), git(project, "diff", "--cached")) if repository else ()
    session = await opened(
        calls("bash", {"command": command}) + says("done"), mode=None, answers=True, answer_seconds=math.inf
    )
    await say(session, "go")
    assert snapshot(project) != before
    said = await ran(session, "rewind 1")
    assert snapshot(project) == before, said
    assert "Left as" not in said and "Not restored" not in said and "commit" not in said
    assert not repository or state == (git(project, "rev-parse", "HEAD"), git(project, "diff", "--cached"))


COMMIT = "git -c core.hooksPath=/ -c user.name=a -c user.email=a@b commit"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("mkdir build && echo x > build/out; echo x > a.txt", "ignored or too large: build/out."),
        ("head -c 200 /dev/zero > large; echo x > a.txt", "ignored or too large: large."),
        (f"echo x > a.txt; {COMMIT} -qam second", "No commit was moved: HEAD is at"),
        (f"cd sub && {COMMIT} -qm x --allow-empty", "the submodule sub is at"),
    ],
)
async def test_what_does_not_come_back_is_said(
    opened: Opened, project: Path, command: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewinding, "LARGEST", 150)
    git(project, "clone", "-q", ".", "../other")
    git(project, "submodule", "--quiet", "add", "../other", "sub")
    git(project, "commit", "-qm", "sub")
    (project / "bin").write_bytes(b"\0")
    session = await opened(
        calls("bash", {"command": command}) + says("done"), mode="yolo", answers=True, answer_seconds=math.inf
    )
    await say(session, "go")
    head = git(project, "rev-parse", "HEAD")
    assert said in await ran(session, "rewind 1")
    assert (project / "a.txt").read_text() == "one\ntwo\n" and git(project, "rev-parse", "HEAD") == head


async def test_what_another_changed_since_is_left_and_said(opened: Opened, project: Path) -> None:
    first = "echo x | tee a.txt own.txt src/b.py crlf.txt >/dev/null; rm bin"
    script = calls("bash", {"command": first}) + says("done") + calls("bash", {"command": "echo y > crlf.txt"})
    session = await opened(script + says("done"), mode=None, answers=True, answer_seconds=math.inf)
    await say(session, "one")
    (project / "own.txt").write_text("mine")
    (project / "crlf.txt").write_text("mine, too")
    await say(session, "two")
    (project / "bin").mkdir()
    (project / "bin/mine").write_text("x")
    (project / "theirs").write_text("x")
    said = await ran(session, "rewind 1")
    assert "because they were changed after the turn: bin, crlf.txt, own.txt." in said
    assert (project / "own.txt").read_text() == "mine" and (project / "crlf.txt").read_text() == "y\n"
    assert (project / "bin/mine").exists() and (project / "theirs").exists()
    assert (project / "a.txt").read_text() == "one\ntwo\n" and (project / "src/b.py").read_text() == "print()\n"


async def test_two_rewinds_one_after_a_resume_with_tools_and_commands_mixed(opened: Opened, project: Path) -> None:
    start = snapshot(project)
    write = calls("write_file", {"file_path": "made.txt", "content": "hello"})
    outside = calls("write_file", {"file_path": "../outside.txt", "content": "hello"})
    script = write + calls("bash", {"command": "echo more >> made.txt; rm a.txt"}) + says("done")
    script += calls("bash", {"command": "mv made.txt moved; echo x > a.txt"}) + outside + says("done")
    session = await opened(script, mode=None, answers=True, answer_seconds=math.inf)
    await say(session, "one")
    middle = snapshot(project)
    await say(session, "two")
    assert "a.txt" in await ran(session, "rewind 2")
    assert snapshot(project) == middle and not (project / "../outside.txt").exists()
    await session.close()
    again = await opened(
        calls("bash", {"command": "echo other > made.txt"}) + says("done"),
        mode=None,
        answers=True,
        answer_seconds=math.inf,
        resume=session.id,
    )
    await say(again, "three")
    await ran(again, "rewind 1")
    assert snapshot(project) == start


async def test_a_run_without_a_person_takes_no_tree_and_a_look_takes_none(opened: Opened, project: Path) -> None:
    script = calls("bash", {"command": "rm a.txt"}) + says("done")
    session = await opened(script, mode=None, answers=True)
    await say(session, "go")
    assert "without a chat: what commands changed in turn: 1." in await ran(session, "rewind 1")
    looking = await opened(
        calls("bash", {"command": "ls | head -3"}) + says("done"), mode=None, answers=True, answer_seconds=math.inf
    )
    await say(looking, "go")
    for one in (session, looking):
        assert not os.path.exists(os.path.join(one.transcript.directory, "trees"))
