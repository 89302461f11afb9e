"""Goals on a real fleet: placed, reviewed, landed and judged, once, whatever is killed on the way."""

import asyncio
import os
import sys
import time
from itertools import cycle
from pathlib import Path

import pytest

from tests.fleet.conftest import Start, give, spec
from tests.fleet.repositories import git
from tests.goals.running import answering, carried, placed
from treadle.coordination.ledger import Ledger
from treadle.coordination.messages import Inbox
from treadle.coordination.planning import Planning
from treadle.coordination.table import Blackboard, Symbols
from treadle.fleet import client
from treadle.fleet.engine import tasks
from treadle.fleet.engine.bus import Bus, Stale
from treadle.goals import commands, store
from treadle.goals.deciding import BoardTrain, GoalMove, GoalSeen, SubmitWork, moves
from treadle.goals.foreman import GoalDrive
from treadle.goals.history import replayed
from treadle.goals.looking import look
from treadle.landing import queue, train
from treadle.wire.fleet.train import LeftOut
from treadle.wire.goal.plan import GoalPlan
from treadle.wire.goal.records import AnyGoalEvent, GoalMessage, GoalOver, StepBoarded, StepEnded, StepPlaced


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
        record = await commands.wait(bus, name, timeout=300)
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
    assert one.brief is not None and one.brief.restated > one.brief.shared + one.brief.own > 0
    assert replayed(name, await store.history(bus, name)) == record
    assert "dev_port = 5173" in second.task
    planning = Planning(project=str(repository))
    sent = [entry["message"] for entry in Inbox(planning).read("ana/cli")]
    ids = {value: int(key[1:]) for key, value in Symbols(planning).all().items() if key.startswith("C")}
    results = [each for each in sent if each["type"] == "task_result"]
    assert [(each["task"], each["criteria"], each["capsule"]) for each in results] == [
        ("one", [ids["test -e one.txt"]], one.orders[0]),
        ("one", [ids["test -e one.txt"]], one.orders[1]),
        ("two", [ids["test -e two.txt"]], two.order),
    ]
    waves = [(each["wave"], each["state"]) for each in sent if each["type"] == "checkpoint"]
    assert waves == [("1", "started"), ("1", "complete"), ("2", "started"), ("2", "complete")]
    gates = [(each["gate_id"], each["status"]) for each in sent if each["type"] == "gate_report"]
    assert gates[:3] == [("review:one", "fail"), ("review:one", "pass"), ("train:one", "pass")]
    assert gates[-1] == ("judge", "pass") and {each["from"] for each in sent} == {f"goal-{name}"}
    assert Ledger(planning).report().roles.keys() >= {"goal/reviewer", "goal/judge", "fleet/native"}
    budget = (await client.control(bus)).budgets[f"project:{name}"]
    assert budget.spent_tokens == sum(used.tokens for used in record.used.values()) and budget.tokens == 500000


async def test_what_a_brief_came_to_is_written_down_before_its_order_is_placed(bus: Bus, repository: Path) -> None:
    head = 'goal = "g"\ndone = "true"\nverify = "true"\ngates = ["none"]\n'
    plan = f'{head}[[order]]\nid = "one"\ntask = "t"\nagent = "null"\n'
    name, _ = await commands.begin(bus, plan, str(repository), budget_required=False)
    placed = StepPlaced(at=1, step="one", order=f"{name}-one", fresh=True)
    record = await store.write(bus, *await store.load(bus, name), [placed])
    read, revision = await store.load(bus, name)
    await store.write(bus, read, revision, [GoalMessage(at=2, text="another foreman, or a person, was quicker")])
    stored, seen = await store.get_plan(bus, name, 1), await look(bus, record, await store.get_plan(bus, name, 1))
    drive = GoalDrive(bus, name)
    with pytest.raises(Stale):
        await drive._do(SubmitWork(step="one"), record, revision, stored, seen)
    assert await bus.get(f"spec.{name}-one") is None
    await drive._do(SubmitWork(step="one"), *await store.load(bus, name), stored, seen)
    assert (await store.load(bus, name))[0].steps["one"].brief is not None
    assert (await client.get_spec(bus, f"{name}-one")).task


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

    assert await decided() == [BoardTrain(step="one")], "it was decided on, and not done yet"
    await drive._step()
    queued, _ = await train.load(bus, line)
    assert [each.order for each in queued.queue] == [made.id] and await decided() == []
    out = LeftOut(order=made.id, kind="red", why="its check failed twice", at=4)
    returned = await train.change(bus, line, lambda found: queue.left_out(found, out))
    assert await decided() == [], "who can help is asked by the train"
    await drive._do(BoardTrain(step="one"), *await store.load(bus, name), planned, await _looked(bus, name, planned))
    assert (await train.load(bus, line))[0] == returned, "one that comes late queues nothing"


async def _looked(bus: Bus, name: str, plan: GoalPlan) -> GoalSeen:
    return await look(bus, (await store.load(bus, name))[0], plan)


async def test_what_was_open_when_its_goal_ended_is_called_off_however_long_no_one_looked(
    bus: Bus, start_node: Start, repository: Path
) -> None:
    orders = '[[order]]\nid = "o1"\ntask = "t"\nagent = "null:60:60"\nland = false\n'
    plan = f'goal = "g"\ndone = "false"\nverify = "true"\ngates = ["none"]\nroles = {{ judge = "none" }}\n{orders}'
    await start_node()
    name, _ = await commands.begin(bus, plan, str(repository), budget_required=False)
    async with carried(bus):
        await placed(bus, name, "o1", times=1)
    over = GoalOver(at=time.time() - 86400, met=False, why="its foreman was killed at once")
    await store.happen(bus, name, lambda found: [over])
    async with carried(bus):
        order = await client.wait(bus, f"{name}-o1", 60)
    assert order.state == "cancelled" and "is over" in order.why


async def test_acceptance_that_passes_before_is_asked_about_and_what_weakens_it_too(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    (repository / "check.sh").write_text("grep -q new a.txt\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "check")
    writer = script(tmp_path, "writer", "YOUR TASK weak => echo true > check.sh; echo x > c.txt", "Done.")
    plan = (
        HEAD
        + f"""
gates = ["none"]
roles = {{ worker = "{writer}", judge = "none" }}
[[order]]
id = "there"
task = "It is there already."
accept = ["test -e a.txt"]
[[order]]
id = "weak"
task = "Make the check pass."
accept = ["sh check.sh"]
on_red = "drop"
"""
    )
    await start_node(slots=2)
    async with carried(bus):
        name, _ = await commands.begin(bus, plan, str(repository), budget_required=False)
        person = asyncio.create_task(answering(bus, "deny"))
        record = await commands.wait(bus, name, timeout=300)
        await tasks.end([person])
    assert record.state == "stopped" and "test -e one.txt" in record.why
    assert record.answers.keys() == {"accept:there", "weaker:weak:0", "round:1"}
    assert {name: step.state for name, step in record.steps.items()} == {"there": "dropped", "weak": "dropped"}
    assert git(repository, "show", "main:check.sh") == "grep -q new a.txt", "it did not land"


async def test_a_test_of_before_that_is_changed_beside_the_acceptance_is_asked_about(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
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
gates = ["none"]
roles = {{ worker = "{writer}", judge = "none" }}
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
        record = await commands.wait(bus, name, timeout=300)
        await tasks.end([person])
    assert record.answers.keys() == {"weaker:weak:0"} and record.state == "met"
    assert {name: step.state for name, step in record.steps.items()} == {"fine": "landed", "weak": "dropped"}
    assert git(repository, "show", "main:tests/test_old.py") == "assert True", "it did not land"


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
        record = await commands.wait(bus, name, timeout=300)
        await tasks.end([person])
    assert record.state == "met" and record.answers.keys() == {"weaker:one:1"}, record
    assert git(repository, "show", "main:tests/test_one.sh") == test
    one = record.steps["one"]
    assert (one.reviews, one.reds, len(one.orders)) == (3, 2, 3)
    assert (await client.get_spec(bus, one.order)).verify.count("sh tests/test_one.sh") == 1
    assert replayed(name, await store.history(bus, name)) == record


async def test_an_order_whose_limit_no_longer_fits_is_asked_about_and_goes_on_with_more(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    writer = script(tmp_path, "writer", "It is done.")
    orders = "".join(f'[[order]]\nid = "o{number}"\ntask = "t{number}"\nland = false\n' for number in range(4))
    head = 'goal = "g"\ndone = "true"\nverify = "true"\ngates = ["none"]\nbudget = { tokens = 4000 }\n'
    plan = f'{head}roles = {{ worker = "{writer}", judge = "none" }}\n{orders}'
    await start_node(slots=4)
    await client.pause(bus, "fleet")
    async with carried(bus):
        name, _ = await commands.begin(bus, plan, str(repository))
        for number in range(4):  # before any of them runs: what is spent makes the limits of later ones smaller
            await placed(bus, name, f"o{number}", times=1)
        await client.resume(bus, "fleet")
        async with asyncio.timeout(60):
            async for record in commands.follow(bus, name):
                if record.questions:
                    break
        spent = (await client.control(bus)).budgets[f"project:{name}"].spent_tokens
        assert list(record.questions) == ["budget:0"] and spent == 3030, "three of four fitted, 1500 reserved for each"
        person = asyncio.create_task(answering(bus))
        record = await commands.wait(bus, name, timeout=300)
        await tasks.end([person])
    assert record.state == "met" and record.raised == 1
    assert (await client.control(bus)).budgets[f"project:{name}"].tokens == 8000
