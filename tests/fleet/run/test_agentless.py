"""An order without an agent is judged by its check, like any other."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fleet.conftest import Start, give, spec, until_state
from tests.fleet.repositories import git
from treadle.errors import TimedOut
from treadle.events import AnyEvent
from treadle.fleet import client, results
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run import execute
from treadle.fleet.run.attempt import OUTPUT_MAX
from treadle.receipts.trace import Check


@pytest.mark.slow
async def test_a_check_is_an_order_and_its_setup_can_do_work(bus: Bus, start_node: Start, repository: Path) -> None:
    await start_node()
    base = git(repository, "rev-parse", "HEAD")
    at = {"root": str(repository), "base": base}
    green = spec(verify="grep one a.txt", **at)
    red = spec(verify="echo no two in it; grep two a.txt", **at)
    works = spec(setup="sed -i s/one/two/ a.txt", verify="grep two a.txt", **at)
    broken = spec(setup="echo no such tool >&2; exit 3", verify="true", **at)
    await give(bus, green, red, works, broken)
    ended = [await client.wait(bus, each.id, 90) for each in (green, red, works, broken)]
    assert [each.state for each in ended] == ["done", "failed", "done", "failed"]
    assert ended[0].result["verified"] is True and "commit" not in ended[0].result
    assert ended[1].result["verified"] is False and "no two in it" in ended[1].result["says"]
    assert "was not verified: echo" in ended[1].why and "no such tool" in ended[3].why
    assert ended[2].result["changed"] == ["a.txt"] and (repository / "a.txt").read_text() == "one\n"
    assert b"+two" in await results.diff(bus, works.id)


async def test_a_check_that_is_cancelled_ends_at_once(bus: Bus, start_node: Start, repository: Path) -> None:
    await start_node()
    base = git(repository, "rev-parse", "HEAD")
    (name,) = await give(bus, spec(root=str(repository), base=base, verify="sleep 1000"))
    await until_state(bus, name, "running")
    await client.cancel(bus, name)
    assert (await client.wait(bus, name, 60)).state == "cancelled"


class Commands:
    """An attempt whose commands are told here."""

    def __init__(self, check: Check | None = None, problem: str = "", restored: bool = False, **fields: Any) -> None:
        self.spec: Any = spec(**fields)
        self.attempt: Any = SimpleNamespace(spec=self.spec, stopping=asyncio.Event(), stopped=None)
        self.before: Any = SimpleNamespace(restored=restored)
        self.result: dict[str, Any] = {"commit": "c"}
        self.check, self.problem, self.called = check, problem, list[str]()

    async def prepare(self) -> None:
        self.called.append("prepare")

    async def set_up(self) -> None:
        self.called.append("setup")

    async def run_check(self) -> Check:
        self.called.append(f"verify: {self.spec.verify}")
        if self.check is None:
            self.attempt.stopping.set()
            await asyncio.Event().wait()
        assert self.check is not None
        return self.check

    async def keep_finished(self, result: dict[str, Any]) -> str:
        self.called.append(f"keep {result['verified']}")
        return self.problem

    async def take(self, event: AnyEvent) -> None:
        self.called.append("event")


def checked(ok: bool) -> Check:
    return Check(command="make", exit_code=int(not ok), output_tail=f"\n{'x' * OUTPUT_MAX}end\n")


async def test_each_way_of_an_order_without_an_agent_has_its_end() -> None:
    nothing = Commands(agent="null:0")
    assert (await execute.run(nothing)).outcome == "done" and nothing.called == ["event"]
    work = Commands(setup="make it")
    ended = await execute.run(work)
    assert (ended.outcome, ended.result) == ("done", {"commit": "c"}) and work.called == [
        "prepare",
        "setup",
        "keep None",
    ]
    resumed = Commands(setup="make it", restored=True)
    await execute.run(resumed)
    assert resumed.called == ["prepare", "keep None"], "what was set up before is there"
    green = Commands(checked(True), verify="make")
    assert (await execute.run(green)).outcome == "done" and green.called == ["prepare", "verify: make", "keep True"]
    red = await execute.run(Commands(checked(False), verify="make"))
    assert (red.outcome, red.reason, red.fault) == ("failed", "verify_failed", "verify") and "make failed" in red.why
    assert red.output == "x" * (OUTPUT_MAX - 3) + "end" and red.result == {"commit": "c"}
    full = await execute.run(Commands(checked(True), problem="disk full", verify="make"))
    assert (full.outcome, full.why, full.reason, full.fault) == ("failed", "disk full", "storage_error", "ours")
    stopped = Commands(verify="make")
    assert (await asyncio.wait_for(execute.run(stopped), 60)).outcome == "cancelled"
    assert "keep" not in "".join(stopped.called)
    early = Commands(checked(True), setup="make it", verify="make")
    early.attempt.stopping.set()
    early.attempt.stopped = TimedOut("too long")
    assert (await execute.run(early)).outcome == "failed" and early.called[-1] in ("prepare", "setup")
