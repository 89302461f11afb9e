"""Questions of agents: stored, answered once, by a person, a rule or the deadline."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fleet.conftest import Start, give
from tests.fleet.repositories import edits, work
from treadle.events import Asked
from treadle.fleet import client
from treadle.fleet.engine import tasks
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.fleet.run.questions import Questions
from treadle.fleet.run.questions import _diff as shown_diff
from treadle.session import Answer
from treadle.wire.fleet.messages import RunReport
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import AgentQuestion, AnswerRecord, AskRecord, Order, TakenRecord


@pytest.mark.slow
async def test_the_deadline_and_rules_answer_where_nobody_does(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node()
    model = edits(tmp_path, "x", "a.txt", "two", "install /dev/null asked.txt")
    late = work(repository, model, answer_seconds=0.5)
    ruled = work(repository, model, rules=("allow Bash(install *)",))
    await give(bus, late, ruled)
    ended = [await client.wait(bus, each.id, 90) for each in (late, ruled)]
    assert "asked.txt" not in ended[0].result["changed"] and "asked.txt" in ended[1].result["changed"]
    receipts = [await client.get_receipt(bus, each.id) for each in (late, ruled)]
    assert receipts[0] is not None and receipts[0].approvals[0]["by"] == "deadline"
    assert receipts[1] is not None and receipts[1].approvals[0]["by"] == "rule allow"


class Asking:
    """The questions of an agent whose attempt is told here; reports are noted."""

    def __init__(self, bus: Bus, root: Path, open_ask: str = "", **fields: Any) -> None:
        self.reports: list[tuple[str, dict[str, Any]]] = []
        self.answers: list[tuple[str, Answer]] = []
        self.parked = asyncio.Event()
        order = SimpleNamespace(open_ask=open_ask, attempt=1, node="n1")
        self.attempt: Any = SimpleNamespace(
            spec=Spec(id="o", task="t", **fields),
            order=order,
            bus=bus,
            root=str(root),
            report=self.report,
            can_resume=True,
        )
        self.questions = Questions(self.attempt, self.answer, self.park)

    async def report(self, kind: type[RunReport], **content: Any) -> None:
        self.reports.append((kind.KIND, content))
        if kind.KIND == "asked":
            self.questions.numbered(content["number"], "o.1")

    async def answer(self, request: str, answer: Answer) -> None:
        self.answers.append((request, answer))

    async def park(self) -> None:
        self.parked.set()

    async def answered(self, count: int = 1) -> Answer:
        async with asyncio.timeout(60):
            while len(self.answers) < count:
                await asyncio.sleep(0.01)
        return self.answers[-1][1]


def asked(**fields: Any) -> Asked:
    return Asked(
        **{"request": "r1", "kind": "permission", "text": "May it?", "name": "bash", "command": "make", **fields}
    )


async def test_a_question_is_reported_with_all_of_it_and_its_answer_counts_once(bus: Bus, tmp_path: Path) -> None:
    one = Asking(bus, tmp_path, claims=("a/**",), mode="auto-edit")
    one.questions.ask(asked(confined=f"writes to {tmp_path.resolve()}", options=("yes",), args={"x": 1}))
    async with asyncio.timeout(60):
        while not one.reports:
            await asyncio.sleep(0.01)
    (kind, content), question = one.reports[0], one.reports[0][1]["ask"]
    assert (kind, content["number"], content["again"], content["nth"]) == ("asked", "r1", "", 1)
    assert (question.command, question.tool, question.text, question.args) == ("make", "bash", "May it?", {"x": 1})
    assert (question.confined, question.claims, question.mode, question.diff) == (
        "writes to its worktree",
        ("a/**",),
        "auto-edit",
        "",
    )
    assert question.options == ["yes"] and list(one.questions.open) == ["r1"]
    gone = AnswerRecord(decision="allow", by="ben", withdrawn=1.0)
    await bus.put("answer.o.1", encode(gone))
    await bus.put("answer.o.1", encode(AnswerRecord(decision="allow", by="ana", text="go", scope="session")))
    answer = await one.answered()
    assert (answer.decision, answer.by, answer.text, answer.scope) == ("allow", "ana", "go", "session")
    assert one.reports[1] == ("resumed", {"number": "r1", "nth": 1}) and one.questions.open == {}
    (given,) = one.questions.given
    assert given.pop("at") > 1e9
    noted = {"text": "May it?", "tool": "bash", "command": "make", "decision": "allow", "by": "ana", "said": "go"}
    assert given == noted and len(await bus.keys("taken.o.1.*")) == 1
    one.questions.close()


async def test_an_answer_that_was_withdrawn_just_before_is_not_taken(bus: Bus, tmp_path: Path) -> None:
    one = Asking(bus, tmp_path)
    first = await bus.put("answer.o.1", encode(AnswerRecord(decision="allow", by="ben")))
    await bus.put(f"taken.o.1.{first}", encode(TakenRecord(withdrawn=True)))
    one.questions.ask(asked())
    async with asyncio.timeout(60):
        while not one.reports:
            await asyncio.sleep(0.01)
    second = await bus.put("answer.o.1", encode(AnswerRecord(decision="deny", by="ana")))
    assert (await one.answered()).by == "ana"
    assert await one.questions._take("o.1", second) and not await one.questions._take("o.1", first)


@pytest.mark.parametrize(
    ("rules", "decision", "by"),
    [
        (("allow Bash(make)",), "allow", "rule allow"),
        (("allow Bash(make)", "deny Bash"), "deny", "rule deny"),
        (("deny Bash(rm *)", "allow Bash(make)"), "allow", "rule allow"),
    ],
)
async def test_a_rule_answers_at_once_and_denials_come_first(
    bus: Bus, tmp_path: Path, rules: tuple[str, ...], decision: str, by: str
) -> None:
    one = Asking(bus, tmp_path, rules=rules)
    one.questions.ask(asked())
    answer = await one.answered()
    assert (answer.decision, answer.by, one.reports) == (decision, by, []) and one.questions.given[0]["by"] == by
    assert Asking(bus, tmp_path, rules=("allow Bash(other)",)).questions._by_rule(asked()) is None
    assert Asking(bus, tmp_path).questions._by_rule(asked()) is None


async def test_the_question_of_an_earlier_attempt_is_asked_again_only_if_it_is_the_same(
    bus: Bus, tmp_path: Path
) -> None:
    before = AskRecord(
        **{"kind": "permission", "text": "May it?", "tool": "bash", "command": "make", "order": "o", "number": 7},
        **{"asked_at": 1.0, "deadline": 2.0, "default": "deny"},  # type: ignore[arg-type]
    )
    await bus.put("ask.o.7", encode(before))
    same, other = (Asking(bus, tmp_path, "o.7") for _ in range(2))
    assert await same.questions.before() == ""
    await bus.put("answer.o.7", encode(AnswerRecord(decision="allow", by="ana", text="go")))
    told = "You had asked for permission: make. It was given with the words: go. Do it now if it is still needed."
    assert await same.questions.before() == told
    same.questions.ask(asked())
    assert (await same.answered()).by == "ana" and same.reports[0][1]["again"] == "o.7"
    other.questions.ask(asked(command="make other"))
    await bus.put("answer.o.1", encode(AnswerRecord(decision="deny", by="ben")))
    assert (await other.answered()).by == "ben" and other.reports[0][1]["again"] == ""
    await bus.put("answer.o.7", encode(AnswerRecord(decision="deny", by="ana")))
    assert await Asking(bus, tmp_path, "o.7").questions.before() == (
        "You had asked for permission: make. It was refused. Do without it."
    )
    await bus.put("answer.o.7", encode(AnswerRecord(decision="deny", by="ana", withdrawn=1.0)))
    assert await Asking(bus, tmp_path, "o.7").questions.before() == await Asking(bus, tmp_path).questions.before() == ""
    forgets = Asking(bus, tmp_path, "o.7")
    await forgets.questions.forget()
    await forgets.questions.forget()
    assert forgets.reports == [("resumed", {"number": "before"})]


async def test_what_is_settled_for_another_is_noted_and_taken_back_when_it_is_over(bus: Bus, tmp_path: Path) -> None:
    one = Asking(bus, tmp_path)
    question = AgentQuestion(request="terminal 1", kind="question", headline="Which?", tool="terminal")
    waiting = asyncio.create_task(one.questions.settle(question))
    async with asyncio.timeout(60):
        while not one.reports:
            await asyncio.sleep(0.01)
    await tasks.end([waiting])
    assert one.reports[-1] == ("resumed", {"number": "terminal 1", "nth": 1}) and one.questions.given == []
    await bus.put("answer.o.1", encode(AnswerRecord(decision="allow", by="ana")))
    assert (await one.questions.settle(question)).by == "ana"
    assert (one.questions.given[0]["text"], one.questions.given[0]["tool"]) == ("Which?", "terminal")


async def test_a_number_that_was_lost_on_the_way_is_looked_up(bus: Bus, tmp_path: Path) -> None:
    one = Asking(bus, tmp_path)
    number: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    order = Order(id="o", state="asking", changed=1.0, open_ask="o.4", attempt=1)
    await bus.put("order.o", encode(replace(order, attempt=2)))
    looking = asyncio.create_task(one.questions._key(number))
    await asyncio.wait({looking}, timeout=1.2)
    assert not looking.done(), "that is another attempt's"
    await bus.put("order.o", encode(order))
    assert await asyncio.wait_for(looking, 60) == "o.4"


def test_a_change_inside_the_worktree_is_shown_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    args = {"file_path": "a.txt", "content": "two\n"}
    edit = asked(command=None, name="write_file", tool_kind="edit", paths=("a.txt",), args=args)
    assert "+two" in shown_diff(edit, str(tmp_path))
    for other in (replace(edit, command="make"), replace(edit, paths=()), replace(edit, paths=("a.txt", "../b"))):
        assert shown_diff(other, str(tmp_path)) == ""
