"""What one command leaves for the next: where it ended, and what it exported; and that it opens no way out."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.agent.conftest import Opened
from tests.agent.opened import of, turn
from tests.scripts import calls, says
from tests.waiting import until
from treadle.agent.session import NativeSession
from treadle.agent.tools.bash import BASH, BashArgs
from treadle.events import ToolEnded
from treadle.io.process import child as children
from treadle.io.process.child import Child
from treadle.session import Access, Confinement, Decision, Rules, Start


class Shell:
    """The commands of a session, each judged and run as the loop does it."""

    def __init__(self, session: NativeSession) -> None:
        self.session = session
        self.access = Access(tool="bash", kind="execute")

    def judge(self, command: str, **more: Any) -> Decision:
        context = self.session._tool_context(SimpleNamespace(id="t"), "c")  # type: ignore[arg-type]
        self.access = BASH.access(BashArgs(command=command, **more), context.resolve)
        return self.session.permissions.guard(self.access)

    async def run(self, command: str, **more: Any) -> str:
        context = self.session._tool_context(SimpleNamespace(id="t"), "c")  # type: ignore[arg-type]
        args = BashArgs(command=command, **more)
        self.access = BASH.access(args, context.resolve)
        return await BASH.run(args, context)


async def open_shell(opened: Opened, work: Path, **more: Any) -> Shell:
    (work / "sub" / "deep").mkdir(parents=True, exist_ok=True)
    return Shell(await opened(says("done"), **{"mode": None, **more}))


def gone(work: Path) -> None:
    shutil.rmtree(work / "sub")


def replaced(work: Path) -> None:
    gone(work)
    (work / "sub").symlink_to(work.parent)


def above_replaced(work: Path) -> None:
    gone(work)
    (work.parent / "deep").mkdir()
    (work / "sub").symlink_to(work.parent)


def linked(work: Path) -> None:
    (work / "out").symlink_to(work.parent)


def untouched(work: Path) -> None:
    pass


@pytest.mark.parametrize(
    ("before", "first", "between"),
    [
        (untouched, "cd ..", untouched),
        (untouched, "cd /", untouched),
        (untouched, "cd sub && cd ../..", untouched),
        (untouched, "pushd .. >/dev/null", untouched),
        (linked, "cd out", untouched),
        (untouched, "cd sub", gone),
        (untouched, "cd sub", replaced),
        (untouched, "cd sub/deep", above_replaced),
        (untouched, "cd sub; rm -r ../sub", untouched),
        (untouched, "mkdir $'a\\nb'; cd $'a\\nb'", untouched),
    ],
)
@pytest.mark.parametrize("confined", [False, True])
async def test_no_directory_but_one_of_the_workspace_holds_for_the_next_command(
    opened: Opened,
    work: Path,
    before: Callable[[Path], None],
    first: str,
    between: Callable[[Path], None],
    confined: bool,
) -> None:
    before(work)
    shell = await open_shell(opened, work, confinement=Confinement(use="on" if confined else "off"))
    said = await shell.run(first)
    between(work)
    said += "\n" + await shell.run("echo x > made; pwd -P")
    assert str(work) in said.splitlines() and (work / "made").exists()
    assert not (work.parent / "made").exists()
    assert shell.access.command == "echo x > made; pwd -P"
    assert "outside of the workspace" in said or "is gone" in said


async def test_the_next_command_is_judged_where_it_runs(opened: Opened, work: Path) -> None:
    rules = Rules(deny=("Write(sub/held.txt)", "Read(sub/secret)"), allow=("Bash(make*)",))
    shell = await open_shell(opened, work, rules=rules, mode="suggest")
    assert shell.judge("echo x > held.txt").verdict == "ask"
    assert shell.judge("make all").verdict == "allow"
    await shell.run("cd sub")
    assert shell.judge("echo x > held.txt").verdict == "deny"
    assert shell.judge("cat secret").verdict == "deny"
    assert shell.judge("cd .. && cat sub/secret").verdict == "deny"
    assert shell.access.command == "cd sub && cd .. && cat sub/secret" and shell.access.directory == f"{work}/sub"
    assert shell.judge("make all").verdict == "allow"


async def test_a_protected_file_is_seen_by_its_whole_path(opened: Opened, work: Path) -> None:
    shell = await open_shell(opened, work, mode="full-auto", confinement=Confinement(use="off"))
    assert shell.judge("echo x > config").verdict == "allow"
    await shell.run("mkdir .git; cd .git")
    assert "other programs act on" in shell.judge("echo x > config").reason


async def test_what_decides_which_program_runs_is_part_of_what_is_judged(opened: Opened, work: Path) -> None:
    shell = await open_shell(opened, work, rules=Rules(allow=("Bash(make*)",)), mode="suggest")
    await shell.run("export CI=1")
    assert shell.judge("make all").verdict == "allow" and shell.access.command == "make all"
    await shell.run('export PATH="$PWD/sub:$PATH"')
    assert shell.judge("make all").verdict == "ask"
    assert (shell.access.command or "").startswith(f"export PATH={work}/sub:")
    assert shell.judge("make all", outside="it must").verdict == "ask" and shell.access.command == "make all"


@pytest.mark.parametrize(
    ("first", "then", "result"),
    [
        ("cd sub", "pwd -P", "{work}/sub"),
        ("cd sub", "cd deep; pwd -P", "{work}/sub/deep\n[the next command starts in {work}/sub/deep]"),
        ("cd sub; exit 3", "pwd -P", "{work}/sub"),
        ("set -eu; cd sub; false; cd deep", "pwd -P", "{work}/sub"),
        ("(cd sub)", "pwd -P", "{work}"),
        ("cd sub; cd ..", "pwd -P", "{work}"),
        ("cd sub; trap 'echo own' EXIT", "pwd -P", "{work}"),
        ("cd sub; exec true", "pwd -P", "{work}"),
        ("set -C; umask 777; cd sub", "pwd -P", "{work}/sub"),
        ("pwd() { :; }; env() { :; }; printf() { :; }; cd sub", "pwd -P", "{work}/sub"),
        ("mkdir 'it'\"'\"'s $x'; cd it*", "pwd -P", "{work}/it's $x"),
        ("mkdir -- -x '~'; cd ./-x", "pwd -P", "{work}/-x"),
        ("export NODE_ENV=a\\ b PYTHONPATH=lib", 'echo "$NODE_ENV $PYTHONPATH"', "a b lib"),
        ("export NODE_ENV=a; unset LANG", 'echo "$NODE_ENV ${LANG-none}"', "a none"),
        ("echo 'export NODE_ENV=a; cd sub' > s; . ./s", 'echo "$NODE_ENV"; pwd -P', "a\n{work}/sub"),
        ("NODE_ENV=a; f() { :; }; alias g=ls", 'echo "$NODE_ENV"; type f g 2>&1 | grep -c found', "\n2"),
        ("NODE_ENV=a true", 'echo "$NODE_ENV."', "."),
    ],
)
async def test_it_holds_for_the_next_command(opened: Opened, work: Path, first: str, then: str, result: str) -> None:
    shell = await open_shell(opened, work)
    await shell.run(first)
    assert (await shell.run(then)).rstrip("\n") == result.format(work=work).rstrip("\n")


@pytest.mark.parametrize("command", ["cd sub; if", "cd sub; nowhere", "cd sub; echo $0 $# $BASH_ENV; kill -9 $$"])
async def test_what_a_command_prints_is_as_without_it(opened: Opened, work: Path, command: str) -> None:
    shell = await open_shell(opened, work)
    argv = [shutil.which("bash") or "", "-c", command]
    plain = subprocess.run(argv, cwd=work, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    assert (await shell.run(command)).startswith(plain.rstrip("\n"))


@pytest.mark.parametrize("confined", [False, True])
async def test_only_variables_that_a_command_could_have_from_the_start_last(
    opened: Opened, work: Path, confined: bool
) -> None:
    shell = await open_shell(opened, work, confinement=Confinement(use="on" if confined else "off"))
    said = await shell.run("export NODE_ENV=a OTHER=b SOME_API_KEY=c BASH_ENV=d")
    expected = ("a", "", "", "") if confined else ("a", "b", "", "")
    left = "OTHER, SOME_API_KEY" if confined else "SOME_API_KEY"
    assert f"lacks them: {left}]" in said
    found = await shell.run('printf "%s|" "$NODE_ENV" "$OTHER" "$SOME_API_KEY" "$BASH_ENV"')
    assert found.splitlines()[0] == "".join(f"{value}|" for value in expected)


@pytest.mark.parametrize("background", [False, True])
async def test_what_makes_the_sandbox_has_no_variable_of_a_command(
    opened: Opened, work: Path, monkeypatch: pytest.MonkeyPatch, background: bool
) -> None:
    shell = await open_shell(opened, work, confinement=Confinement(use="on"))
    await shell.run("export LD_LIBRARY_PATH=$PWD/sub PYTHONPATH=$PWD/sub PATH=$PWD/sub:$PATH NODE_ENV=a")
    seen: list[dict[str, str]] = []

    async def launch(*argv: Any, env: dict[str, str], **more: Any) -> Child:
        seen.append(env)
        return await started(*argv, env=env, **more)

    started = children.start
    monkeypatch.setattr(children, "start", launch)
    await shell.run("env > found", background=background)
    await until(lambda: (work / "found").exists() and "NODE_ENV=a" in (work / "found").read_text())
    assert f"LD_LIBRARY_PATH={work}/sub\n" in (work / "found").read_text()
    assert seen and not any(str(work / "sub") in value for env in seen for value in env.values())
    assert not any({"LD_LIBRARY_PATH", "PYTHONPATH", "NODE_ENV"} & env.keys() for env in seen)


async def test_what_runs_outside_has_nothing_from_within_and_a_background_task_starts_there(
    opened: Opened, work: Path
) -> None:
    shell = await open_shell(opened, work, confinement=Confinement(use="on"))
    await shell.run("cd sub; export NODE_ENV=a")
    assert await shell.run('echo "$NODE_ENV"; pwd -P', outside="it must") == f"\n{work}/sub"
    await shell.run("pwd -P > place; echo $NODE_ENV >> place; sleep 100", background=True)
    place = work / "sub" / "place"
    await until(lambda: place.exists() and place.read_text().count("\n") == 2)
    assert place.read_text() == f"{work}/sub\na\n"


async def test_a_subagent_a_resumed_session_and_a_cleared_one_begin_in_the_working_directory(
    opened: Opened, work: Path
) -> None:
    script = (
        calls("bash", {"command": "cd sub"}, when="^go$")
        + calls("task", {"description": "look", "prompt": "look there"}, when="next command starts")
        + calls("bash", {"command": "pwd > child; cd sub/deep"}, when="look there")
        + says("seen", times=1, when="next command starts in .*deep")
        + calls("bash", {"command": "pwd"}, when="seen")
        + says("done", times="always")
    )
    (work / "sub" / "deep").mkdir(parents=True)
    session = await opened(script, mode=None)
    *_, last = [event for event in of(await turn(session), ToolEnded) if event.name == "bash"]
    assert last.result == f"{work}/sub" and (work / "child").read_text() == f"{work}\n"
    await session.close()
    again = Shell(await opened(says("done"), mode=None, start=Start(resume=session.id)))
    assert again.judge("ls").verdict == "allow" and again.access.command == "ls"
    assert await again.run("cd sub; pwd") == f"{work}/sub\n[the next command starts in {work}/sub]"
    again.session.clear()
    assert await again.run("pwd") == str(work)
