"""Claims of other orders bind what an order writes; what two change is told to both."""

from pathlib import Path

import pytest

from tests.fleet.conftest import Start, give, spec, until_state
from tests.fleet.repositories import DONE, SLOW, model, read, says, work, write
from treadle.errors import Denied
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run import trees
from treadle.fleet.run.execute import Claimed
from treadle.session import Access, Decision, Guards


@pytest.fixture
def claimed(repository: Path, tmp_path: Path) -> Claimed:
    tree = trees.prepare(work(repository, ""), str(repository), str(tmp_path / "work"), str(tmp_path / "store"))
    made = Claimed(tree.top, tree.root, trees.WorkTaker(tree, ()).dirty)
    made.learn({"o2": ["src/**", "b.txt"]})
    return made


def writing(*paths: str) -> Access:
    return Access(tool="write_file", kind="write", paths=paths)


def test_a_write_into_what_another_holds_is_refused(claimed: Claimed) -> None:
    judge = claimed.guards(Guards()).judge
    assert judge is not None
    assert judge(writing(f"{claimed.top}/a.txt")).verdict == "allow"
    refused = judge(writing(f"{claimed.top}/src/x.py"))
    assert refused.verdict == "deny" and "claimed by order o2" in refused.reason
    assert judge(Access(tool="read", kind="read", paths=(f"{claimed.top}/src/x.py",))).verdict == "allow"
    claimed.learn({})
    assert judge(writing(f"{claimed.top}/src/x.py")).verdict == "allow"


def test_the_session_s_own_guard_is_asked_first(claimed: Claimed) -> None:
    judge = claimed.guards(Guards(judge=lambda access: Decision(verdict="deny", reason="policy"))).judge
    assert judge is not None and judge(writing(f"{claimed.top}/a.txt")).reason == "policy"


def test_what_a_command_wrote_there_is_found(claimed: Claimed) -> None:
    watching = claimed.guards(Guards()).watching
    assert watching is not None
    check = watching()
    Path(claimed.top, "a.txt").write_text("mine\n")
    check()
    Path(claimed.top, "b.txt").write_text("not mine\n")
    with pytest.raises(Denied, match="b.txt is claimed by order o2"):
        check()


async def test_an_order_without_claims_cannot_write_what_a_running_one_holds(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node("n1", slots=1, labels=("first",))
    await start_node("n2", slots=1, labels=("second",))
    holder = spec(SLOW, root=str(repository), claims=("src/**",), labels=("first",))
    await give(bus, holder)
    await until_state(bus, holder.id, "running")
    writes = says("I write.", write("src/x.py"), read("a.txt"), write("a.txt"), turn=1)
    order = work(repository, model(tmp_path, writes, DONE), labels=("second",))
    await give(bus, order)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done" and (ended.result["changed"], ended.result["denied"]) == (["a.txt"], 1), ended
    assert (await client.get_order(bus, holder.id)).state == "running"
    denied = [each.event for each in [one async for one in client.events(bus, order.id)] if each.event]
    assert any("claimed by order" in str(event) for event in denied)


def test_what_is_outside_of_the_tree_is_no_claim_and_a_denial_or_a_read_is_left_as_it_is(claimed: Claimed) -> None:
    allowed = Decision(verdict="allow", by="policy", reason="said before")
    judge = claimed.guards(Guards(judge=lambda access: allowed)).judge
    assert judge is not None and judge(writing("/elsewhere/src/x.py", "a.txt")) is allowed
    denied = judge(writing("src/x.py", "src/../b.txt"))
    assert (denied.verdict, denied.by) == ("deny", "claim")
    assert denied.reason == "src/x.py, b.txt is claimed by order o2"
    assert judge(writing(f"{claimed.top}-other/src/x.py")) is allowed
    assert judge(Access(tool="read", kind="read", paths=("src/x.py",))) is allowed
    own = lambda: lambda: None  # noqa: E731
    assert claimed.guards(Guards(watching=own)).watching is own
    assert claimed.holders(["b.txt", "c.txt"]) == {"o2": ["b.txt"]}


def test_what_was_there_before_the_command_is_not_its_doing_and_nothing_is_looked_at_without_claims(
    claimed: Claimed,
) -> None:
    Path(claimed.top, "b.txt").write_text("before\n")
    watching = claimed.guards(Guards()).watching
    assert watching is not None
    watching()()
    looked: list[int] = []
    free = Claimed("/w", "/w", lambda: {str(looked.append(1))})
    watching = free.guards(Guards()).watching
    assert watching is not None
    watching()()
    assert looked == []
    claimed.learn({"o2": ["**"]})
    watching = claimed.guards(Guards()).watching
    assert watching is not None
    check = watching()
    for number in range(7):
        Path(claimed.top, f"f{number}").write_text("x")
    with pytest.raises(Denied, match="the command changed forbidden files: f0, f1, f2, f3, f4 is claimed") as refused:
        check()
    assert refused.value.hint == "put it back"
