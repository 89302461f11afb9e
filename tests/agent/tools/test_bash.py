import asyncio
import os
import tracemalloc
from pathlib import Path

import msgspec
import pytest

from tests.agent.tools.workspace import Workspace
from treadle.agent.tools import bash
from treadle.errors import ConfigError
from treadle.events import CommandRun, ToolOutput, Warned
from treadle.io.sandbox import methods
from treadle.session import Confinement


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pids(workspace: Workspace, name: str = "pids") -> list[int]:
    return [int(line) for line in (workspace.root / name).read_text().split()]


async def test_a_command_starts_in_the_working_directory_with_its_own_environment_and_no_input(
    workspace: Workspace,
) -> None:
    assert await workspace.run("bash", command="pwd; echo $X-$HOME; cat; tty") == (
        f"{workspace.root}\n-{workspace.context.env['HOME']}\nnot a tty\n[exit code 1]"
    )


async def test_when_time_is_up_the_whole_tree_is_stopped_also_what_ignores_sigterm(workspace: Workspace) -> None:
    command = (
        "trap '' TERM; (trap '' TERM; setsid sleep 300 & echo $! >> pids; sleep 300) & echo $! >> pids;"
        " echo before; while :; do sleep 1; done"
    )
    for seconds in (1, 30):  # on a busy machine the shell may not come so far in one
        (workspace.root / "pids").write_text("")
        workspace.events.clear()
        result = await workspace.run("bash", command=command, timeout=seconds)
        if result.startswith("before\n") and len(pids(workspace)) == 2:
            break
    assert result.startswith(f"before\n[timed out after {seconds} s: the command and all it had started were stopped")
    assert "by force" in result
    assert not any(alive(pid) for pid in pids(workspace)) and len(pids(workspace)) == 2
    [command] = [event for event in workspace.events if isinstance(event, CommandRun)]
    assert command.exit_code is None


async def test_a_daemon_that_is_left_behind_is_stopped_and_told_and_its_open_pipe_does_not_hang(
    workspace: Workspace,
) -> None:
    result = await workspace.run("bash", command="setsid sleep 300 & echo $! > pids; echo started")
    [pid] = pids(workspace)
    assert result == (f"started\n[stopped what the command left running: sleep ({pid}); use background to keep it]")
    assert not alive(pid)


async def test_a_flood_is_cut_in_memory_on_disk_and_live_and_then_stopped(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from treadle.agent import toolbox

    monkeypatch.setattr(toolbox, "DISK_CAP", 1 << 20)
    for seconds in (1, 30):  # on a busy machine there may be no flood in one
        workspace.events.clear()
        tracemalloc.start()
        result = await workspace.run("bash", command="yes", timeout=seconds)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        if "the first 1 MiB are in" in result:
            break
    assert peak < 4 << 20
    assert result.startswith("y\ny\n") and "the first 1 MiB are in" in result
    assert f"[timed out after {seconds} s" in result
    assert len(result) < 26_000
    assert (workspace.kept / "call-1.txt").stat().st_size == 1 << 20
    live = [event for event in workspace.events if isinstance(event, ToolOutput)]
    assert sum(len(event.text) for event in live) <= 300_000


async def test_an_interrupt_stops_the_tree_before_it_is_over(workspace: Workspace) -> None:
    live = asyncio.Event()
    workspace.context = msgspec.structs.replace(
        workspace.context, emit=lambda event: (workspace.events.append(event), live.set())
    )
    command = "sleep 300 & echo $! > pids; echo $$ >> pids; echo up; wait"
    running = asyncio.create_task(workspace.run("bash", command=command))
    async with asyncio.timeout(60):
        await live.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not any(alive(pid) for pid in pids(workspace)) and len(pids(workspace)) == 2
    [command_run] = [event for event in workspace.events if isinstance(event, CommandRun)]
    assert command_run.exit_code is None and command_run.output == "up\n"


@pytest.mark.parametrize(("grace", "says_goodbye"), [(60.0, True), (0.0, False)])
async def test_what_is_interrupted_has_its_time_to_end_by_itself(
    workspace: Workspace, grace: float, says_goodbye: bool
) -> None:
    live = asyncio.Event()
    workspace.context = msgspec.structs.replace(workspace.context, emit=lambda event: live.set(), grace=grace)
    command = "trap 'echo > goodbye; exit' TERM; echo up; while :; do sleep 0.1; done"
    running = asyncio.create_task(workspace.run("bash", command=command))
    async with asyncio.timeout(60):
        await live.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (workspace.root / "goodbye").exists() == says_goodbye


async def test_an_interrupt_while_it_starts_leaves_nothing_either(workspace: Workspace) -> None:
    running = asyncio.create_task(workspace.run("bash", command="echo $$ > pids; sleep 300"))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with asyncio.timeout(60):
        while (workspace.root / "pids").exists() and any(alive(pid) for pid in pids(workspace)):
            await asyncio.sleep(0.01)


async def test_what_runs_outside_is_noted_and_not_confined_also_in_the_background(workspace: Workspace) -> None:
    left: list[str] = []

    def walls() -> Confinement | None:
        raise ConfigError("must be confined")

    workspace.context = msgspec.structs.replace(workspace.context, confinement=walls, leave=lambda: left.append("left"))
    assert await workspace.run("bash", command="echo ok", outside="it must") == "ok" and left == ["left"]
    await workspace.run("bash", command="serve", outside=" it must ", background=True)
    assert left == ["left", "left"] and [one[0] for one in workspace.tasks.started] == ["serve"]
    with pytest.raises(ConfigError):
        await workspace.run("bash", command="echo ok", outside=" ")
    access = bash.BASH.access(bash.BashArgs(command="ls", outside=" why "), Path)
    assert (access.kind, access.command, access.outside) == ("execute", "ls", "why")


@pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")
@pytest.mark.parametrize("asks", [False, True])
async def test_a_host_that_is_not_in_the_list_is_asked_about_or_named(
    workspace: Workspace, tmp_path: Path, asks: bool
) -> None:
    asked: list[tuple[str, int]] = []

    async def reaching(host: str, port: int) -> bool:
        asked.append((host, port))
        return False

    hosts = () if asks else ("a.example",)
    walls = Confinement(use="on", network="off", hosts=hosts, write=(str(workspace.root),), temp=str(tmp_path))
    more = {"confinement": lambda: walls, "reaching": reaching if asks else None}
    workspace.context = msgspec.structs.replace(workspace.context, **more)
    request = r"printf 'CONNECT b.example:443 HTTP/1.1\r\n\r\n' >&3; head -1 <&3; exit 1"
    said = await workspace.run("bash", command=f"exec 3<>/dev/tcp/127.0.0.1/3128; {request}")
    assert "403" in said and "[b.example may not be reached: " in said
    assert asked == ([("b.example", 443)] if asks else [])


needs_sandbox = pytest.mark.skipif(methods.available().method is None, reason="needs a sandbox")


@needs_sandbox
async def test_a_command_that_meets_the_sandbox_is_told_what_stopped_it(workspace: Workspace, tmp_path: Path) -> None:
    held = workspace.write("held.txt", "theirs")
    by = [(str(held), "held.txt is held by bob"), *((f"/x{n}", f"x{n} is held by bob") for n in range(bash.SHOWN))]
    walls = Confinement(
        use="on",
        network="off",
        write=(str(workspace.root),),
        read_only=(str(held),),
        held=tuple(by),
        temp=str(tmp_path),
    )
    workspace.context = msgspec.structs.replace(workspace.context, confinement=lambda: walls)
    sandbox = f"[it ran in a sandbox: only {workspace.root} and /tmp can be written"
    said = await workspace.run("bash", command="echo Permission denied; exit 1")
    assert (
        sandbox in said and "held by bob; x0 is held by bob" in said and "x3 is held by bob and 1 more. Work on" in said
    )
    said = await workspace.run("bash", command="echo x > held.txt")
    assert sandbox not in said and said.endswith(
        "claimed it: held.txt is held by bob. Work on something else meanwhile]"
    )
    assert "[" not in await workspace.run("bash", command="echo Permission denied")
    assert held.read_text() == "theirs"
    offline = "[commands have no network here"
    assert offline not in await workspace.run("bash", command="echo Could not resolve host")
    for _ in range(2):
        assert offline in await workspace.run("bash", command="echo Could not resolve host; exit 6")
    assert [event.code for event in workspace.events if isinstance(event, Warned)] == ["network"]
