"""An attempt that goes on from the one before: in the agent's own session where it can, else with a brief."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.fleet.conftest import Start, give, runner_pid, spec, until_state
from tests.fleet.engine.buses import StoringClient
from tests.fleet.repositories import DONE, bash, model, other_agents, read, says, work, write
from tests.waiting import stop
from treadle.errors import ConfigError, StorageError, WorkspaceError
from treadle.fleet import client
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import begun, encode
from treadle.fleet.run import resumption, runs, trees
from treadle.io.files import locked
from treadle.io.process import table
from treadle.sessions.handover import Handover
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Attempt

CUT_OFF = (
    says("I go on.", read("b.txt"), write("b.txt", "whole"), when="You were interrupted", turn=2),
    says("I start over.", write("c.txt", "brief"), when="This was begun before", turn=1),
    says("never said", when="half|whole|brief|[Ww]rote|[Cc]reated", turn=2, delay=120),
    says("I begin.", write("half.txt", "half"), turn=1),
    DONE,
)


async def until_written(order: Spec, name: str, attempt: int = 1) -> None:
    """Until the agent has written a file, and a checkpoint of that was kept."""
    place = Path(runs.directory(order.id, attempt)) / "work" / name
    async with asyncio.timeout(60):
        while not place.exists():
            await asyncio.sleep(0.02)


def order_key(order: str) -> bytes:
    return places.of_order(places.session_key(), order)


async def until_kept(bus: Bus, order: Spec, attempt: int = 1) -> resumption.Checkpoint:
    async with asyncio.timeout(60):
        while True:
            kept = await resumption.fetch(bus, "n1", order.id, attempt, order_key(order.id))
            if kept is not None and kept.session and kept.files and kept.commit != kept.start:
                return kept
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_a_killed_runner_s_session_and_files_are_gone_on_with(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node()
    order = work(repository, model(tmp_path, *CUT_OFF))
    await give(bus, order)
    await until_written(order, "half.txt")
    os.kill(await runner_pid(order.id), signal.SIGKILL)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done" and [one.resumed for one in ended.attempts] == ["", "session"], ended.why
    assert ended.result["changed"] == ["b.txt", "half.txt"]


@pytest.mark.slow
async def test_while_the_old_runner_may_wake_the_session_goes_on_elsewhere_from_its_checkpoint(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node()
    order = work(repository, model(tmp_path, *CUT_OFF))
    await give(bus, order)
    await until_kept(bus, order)
    stale = await runner_pid(order.id)
    stop(stale)
    try:
        ended = await client.wait(bus, order.id, 90)
    finally:
        os.kill(stale, signal.SIGCONT)
    assert ended.state == "done" and [one.resumed for one in ended.attempts] == ["", "session"], ended.why
    assert ended.result["changed"] == ["b.txt", "half.txt"]
    assert os.path.isdir(os.path.join(runs.directory(order.id, 1), "work"))


@pytest.mark.long
async def test_an_agent_that_lost_its_session_starts_over_with_the_files_and_a_brief(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    node = await start_node()
    order = work(repository, model(tmp_path, *CUT_OFF))
    await give(bus, order)
    kept = await until_kept(bus, order)
    pid = await runner_pid(order.id)
    node.settings = type(node.settings)(name="n1", slots=0)
    stop(pid)  # so that nothing more is written to the session that we take away
    sessions = Path(os.environ["TREADLE_HOME"]) / "sessions" / kept.session
    (sessions / "history.jsonl").unlink()
    sessions.rmdir() if not list(sessions.iterdir()) else [each.unlink() for each in sessions.iterdir()]
    os.kill(pid, signal.SIGKILL)
    node.settings = type(node.settings)(name="n1", slots=1)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done" and ended.attempts[1].resumed == "brief", ended.why
    assert ended.result["changed"] == ["c.txt", "half.txt"]


@pytest.mark.slow
async def test_work_that_is_sent_back_goes_on_in_the_session_that_did_it(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node()
    replies = [
        says("Gladly.", write("c.txt", "three"), when="(?s)A reviewer has looked.*also write c.txt", turn=3),
        says("I write.", read("a.txt"), write("a.txt", "two"), turn=1),
        DONE,
    ]
    order = work(repository, model(tmp_path, *replies))
    await give(bus, order)
    first = await client.wait(bus, order.id, 90)
    again = await client.send_back(bus, order.id, "also write c.txt", by="ana")
    second = await client.wait(bus, again.id, 90)
    assert second.state == "done" and second.attempts[0].resumed == "session", second
    assert second.result["base"] == first.result["commit"] and second.result["changed"] == ["c.txt"]
    assert (await client.get_spec(bus, again.id)).comments == "also write c.txt"
    with pytest.raises(ConfigError):
        await client.send_back(bus, order.id, " ")


def asks(goes_on: str) -> tuple[dict[str, Any], ...]:
    """It asks, and does it when it is told, in these words, how to go on."""
    return (
        says("Then I do it.", bash("install /dev/null asked.txt"), when=goes_on),
        says("May I?", bash("install /dev/null asked.txt"), when="do it", turn=1),
        DONE,
    )


async def test_a_parked_order_holds_no_slot_and_goes_on_with_the_answer(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node(slots=1)
    order = work(repository, model(tmp_path, *asks("It was given")), park=0.0, claims=("asked.txt",))
    other, clash = spec(), spec(root=str(repository), claims=("asked.txt",))
    await give(bus, order)
    async with asyncio.timeout(60):
        while not (await client.get_order(bus, order.id)).parked:
            await asyncio.sleep(0.02)
    await give(bus, other, clash)
    assert (await client.wait(bus, other.id, 60)).state == "done"
    held = await client.why(bus, clash.id)
    assert held.waits is not None and held.waits.holder == order.id
    parked = await client.why(bus, order.id)
    assert parked.waits is not None and "no runner meanwhile" in parked.waits.text
    (ask,) = await client.approvals(bus)
    assert ask.command == "install /dev/null asked.txt"
    await client.answer(bus, order.id, "allow", by="ana")
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done" and "asked.txt" in ended.result["changed"], ended.why
    assert [(one.outcome, one.resumed) for one in ended.attempts] == [("parked", ""), ("done", "session")]
    receipt = await client.get_receipt(bus, order.id)
    assert receipt is not None and [one["by"] for one in receipt.approvals] == ["ana"]
    assert (await client.wait(bus, clash.id, 60)).state == "done"


async def test_a_question_outlives_the_runner_that_asked_it(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node()
    order = work(repository, model(tmp_path, *asks("You were interrupted")))
    await give(bus, order)
    await until_state(bus, order.id, "asking")
    os.kill(await runner_pid(order.id), signal.SIGKILL)
    await client.answer(bus, order.id, "allow", by="ana", number=1)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done" and ended.asks == 1 and "asked.txt" in ended.result["changed"], ended


# Without a fleet: what is said to the agent, and what it goes on from...


def attempt_of(given: Spec, *earlier: Attempt, **more: Any) -> Any:
    """As much of an attempt as is looked at."""
    fields = {"can_resume": True, "can_fork": True, "bus": None, "locks": contextlib.ExitStack(), **more}
    return SimpleNamespace(spec=given, earlier=[*earlier], **fields)


LOST = Attempt(number=1, node="n1", placed=1.0, outcome="lost", why="gone")
UNVERIFIED = Attempt(number=1, node="n1", placed=1.0, outcome="failed", why="bad", fault="verify", output=" 1 failed\n")
TREE = trees.WorkTree(root="/new")
ENDED = "attempt 1 on n1: lost (gone)"
CHECKED = "The work was checked with `make test`, which failed."
FIX = "Fix what is wrong, so that the check passes."


LEFT = Handover(agent="native", task=("do it",), done=("ran ls", "read a"), messages=("I look.",))


@pytest.mark.parametrize(
    ("earlier", "fields", "before", "said"),
    [
        ((), {}, {}, ["do it", "brief"]),
        (
            (LOST,),
            {},
            {"restored": True, "handover": LEFT},
            [
                "do it",
                "brief",
                f"This was begun before and not finished: {ENDED}. The files are as that left them.",
                *msgspec.structs.replace(LEFT, task=()).prompt().split("\n\n"),
            ],
        ),
        (
            (UNVERIFIED,),
            {},
            {"restored": True},
            [
                "do it",
                "brief",
                f"This was done before. The files are as that left them. {CHECKED} It printed, the last of it:",
                "1 failed",
                FIX,
            ],
        ),
        (
            (),
            {"comments": "It is red.", "by": "train", "base": "c"},
            {},
            ["do it", "brief", "This was done before, and its files are as that left them. It is red."],
        ),
    ],
)
def test_an_agent_without_its_session_is_told_the_task_and_what_became_of_it(
    earlier: tuple[Attempt, ...], fields: dict[str, Any], before: dict[str, Any], said: list[str]
) -> None:
    attempt = attempt_of(spec("native", verify="make test", **fields), *earlier)
    assert resumption.first_message(attempt, resumption.Before(**before), "brief") == "\n\n".join(said)
    said.remove("brief")
    assert resumption.first_message(attempt, resumption.Before(**before), "") == "\n\n".join(said)


@pytest.mark.parametrize(
    ("earlier", "fields", "before", "said"),
    [
        (
            (LOST,),
            {"comments": "say more"},
            {"tree": TREE, "cwd": "/old"},
            [
                f"You were interrupted and continue now: {ENDED}. The files are as you left them.",
                "You work in /new now; that is what /old was before. Use the new path.",
                "Look at what is done, and do the rest of the task:",
                "do it",
                "A reviewer had said:",
                "say more",
            ],
        ),
        ((), {"comments": "It is red.", "by": "train"}, {"cwd": "/old"}, ["It is red."]),
        (
            (UNVERIFIED,),
            {},
            {"tree": TREE, "cwd": "/old"},
            [
                f"{CHECKED} It printed, the last of it:",
                "1 failed",
                FIX,
                "You work in /new now; that is what /old was before. Use the new path.",
            ],
        ),
    ],
)
def test_an_agent_in_its_own_session_is_told_only_what_is_new(
    earlier: tuple[Attempt, ...], fields: dict[str, Any], before: dict[str, Any], said: list[str]
) -> None:
    attempt = attempt_of(spec("native", verify="make test", **fields), *earlier)
    found = resumption.first_message(attempt, resumption.Before(how="session", **before), "brief")
    assert found == "\n\n".join(said)


def test_a_long_task_is_not_repeated_whole_in_its_session() -> None:
    for length, end in ((resumption.TASK_MAX, "x"), (resumption.TASK_MAX + 1, "x ...")):
        attempt = attempt_of(msgspec.structs.replace(spec("native"), task="x" * length), LOST)
        said = resumption.first_message(attempt, resumption.Before(how="session"), "")
        assert said.endswith("\n\n" + "x" * (resumption.TASK_MAX - 1) + end)


def test_a_place_is_in_use_while_a_process_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    monkeypatch.setattr(resumption, "SETTLE_SECONDS", 0.0)
    for place, inside in (
        (tmp_path, True),
        (tmp_path / "in", True),
        (tmp_path / "i", False),
        (tmp_path / "out", False),
    ):
        assert resumption._inside(os.getpid(), str(place)) is inside
        assert resumption._is_unused(str(place)) is not inside
    assert not resumption._inside(2**22 + 1, "/")


def prepared(attempt: Any, *fails: Exception) -> list[tuple[Any, ...]]:
    """Have the attempt make its trees in /made; each failure once."""
    calls: list[tuple[Any, ...]] = []
    errors = list(fails)

    def prepare(*given: Any) -> trees.WorkTree:
        calls.append(given)
        if errors:
            raise errors.pop(0)
        return trees.WorkTree(root="/made")

    attempt.prepare = prepare
    return calls


KEPT = resumption.Checkpoint(
    agent="native",
    cwd="/old",
    session="s1",
    start="c0",
    head="c1",
    commit="c2",
    bundle=b"b",
    words="w",
    done=("d",),
    files={"s1/history.jsonl": b"1"},
)


async def from_store(kept: resumption.Checkpoint, *fails: Exception, **more: Any) -> tuple[resumption.Before, Any]:
    attempt = attempt_of(more.pop("spec", spec("native")), **more)
    calls = prepared(attempt, *fails)
    return await resumption._from_store(attempt, kept, "/src"), calls


async def test_what_is_taken_from_the_store_has_the_files_and_the_session_if_both_fit(
    state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = msgspec.structs.replace
    found, calls = await from_store(KEPT)
    left = trees.Left(head="c1", commit="c2", start="c0")
    assert calls == [("/src", "", left, b"b")]
    assert (state_home / "treadle/sessions/s1/history.jsonl").read_bytes() == b"1"
    assert found == resumption.Before(
        how="session",
        session="s1",
        fork=True,
        cwd="/old",
        handover=Handover(agent="native", messages=("w",), done=("d",)),
        restored=True,
        tree=trees.WorkTree(root="/made"),
    )
    for kept, more in (
        (change(KEPT, session=""), {}),
        (change(KEPT, agent="codex"), {}),
        (KEPT, {"can_resume": False}),
    ):
        found, _ = await from_store(kept, **more)
        assert (found.how, found.restored) == ("brief", True)
    elsewhere = spec("native", base="other")
    found, calls = await from_store(KEPT, spec=elsewhere, can_fork=False)
    assert (found.how, found.restored, found.fork) == ("brief", False, False) and calls == [("/src", "", None, b"b")]
    found, _ = await from_store(change(KEPT, commit="c0"), spec=elsewhere)
    assert found.how == "session", "there was nothing that it could miss"
    found, calls = await from_store(change(KEPT, commit="", head=""), spec=spec("native", base="c0"))
    assert (found.how, found.restored) == ("session", False) and calls[0][2] is None
    found, _ = await from_store(KEPT, spec=spec("native", base="other", continues="o"))
    assert found.how == "session", "it knows that others have been at its files"
    found, calls = await from_store(change(KEPT, head=""), spec=spec("native", base="c0"))
    assert found.restored and calls[0][2].head == "c0"
    found, _ = await from_store(change(KEPT, files={}))
    assert (found.how, found.restored) == ("brief", True), "its session cannot be moved"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(state_home / "other"))
    found, _ = await from_store(change(KEPT, agent="claude", files={"s1.jsonl": b"2"}), spec=spec("claude"))
    assert found.how == "session" and (state_home / "other/projects/-made/s1.jsonl").read_bytes() == b"2"


async def test_files_that_cannot_be_restored_are_left_out_and_what_cannot_be_made_at_all_is_told() -> None:
    for error in (WorkspaceError("no such commit"), StorageError("cut off")):
        found, calls = await from_store(KEPT, error)
        assert (found.how, found.restored) == ("brief", False) and calls[1] == ("/src",)
    with pytest.raises(WorkspaceError, match="no directory"):
        await from_store(msgspec.structs.replace(KEPT, commit=""), WorkspaceError("no directory"))


async def here(state_home: Path, tmp_path: Path, state: resumption.RunState, **more: Any) -> tuple[Any, Any]:
    """What an attempt goes on from that ran on this machine."""
    directory = Path(runs.directory("o", 1))
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "state.json").write_bytes(msgspec.json.encode(state))
    attempt = attempt_of(spec("native", id=more.pop("id", "o")), LOST, **more)
    calls = prepared(attempt)
    with attempt.locks:
        return await resumption._from_this_machine(attempt, "o", 1, "/src"), calls


async def test_what_is_on_this_machine_is_taken_over_where_it_is(
    state_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumption, "SETTLE_SECONDS", 0.0)
    top, store = tmp_path / "work", tmp_path / "store"
    top.mkdir()
    store.mkdir()
    tree = trees.WorkTree(root=str(top), top=str(top), store=str(store))
    state = resumption.RunState(agent="native", tree=tree, session="s1")
    change = msgspec.structs.replace
    found, calls = await here(state_home, tmp_path, state)
    assert found == resumption.Before(how="session", session="s1", cwd=str(top), restored=True, tree=tree)
    assert calls == [] and not found.fork
    for other, more in ((change(state, session=""), {}), (state, {"can_resume": False})):
        found, _ = await here(state_home, tmp_path, other, **more)
        assert found.how == "brief" and found.restored
    found, calls = await here(state_home, tmp_path, state, id="another")
    assert not found.restored and calls == [("/src", str(top))] and found.cwd == "/made"
    in_place = change(state, tree=trees.WorkTree(root=str(top)))
    found, calls = await here(state_home, tmp_path, in_place, id="another")
    assert found.restored and calls == [] and found.cwd == str(top)
    found, _ = await here(state_home, tmp_path, change(state, agent="codex"))
    assert found.how == "brief" and found.restored, "another agent goes on in the same files"
    assert (await here(state_home, tmp_path, change(state, agent="codex"), id="another"))[0] is None
    with locked(runs.lock_of(runs.directory("o", 1)), 0):
        assert (await here(state_home, tmp_path, state))[0] is None, "its runner may wake"
    monkeypatch.chdir(top)
    assert (await here(state_home, tmp_path, state))[0] is None, "something works there"
    monkeypatch.chdir(tmp_path)
    for gone in (store, top):
        gone.rmdir()
        found, calls = await here(state_home, tmp_path, state)
        assert not found.restored and calls == [("/src", str(top))]
    attempt = attempt_of(spec("native", id="new"), LOST)
    assert await resumption._from_this_machine(attempt, "never", 1, "/src") is None


async def test_the_latest_attempt_is_gone_on_from_first_and_then_that_of_the_order_before() -> None:
    there = StoringClient()
    attempts = tuple(Attempt(number=number, node=f"m{number}", placed=1.0) for number in (1, 2, 3))
    order = msgspec.structs.replace(begun(spec(id="before"), 1.0), attempts=attempts, attempt=2)
    await there.bus().put("order.before", encode(order))
    second = Attempt(number=2, node="n2", placed=1.0)
    attempt = attempt_of(spec("native", id="o", continues="before"), LOST, second, bus=there.bus())
    assert await resumption._earlier(attempt) == [("o", 2, "n2"), ("o", 1, "n1"), ("before", 2, "m2")]
    attempt.spec = spec("native", id="o", continues="gone")
    assert await resumption._earlier(attempt) == [("o", 2, "n2"), ("o", 1, "n1")]
    attempt.spec = spec("native", id="o")
    assert len(await resumption._earlier(attempt)) == 2


FIRST = says("I keep the names because of users.", write("half.txt"), usage={"input": 100, "output": 10})
REST = says("", write("rest.txt"), when="keep the names because of users", usage={"input": 50, "output": 5})


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["asked", "started", "begun"])
async def test_a_runner_that_is_killed_during_a_change_loses_nothing(
    moment: str, bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    """The first as the change is asked for, the next as it starts, and as it has begun to write."""
    second = "second"
    other_agents(second=model(tmp_path, REST, says("The rest is done.", when="rest", delay=1.0), name=second))
    await start_node()
    begins = model(tmp_path, FIRST, says("never said", delay=120))
    order = work(repository, begins, mode="yolo", attempts=3)
    await give(bus, order)
    await until_written(order, "half.txt")
    await until_kept(bus, order)
    first = await runner_pid(order.id)
    await client.hand(bus, order.id, second)
    if moment == "asked":
        os.kill(first, signal.SIGKILL)
    else:
        if moment == "begun":
            await until_written(order, "rest.txt")  # it works where the first did
        os.kill(await runner_pid(order.id, 2), signal.SIGKILL)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done" and ended.result["changed"] == ["half.txt", "rest.txt"], ended.why
    assert [one.to for one in ended.handed] == [second] and ended.attempts[-1].agent == second
    assert table.look(first) is None
