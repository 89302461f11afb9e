"""Goals on a real fleet: placed, reviewed, landed and judged, once, whatever is killed on the way."""

import asyncio
import json
import os
import sys
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.fleet.conftest import Start, give, spec
from tests.fleet.engine.buses import StoringClient
from tests.fleet.engine.buses import pauses as pauses
from tests.fleet.repositories import git
from tests.goals.running import answering, carried, over, replayed
from tests.tiers import spread
from treadle.coordination.ledger import Blackboard
from treadle.coordination.planning import Planning
from treadle.errors import WorkspaceError
from treadle.fleet import client
from treadle.fleet.engine import tasks
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.goals import briefing, commands, foreman, store
from treadle.goals.deciding import CancelOpen, Do, GoalMove, GoalSeen, OrderSeen, again_id, moves
from treadle.goals.foreman import GoalDrive
from treadle.goals.observation import look
from treadle.landing import queue, train
from treadle.wire.fleet.records import Delay, Order, Used
from treadle.wire.fleet.train import LeftOut
from treadle.wire.goal.plan import GoalPlan, PlannedOrder
from treadle.wire.goal.records import (
    AnyGoalEvent,
    DoneChecked,
    DoneSeen,
    GoalJudged,
    GoalMessage,
    GoalOver,
    GoalPaused,
    GoalRecord,
    GoalStep,
    JudgePlaced,
    QuestionAnswered,
    QuestionPut,
    ReviewGiven,
    ReviewPlaced,
    StepBoarded,
    StepEnded,
    StepPlaced,
)


def script(place: Path, name: str, *replies: str) -> str:
    """A model that says these; each may be `WHEN => COMMAND`, which it runs when it is told WHEN."""
    parts = []
    for reply in replies:
        when, arrow, command = reply.partition(" => ")
        if arrow:
            call = f"[[reply.call]]\nname = 'bash'\narguments = {{ command = '''{command}''' }}"
            parts.append(f"[[reply]]\nwhen = '''{when}'''\ntext = 'I do it.'\n{call}")
        else:
            parts.append(f"[[reply]]\ntext = '''{reply}'''\nusage = {{ input = 1000, output = 10 }}")
    path = place / f"{name}.toml"
    path.write_text("\n".join(parts))
    return f"native scripted:{path}"


HEAD = """goal = "Three files"
done = "test -e one.txt && test -e two.txt"
verify = "! grep -rqs bad *.txt"
mode = "full-auto"
"""


@pytest.mark.slow
async def test_orders_are_placed_when_what_they_need_has_landed_reviewed_sent_back_landed_and_judged(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    (repository / ".planning").mkdir()
    Blackboard(Planning(project=str(repository))).set("dev_port", "5173")
    (repository / "RULES.md").write_text("# Rules\nNo bad words.\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "rules")
    writer = script(
        tmp_path,
        "writer",
        "YOUR TASK one => echo good > one.txt",
        "YOUR TASK two => cat one.txt > two.txt",
        "reviewer has looked => echo better > one.txt",
        "It is done.",
    )
    comment = '{"path": "one.txt", "line": 1, "text": "Say better."}'
    reviewer = f"native scripted:{tmp_path / 'reviewer.toml'}"
    (tmp_path / "reviewer.toml").write_text(
        "[[reply]]\nwhen = '[+]better'\ntimes = 'always'\ntext = '''Good. {\"verdict\": \"approve\"}'''\n"
        "[[reply]]\nwhen = 'What was wanted .one'\ntimes = 'always'\n"
        f"text = '''No: {{\"verdict\": \"changes\", \"comments\": [{comment}]}}'''\n"
        "[[reply]]\ntimes = 'always'\ntext = '''```json\n{\"verdict\": \"approve\", \"comments\": []}\n```'''\n"
    )
    judge = script(tmp_path, "judge", 'All there. {"met": true, "why": "both files are there"}')
    plan = (
        HEAD
        + f"""
invariants = "RULES.md"
budget = {{ tokens = 500000, hours = 1, orders = 20 }}
gates = ["plan", "agent:reviewer"]
roles = {{ worker = "{writer}", reviewer = "{reviewer}", judge = "{judge}" }}
[[order]]
id = "one"
task = "Make one.txt."
claims = ["one.txt"]
accept = ["test -e one.txt"]
[[order]]
id = "two"
task = "Make two.txt of one.txt."
after = ["one"]
claims = ["two.txt"]
accept = ["test -e two.txt"]
"""
    )
    await start_node(slots=3)
    async with carried(bus, foremen=2):
        name, new = await commands.begin(bus, plan, str(repository), by="ana")
        assert new and await commands.begin(bus, plan, str(repository)) == (name, False), "it is begun once"
        person = asyncio.create_task(answering(bus))
        record = await over(bus, name)
        await tasks.end([person])
    assert (record.state, record.why) == ("met", "both files are there")
    assert record.answers.keys() == {"plan"}, "what it made itself and was sent back for is no acceptance of before"
    assert git(repository, "show", "main:one.txt") == git(repository, "show", "main:two.txt") == "better"
    one, two = record.steps["one"], record.steps["two"]
    assert (one.reviews, one.reds, len(one.orders)) == (2, 1, 2) and (two.reviews, len(two.orders)) == (1, 1)
    first, second = [await client.get_spec(bus, order) for order in (one.orders[0], two.order)]
    assert "Say better." in (await client.get_spec(bus, one.orders[1])).comments
    assert "> good" in (await client.get_spec(bus, one.orders[1])).comments, "with the line that it is about"
    assert second.base == one.commit, "the tip when it was placed"
    assert (
        "No bad words." in first.task and first.task.partition("YOUR TASK")[0] == second.task.partition("YOUR TASK")[0]
    )
    assert second.after == (one.orders[1],) and "test -e two.txt" in second.verify
    assert record.used["worker"].tokens and record.used["reviewer"].tokens and record.used["judge"].tokens
    assert replayed(name, await store.history(bus, name)) == record
    assert "dev_port = 5173" in second.task
    budget = (await client.control(bus)).budgets[f"project:{name}"]
    assert budget.spent_tokens == sum(used.tokens for used in record.used.values()) and budget.tokens == 500000


RUN = """
import asyncio, os, signal, sys
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.goals import foreman
foreman.LOOK_SECONDS = 0.02
left = int(sys.argv[1])

def dying(write):
    async def counted(self, *args, **more):
        global left
        left -= 1
        if left == 0 and sys.argv[2] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return await write(self, *args, **more)
        finally:
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    return counted

Bus.put, Bus.batch = dying(Bus.put), dying(Bus.batch)

async def main():
    async with client.connected("admin") as bus:
        await foreman.Foreman().ride(bus)
asyncio.run(main())
"""


@pytest.mark.slow
async def test_killed_again_and_again_a_goal_goes_on_and_places_each_order_once(
    bus: Bus, start_node: Start, repository: Path
) -> None:
    """Each foreman dies before or after one of its first writes, so each gap between two writes is met."""
    orders = "".join(
        f'[[order]]\nid = "o{number}"\ntask = "t"\nagent = "null"\nland = false\n'
        + (f'after = ["o{number - 2}"]\n' if number > 1 else "")
        for number in range(4)
    )
    plan = f'goal = "g"\ndone = "true"\nverify = "true"\ngates = ["none"]\nroles = {{ judge = "none" }}\n{orders}'
    await start_node(slots=4)
    name, _ = await commands.begin(bus, plan, str(repository), budget_required=False)
    kills = 0
    for writes, when in cycle([(2, "after"), (3, "before"), (4, "after"), (4, "before"), (5, "after")]):
        argv = [sys.executable, "-c", RUN, str(writes), when]
        process = await asyncio.create_subprocess_exec(*argv, env=dict(os.environ))
        died = asyncio.create_task(process.wait())
        async with asyncio.timeout(120):
            while not (record := (await store.load(bus, name))[0]).ended and not died.done():
                await asyncio.wait([died], timeout=0.05)
        if record.ended:
            break
        kills += 1
    if not died.done():
        process.kill()
    await died
    assert record.state == "met" and kills > 3
    assert [step.orders for step in record.steps.values()] == [(f"{name}-o{number}",) for number in range(4)]
    assert record.placed == 4 and replayed(name, await store.history(bus, name)) == record


async def test_a_check_that_fails_before_the_work_is_asked_about_before_an_agent_is_paid(
    bus: Bus, start_node: Start, repository: Path
) -> None:
    head = 'goal = "g"\ndone = "true"\nverify = "echo no pytest here; exit 1"\ngates = ["none"]\n'
    plan = f'{head}roles = {{ judge = "none" }}\n[[order]]\nid = "one"\ntask = "t"\nagent = "null"\n'
    name, _ = await commands.begin(bus, plan, str(repository), budget_required=False)
    await start_node()
    async with carried(bus), asyncio.timeout(60):
        while not (asks := await client.approvals(bus)):
            await asyncio.sleep(0.05)
        assert "fails on main as it is" in asks[0].text and "no pytest here" in asks[0].text
        record, _ = await store.load(bus, name)
        assert (record.placed, record.shown_state) == (0, "asking")
        await client.answer(bus, asks[0].order, "deny")
        assert (await over(bus, name)).state == "stopped"


@pytest.mark.slow
async def test_what_was_queued_to_land_before_a_kill_is_not_queued_again(
    bus: Bus, start_node: Start, repository: Path
) -> None:
    head = 'goal = "g"\ndone = "true"\nverify = "true"\ngates = ["none"]\nroles = { judge = "none" }\n'
    plan = f'{head}[[order]]\nid = "one"\ntask = "t"\nagent = "null"\n'
    name, _ = await commands.begin(bus, plan, str(repository), budget_required=False)
    await store.happen(bus, name, lambda found: [StepPlaced(at=1, step="one", order=f"{name}-one")])
    base = git(repository, "rev-parse", "main")
    made = spec(id=f"{name}-one", root=str(repository), base=base, setup="echo x > one.txt", project=name)
    await start_node()
    await give(bus, made)
    assert (await client.wait(bus, made.id, 60)).state == "done"
    ended: list[AnyGoalEvent] = [StepEnded(at=2, step="one", ok=True), StepBoarded(at=3, step="one")]
    await store.happen(bus, name, lambda found: ended if found.steps["one"].state == "working" else [])
    drive, planned = GoalDrive(bus, name), await store.get_plan(bus, name, 1)
    line = train.name_of(str(repository / ".git"), "main")

    async def decided() -> list[GoalMove]:
        record, _ = await store.load(bus, name)
        return [*moves(record, planned, await look(bus, record, planned))]

    assert await decided() == [Do("board", "one")], "it was decided on, and not done yet"
    await drive.read()
    await drive.step()
    queued, _ = await train.load(bus, line)
    assert [each.order for each in queued.queue] == [made.id] and await decided() == []
    out = LeftOut(order=made.id, kind="red", why="its check failed twice", at=4)
    returned = await train.change(bus, line, lambda found: queue.left_out(found, out))
    assert await decided() == [], "who can help is asked by the train"
    await drive._do(Do("board", "one"), *await store.load(bus, name), planned, await _looked(bus, name, planned))
    assert (await train.load(bus, line))[0] == returned, "one that comes late queues nothing"


async def _looked(bus: Bus, name: str, plan: GoalPlan) -> GoalSeen:
    return await look(bus, (await store.load(bus, name))[0], plan)


@pytest.mark.long
@pytest.mark.parametrize(
    ("gate", "named"),
    spread([("none", ""), ("agent:reviewer", ""), ("agent:reviewer", "test_old.py")], quick=0, slow=1),
)
async def test_a_test_of_before_that_is_changed_beside_the_acceptance_is_asked_about_unless_a_reviewer_agrees(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path, gate: str, named: str
) -> None:
    verdict = json.dumps({"verdict": "approve", "judge": [f"tests/{named}"] if named else []})
    (tmp_path / "reviewer.toml").write_text(f"[[reply]]\ntimes = 'always'\ntext = '{verdict}'\n")
    (repository / "tests").mkdir()
    for name in ("test_old.py", "test_mine.py"):
        (repository / "tests" / name).write_text("assert True\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "tests")
    edit = "echo x > one.txt; echo x > two.txt; echo >> tests/test_mine.py; echo > tests/test_new.py"
    writer = script(
        tmp_path,
        "writer",
        f"YOUR TASK fine => {edit}",
        "YOUR TASK weak => rm tests/test_old.py; echo x > c.txt",
        "Done.",
    )
    plan = (
        HEAD
        + f"""
gates = ["{gate}"]
roles = {{ worker = "{writer}", reviewer = "native scripted:{tmp_path / "reviewer.toml"}", judge = "none" }}
[[order]]
id = "fine"
task = "New tests, and one that the plan names."
claims = ["tests/test_mine.py"]
accept = ["test -e one.txt"]
[[order]]
id = "weak"
task = "Make c.txt."
accept = ["test -e c.txt"]
on_red = "drop"
"""
    )
    await start_node(slots=2)
    async with carried(bus):
        name, _ = await commands.begin(bus, plan, str(repository), budget_required=False)
        person = asyncio.create_task(answering(bus, "deny"))
        record = await over(bus, name)
        await tasks.end([person])
    assert record.answers.keys() == (set() if named else {"weaker:weak:0"}) and record.state == "met"
    fates = {"fine": "landed", "weak": "landed" if named else "dropped"}
    assert {name: step.state for name, step in record.steps.items()} == fates
    listed = git(repository, "ls-tree", "--name-only", "main", "tests/").split()
    assert ("tests/test_old.py" in listed) is not bool(named), "it did not land"


@pytest.mark.slow
async def test_a_reviewers_test_is_part_of_the_acceptance_and_a_weaker_one_is_asked_about(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    test = "grep -q better one.txt"
    writer = script(
        tmp_path,
        "writer",
        f"said no => echo '{test}' > tests/test_one.sh",
        "Write it to tests/test_one.sh => echo better > one.txt; mkdir -p tests; echo true > tests/test_one.sh",
        "YOUR TASK one => echo good > one.txt",
        "It is done.",
    )
    added = f'{{"path": "tests/test_one.sh", "text": "{test}", "command": "sh tests/test_one.sh"}}'
    (tmp_path / "reviewer.toml").write_text(
        "[[reply]]\nwhen = '[+]better'\ntimes = 'always'\ntext = '''{\"verdict\": \"approve\"}'''\n"
        f"[[reply]]\ntimes = 'always'\ntext = '''{{\"verdict\": \"changes\", \"tests\": [{added}]}}'''\n"
    )
    plan = (
        HEAD.replace(" && test -e two.txt", "")
        + f"""
gates = ["agent:reviewer"]
roles = {{ worker = "{writer}", reviewer = "native scripted:{tmp_path / "reviewer.toml"}", judge = "none" }}
[[order]]
id = "one"
task = "Make one.txt."
accept = ["test -e one.txt"]
"""
    )
    await start_node(slots=2)
    async with carried(bus):
        name, _ = await commands.begin(bus, plan, str(repository), budget_required=False)
        person = asyncio.create_task(answering(bus, "deny"))
        record = await over(bus, name)
        await tasks.end([person])
    assert record.state == "met" and record.answers.keys() == {"weaker:one:1"}, record
    assert git(repository, "show", "main:tests/test_one.sh") == test
    one = record.steps["one"]
    assert (one.reviews, one.reds, len(one.orders)) == (3, 2, 3)
    assert (await client.get_spec(bus, one.order)).verify.count("sh tests/test_one.sh") == 1
    assert replayed(name, await store.history(bus, name)) == record


# Without an engine: each thing that it does, one at a time...

SMALL = 'goal = "g"\ndone = "true"\nverify = "true"\ngates = ["none"]\nroles = { judge = "none" }\n'
ONE = f'{SMALL}[[order]]\nid = "one"\ntask = "t"\nagent = "null"\naccept = ["false"]\n'


async def begun(bus: Bus, repository: Path, *events: AnyGoalEvent, plan: str = ONE) -> GoalDrive:
    name, _ = await commands.begin(bus, plan, str(repository), budget_required=False)
    if events:
        await store.write(bus, *await store.load(bus, name), events)
    return GoalDrive(bus, name)


async def done(drive: GoalDrive, move: GoalMove, **seen: Any) -> list[AnyGoalEvent]:
    """What a move leads to in the goal's history."""
    record, revision = await store.load(drive.bus, drive.name)
    plan = await store.get_plan(drive.bus, drive.name, record.plan)
    await drive._do(move, record, revision, plan, GoalSeen(now=9.0, **seen))
    return (await store.history(drive.bus, drive.name))[record.events :]


@pytest.fixture
def away() -> Bus:
    return StoringClient().bus()


async def test_the_goals_of_this_machine_that_are_not_over_are_carried_on(away: Bus, repository: Path) -> None:
    drive = await begun(away, repository)
    there, _ = await store.load(away, drive.name)
    await away.put("goal.elsewhere", encode(replace(there, id="elsewhere", root="/nowhere")))
    await away.put("goal.over", encode(replace(there, id="over", ended=1.0, state="met")))
    assert await foreman.Foreman().due(away) == {drive.name: None}


async def test_what_cannot_be_got_over_pauses_a_goal_once_and_what_passes_is_in_its_record(
    away: Bus, repository: Path
) -> None:
    drive = await begun(away, repository)
    riding, delay = foreman.Foreman(), Delay(why="full", since=1.0, next=2.0)
    await riding.set_delay(away, drive.name, delay)
    assert await riding.due(away) == {drive.name: delay}
    assert (await commands.explain(away, drive.name))[""].startswith("running; full; tried once since ")
    await drive.read()
    await drive.set_delay(None)
    assert drive.delay == delay and await riding.due(away) == {drive.name: None}
    for _ in range(2):
        await riding.stop(away, drive.name, WorkspaceError("no branch"))
    record, _ = await store.load(away, drive.name)
    paused = [each for each in await store.history(away, drive.name) if isinstance(each, GoalPaused)]
    assert (record.state, record.why) == ("paused", "no branch") and [each.by for each in paused] == ["goal"]


async def test_the_latest_question_about_something_is_put(away: Bus, repository: Path) -> None:
    put = [
        QuestionPut(at=1.0, about="plan", order="q1", title="Old?", text="old"),
        QuestionPut(at=2.0, about="plan", order="q2", title="Go on?", text="new"),
        QuestionPut(at=3.0, about="other", order="q3", title="Other?", text="x"),
    ]
    drive = await begun(away, repository, *put)
    assert await done(drive, Do("submit question", "plan")) == []
    assert [*await away.named(["spec.*"])] == ["spec.q2"]
    asked = await client.get_spec(away, "q2")
    assert (asked.title, asked.agent, asked.task) == ("Go on?", "person", "new")
    await done(drive, Do("submit question", "unknown"))
    assert len(await away.named(["spec.*"])) == 1


async def test_a_review_or_judgement_that_failed_is_written_down_as_none(away: Bus, repository: Path) -> None:
    events: list[AnyGoalEvent] = [
        StepPlaced(at=1.0, step="one", order="o1"),
        StepEnded(at=1.0, step="one", ok=True),
        ReviewPlaced(at=1.0, step="one", order="r1"),
    ]
    drive = await begun(away, repository, *events)
    used = Used(input_tokens=5)
    failed = OrderSeen(ended=True, why="it crashed", used=used)
    (given,) = await done(drive, Do("take review", "one"), orders={"r1": failed})
    none = ReviewGiven(at=9.0, by="r1", step="one", verdict="none", comments="it crashed", used=used)
    assert given == none
    await store.write(away, *await store.load(away, drive.name), [JudgePlaced(at=1.0, order="j1")])
    (judged,) = await done(drive, Do("take judgement"), orders={"j1": failed})
    why = "the judge gave no verdict: it crashed"
    assert judged == GoalJudged(at=9.0, by="j1", met=None, why=why, used=used)


@pytest.mark.parametrize(("checks", "agrees"), [("+ 1\n", True), ("", False), ("+" * (briefing.DIFF_MAX + 1), False)])
async def test_a_reviewer_agrees_only_to_changed_checks_that_it_was_shown(
    away: Bus, repository: Path, checks: str, agrees: bool
) -> None:
    events: list[AnyGoalEvent] = [
        StepPlaced(at=1.0, step="one", order="o1"),
        StepEnded(at=1.0, step="one", ok=True),
        ReviewPlaced(at=1.0, step="one", order="r1"),
    ]
    drive = await begun(away, repository, *events)
    record, _ = await store.load(away, drive.name)
    plan = await store.get_plan(away, drive.name, record.plan)
    files, seen = ["tests/x.py"] if checks else [], GoalSeen(now=9.0)
    asked = briefing.review(record, plan, "one", "c1", "c0", briefing.CHECKED_BY, seen, files, checks)
    result = {"answer": {"verdict": "approve", "judge": ["tests/x.py"]}}
    await away.put("spec.r1", encode(asked))
    for name in ("o1", "r1"):
        await away.put(f"order.{name}", encode(Order(id=name, state="done", changed=1.0, result=result)))
    (given,) = await done(drive, Do("take review", "one"), orders={"r1": OrderSeen(ended=True, ok=True)})
    assert isinstance(given, ReviewGiven) and given.judge == (("tests/x.py",) if agrees else ())


async def test_what_is_open_is_called_off_and_what_has_ended_meanwhile_is_left(
    away: Bus, repository: Path, pauses: list[float]
) -> None:
    drive = await begun(away, repository)
    for name, state in (("over", "done"), ("open", "queued")):
        await away.put(f"order.{name}", encode(Order(id=name, state=state, changed=1.0)))  # type: ignore[arg-type]
    sent = away.client.sent  # type: ignore[attr-defined]
    sent.clear()
    await done(drive, CancelOpen(orders=("over", "open"), why="it is over"))
    (wish,) = [msgspec.json.decode(each.data) for each in sent if each.subject == "fleet.in.wish.cancel"]
    assert wish == {"do": "cancel", "order": "open", "why": "it is over", "by": "goal"}
    assert pauses == [foreman.LOOK_SECONDS]
    sent.clear()
    await done(drive, Do("tell budget"))
    assert not any(each.subject.startswith("fleet.in.") for each in sent), "it has none"
    budget = await begun(away, repository, plan=ONE.replace("[[order]]", "budget = { usd = 2.0 }\n[[order]]"))
    sent.clear()
    await done(budget, Do("tell budget"))
    (wish,) = [msgspec.json.decode(each.data) for each in sent if each.subject == "fleet.in.wish.budget"]
    assert wish == {"do": "budget", "scope": f"project:{budget.name}", "usd": 2.0, "tokens": None, "by": "goal"}
    assert pauses == [foreman.LOOK_SECONDS] * 3


async def test_an_order_that_is_sent_back_has_the_answer_of_the_person_and_what_was_said_to_all(
    away: Bus, repository: Path
) -> None:
    base = git(repository, "rev-parse", "main")
    made = spec(id="o1", root=str(repository), base=base, verify="true")
    await away.put("spec.o1", encode(made))
    await away.put("order.o1", encode(Order(id="o1", state="failed", changed=1.0)))
    events: list[AnyGoalEvent] = [
        StepPlaced(at=1.0, step="one", order="o1"),
        StepEnded(at=1.0, step="one", ok=False, why="it is wrong"),
        QuestionPut(at=1.0, about="red:one:1", order="q", title="?", text="?"),
        QuestionAnswered(at=1.0, about="red:one:1", allow=True, text="try the other way"),
        GoalMessage(at=1.0, text="be quick"),
        StepPlaced(at=1.0, step="one", order=again_id("o1"), fresh=False),
    ]
    drive = await begun(away, repository, *events)
    await done(drive, Do("submit work", "one"))
    again = await client.get_spec(away, again_id("o1"))
    assert again.by == "goal" and again.continues == "o1" and "true" in again.verify
    assert all(words in again.comments for words in ("it is wrong", "try the other way", "be quick"))


async def test_the_proof_is_tried_on_the_tip_and_a_result_that_comes_late_is_dropped(
    away: Bus, repository: Path
) -> None:
    drive = await begun(away, repository, plan=ONE.replace('"true"', '"echo seen; false"', 1))
    record, _ = await store.load(away, drive.name)
    plan = await store.get_plan(away, drive.name, 1)
    await drive._check(Do("run done"), record, plan)
    (*_, proved) = await store.history(away, drive.name)
    tip = git(repository, "rev-parse", "main")
    assert isinstance(proved, DoneChecked) and proved.seen == DoneSeen(tip=tip, ok=False, output="seen")
    await store.happen(away, drive.name, lambda found: [GoalOver(at=1.0, met=False, why="enough")])
    await drive._check(Do("run done"), record, plan)
    assert isinstance((await store.history(away, drive.name))[-1], GoalOver)


def test_the_judges_orders_are_added_and_one_whose_name_is_taken_gets_another() -> None:
    plan = GoalPlan(goal="g", done="true", order=(PlannedOrder(id="one", task="t"),))
    more = [PlannedOrder(id="one", task="x"), PlannedOrder(id="two", task="y", after=("one", "three"))]
    grown = foreman._grown(plan, GoalRecord(id="g", round=2, steps={"one": GoalStep()}), more)
    assert [(each.id, each.task, each.after) for each in grown.order] == [
        ("one", "t", ()),
        ("one-3", "x", ()),
        ("two", "y", ("one-3", "three")),
    ]
    assert foreman._order_of(grown, "two").task == "y"
