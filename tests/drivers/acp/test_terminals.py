"""Commands that an agent runs through us."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.drivers.acp.test_files import Host
from treadle.drivers.acp.driver import Terminals
from treadle.wire.common.jsonrpc import Fault


async def created(terminals: Terminals, command: str, **more: Any) -> str:
    return str((await terminals.answer("terminal/create", {"command": command, **more}))["terminalId"])


async def ask(terminals: Terminals, what: str, name: str) -> dict[str, Any]:
    return await asyncio.wait_for(terminals.answer(f"terminal/{what}", {"terminalId": name}), 60)


async def test_a_command_is_judged_run_and_told(tmp_path: Path) -> None:
    host = Host(tmp_path)
    terminals = Terminals(host)
    variables = [{"name": "WORD", "value": "hello"}, {"name": 3}]
    name = await created(terminals, "/bin/sh", args=["-c", 'echo "$WORD"; pwd; exit 3'], env=variables)
    assert await ask(terminals, "wait_for_exit", name) == {"exitCode": 3, "signal": None}
    told = await ask(terminals, "output", name)
    assert told["output"] == f"hello\n{tmp_path}\n" and told["exitStatus"]["exitCode"] == 3 and not told["truncated"]
    assert host.used[0].command == "/bin/sh -c 'echo \"$WORD\"; pwd; exit 3'"
    await ask(terminals, "release", name)
    found = terminals.find(name)
    assert found is not None and found.output.text.startswith("hello")
    with pytest.raises(Fault, match="no terminal"):
        await ask(terminals, "output", name)
    terminals.begin()
    assert terminals.find(name) is None


async def test_a_line_without_arguments_is_for_a_shell(tmp_path: Path) -> None:
    terminals = Terminals(Host(tmp_path))
    name = await created(terminals, "echo a | tr a b")
    await ask(terminals, "wait_for_exit", name)
    assert (await ask(terminals, "output", name))["output"] == "b\n"
    await terminals.close()


async def test_only_the_end_of_a_long_output_is_kept_and_that_is_said(tmp_path: Path) -> None:
    terminals = Terminals(Host(tmp_path))
    name = await created(terminals, "printf '%0100d' 7", outputByteLimit=10)
    await ask(terminals, "wait_for_exit", name)
    assert await ask(terminals, "output", name) == {
        "output": "0000000007",
        "truncated": True,
        "exitStatus": {"exitCode": 0, "signal": None},
    }
    await terminals.close()


async def test_a_running_command_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    terminals = Terminals(Host(tmp_path))
    name = await created(terminals, "sleep 600 & sleep 600")
    assert "exitStatus" not in await ask(terminals, "output", name)
    await ask(terminals, "kill", name)
    assert (await ask(terminals, "output", name))["exitStatus"]["signal"] is not None
    await terminals.close()


async def test_what_a_turn_runs_ends_when_it_is_called_off_and_what_an_earlier_one_left_does_not(
    tmp_path: Path,
) -> None:
    terminals = Terminals(Host(tmp_path))
    try:
        earlier = await created(terminals, "exec sleep 1000")
        terminals.begin()
        running = await created(terminals, "sleep 1000; true")
        await terminals.stop()
        assert await ask(terminals, "wait_for_exit", running) == {"exitCode": None, "signal": "15"}
        late = await created(terminals, "exec sleep 1000")
        assert await ask(terminals, "wait_for_exit", late) == {"exitCode": None, "signal": "15"}
        assert "exitStatus" not in await ask(terminals, "output", earlier)
    finally:
        await terminals.close()


async def test_output_is_told_as_it_comes_from_the_moment_somebody_knows_whose_it_is(tmp_path: Path) -> None:
    terminals = Terminals(Host(tmp_path))
    name = await created(terminals, "echo one; until [ -e go ]; do sleep 0.01; done; echo two")
    said: list[str] = []
    terminal = terminals.find(name)
    assert terminal is not None
    async with asyncio.timeout(60):
        while not terminal.output.content:
            await asyncio.sleep(0.01)
        terminal.attach(said.append)
        terminal.attach(print)
        (tmp_path / "go").touch()
        await ask(terminals, "wait_for_exit", name)
    assert "".join(said) == "one\ntwo\n"
    await terminals.close()


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"command": ""},
        {"command": "ls", "args": "x"},
        {"command": "ls", "args": [3]},
        {"command": "ls", "cwd": "/"},
        {"command": "/no/such/program", "args": ["x"]},
    ],
)
async def test_what_cannot_be_run_is_refused(tmp_path: Path, params: dict[str, Any]) -> None:
    with pytest.raises(Fault):
        await Terminals(Host(tmp_path)).answer("terminal/create", params)


async def test_a_command_that_is_not_allowed_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(Fault):
        await created(Terminals(Host(tmp_path, denies=True)), "touch made")
    assert not (tmp_path / "made").exists()


async def test_a_method_nobody_knows_is_refused(tmp_path: Path) -> None:
    terminals = Terminals(Host(tmp_path))
    name = await created(terminals, "true")
    with pytest.raises(Fault, match="unknown method"):
        await ask(terminals, "resize", name)
    await terminals.close()


async def test_a_command_runs_where_it_may_and_not_beside_it(tmp_path: Path) -> None:
    (tmp_path / "w" / "in").mkdir(parents=True)
    (tmp_path / "more").mkdir()
    host = Host(tmp_path / "w")
    host.spec = msgspec.structs.replace(host.spec, add_dirs=(str(tmp_path / "more"),), env={"MINE": "m"})
    terminals = Terminals(host)
    for cwd, where in (
        ("in", tmp_path / "w" / "in"),
        (str(tmp_path / "more"), tmp_path / "more"),
        (None, tmp_path / "w"),
    ):
        name = await created(terminals, 'pwd; echo "$MINE$YOURS"', cwd=cwd, env=[{"name": "YOURS", "value": "y"}])
        await ask(terminals, "wait_for_exit", name)
        assert (await ask(terminals, "output", name))["output"] == f"{where}\nmy\n"
    with pytest.raises(Fault, match="is outside of the workspace") as outside:
        await created(terminals, "ls", cwd="..")
    assert outside.value.code == -32602 and len(host.used) == 3
    assert host.used[0].args == {"command": host.used[0].command} and host.used[0].kind == "execute"
    await terminals.close()
    assert terminals.find("terminal-1") is not None and terminals.find("terminal-4") is None
    with pytest.raises(Fault) as gone:
        await ask(terminals, "kill", "terminal-1")
    assert gone.value.code == -32002


async def test_a_limit_that_is_none_or_too_large_is_ours(tmp_path: Path) -> None:
    terminals = Terminals(Host(tmp_path))
    for limit, kept in ((0, 20), (True, 1), ("9", 20), (1 << 20, 20), (20, 20), (19, 19)):
        name = await created(terminals, "printf '%020d' 7", outputByteLimit=limit)
        await ask(terminals, "wait_for_exit", name)
        told = await ask(terminals, "output", name)
        assert len(told["output"]) == kept and told["truncated"] is (kept < 20), limit
    await terminals.close()
