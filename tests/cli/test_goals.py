"""`treadle goal`: a plan is explained, run, steered and reported."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from tests.cli.fleet.commands import requested, stored, typed
from tests.fleet.conftest import bus as bus
from tests.fleet.conftest import fleet as fleet
from tests.fleet.conftest import give, spec
from tests.fleet.conftest import nothing_left as nothing_left
from tests.fleet.conftest import repository as repository
from tests.fleet.repositories import git
from treadle.cli.fleet.goal import _GoalNews
from treadle.cli.root import treadle
from treadle.errors import ConfigError
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import begun, encode
from treadle.goals import commands, store
from treadle.wire.fleet.records import AskRecord, Used
from treadle.wire.goal.records import GoalStep

PLAN = """goal = "Export"
done = "make test"
budget = { usd = 20, hours = 0.5 }
[[order]]
id = "rows"
task = "A type for a row."
claims = ["rows.py"]
accept = ["test -e rows.py"]
[[order]]
id = "api"
title = "The API"
task = "Serve it."
after = ["rows"]
claims = ["api/**"]
accept = ["test -e api"]
[[order]]
id = "docs"
task = "Say how."
claims = ["rows.py"]
"""


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(treadle, ["goal", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "goal.toml").write_text(PLAN)
    return tmp_path / "goal.toml"


def test_a_plan_is_explained_by_waves_overlaps_briefs_and_tokens(plan: Path) -> None:
    code, said = run("check", "goal.toml")
    assert code == 0 and said.startswith(
        "goal    Export\ndone    make test\nlands   on main\nbudget  20 USD, 0.5 h\nasks    plan"
    )
    waves = said[said.index("wave 1") : said.index("overlapping")]
    assert waves.index("rows  A type") < waves.index("wave 2") < waves.index("api   The API") < waves.index("docs")
    assert "after rows; claims api/**" in said and "  rows and docs: rows.py\n" in said
    assert "all briefs: " in said
    assert "goal.toml:16: note: order[2]: nothing accepts docs" in said


def test_the_same_facts_are_there_for_programs(plan: Path) -> None:
    found = json.loads(run("check", "goal.toml", "--json")[1])
    assert [wave["orders"] for wave in found["waves"]] == [["rows"], ["api", "docs"]]
    assert found["overlaps"] == [{"first": "rows", "second": "docs", "claims": ["rows.py", "rows.py"]}]
    assert found["mistakes"] == []


def test_mistakes_are_named_by_file_line_and_field_and_end_with_1(plan: Path) -> None:
    plan.write_text(PLAN.replace("budget =", "# ").replace('after = ["rows"]', 'after = ["row"]'))
    code, said = run("check", "goal.toml")
    assert code == 1 and said.splitlines() == [
        "goal.toml:1: budget: there is no budget (as in budget = { usd = 20, hours = 3 }, or run it with --no-budget)",
        "goal.toml:13: order[1].after: there is no order 'row' (did you mean rows?)",
        "2 mistakes; a plan with mistakes does not run",
    ]
    code, said = run("check", "goal.toml", "--no-budget")
    assert code == 1 and "budget" not in said and "\n1 mistake; a plan with mistakes does not run\n" in said


def test_a_plan_that_is_no_text_is_refused(plan: Path) -> None:
    plan.write_bytes(b"goal = '\xff'")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        run("check", "goal.toml")


def test_with_run_its_commands_are_tried_where_it_says(plan: Path, tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    git(repository, "commit", "-q", "--allow-empty", "-m", "first")
    plan.write_text(PLAN.replace("test -e rows.py", "true"))
    plain, tried = (run("check", "goal.toml", "--root", str(repository), *words)[1] for words in ([], ["--run"]))
    assert "passes" not in plain and "passes already" in tried


async def test_what_agents_of_the_goal_ask_is_said_once_and_what_others_ask_is_not(
    bus: Bus,
    capsys: pytest.CaptureFixture[str],
) -> None:
    orders = {"mine": ("g1", "native"), "asked": ("g1", "person"), "other": ("g2", "native"), "late": ("g1", "native")}
    asking = asyncio.create_task(_GoalNews().questions(bus, "g1"))
    said = ""
    try:
        async with asyncio.timeout(60):
            for name, (project, agent) in orders.items():  # the last is there when all before it were looked at
                given = spec(id=name, project=project, agent=agent)
                await give(bus, given)
                await bus.put(f"order.{name}", encode(replace(begun(given, 1), open_ask=f"{name}.1")))
                ask = AskRecord(order=name, number=1, command=f"rm {name}", asked_at=1, deadline=9e9, default="deny")
                if agent == "person":
                    ask = replace(ask, command=None, kind="question", title="Go?", text="task: a\n    | b")
                await bus.put(f"ask.{name}.1", encode(ask))
                await bus.put(f"active.{name}", b"{}")
            while "late" not in said:
                await asyncio.sleep(0.05)
                said += capsys.readouterr().err
    finally:
        asking.cancel()
    whole = {"mine": "rm mine", "asked": "Go?\n    task: a\n        | b", "late": "rm late"}
    lines = [f"{name} asks: {text}\n    `treadle fleet answer {name} allow|deny`" for name, text in whole.items()]
    assert said == "\n".join([*lines, ""]), "what the goal itself asks is shown whole"


async def test_a_report_is_markdown_or_the_facts_behind_it(bus: Bus, repository: Path) -> None:
    head = 'goal = "Export"\ndone = "true"\nverify = "true"\nbudget = { orders = 3 }\n'
    name, _ = await commands.begin(bus, f'{head}[[order]]\nid = "rows"\ntask = "t"\n', str(repository), by="ana")

    async def report(*options: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, treadle, ["goal", "report", name, *options])

    assert "| 1 | rows | t | waiting |" in (await report()).output
    facts = json.loads((await report("--json")).stdout)
    assert (facts["goal"]["id"], facts["plan"]["order"][0]["id"]) == (name, "rows")
    assert [each["event"] for each in facts["history"]] == ["begun"]


HEAD = 'goal = "Export"\ndone = "true"\nverify = "true"\n'
ORDERS = "".join(f'[[order]]\nid = "{name}"\ntask = "{name}"\n' for name in ("rows", "api", "docs"))
BUDGET = "budget = { orders = 3, tokens = 5000 }\n"


class Typed:
    def __init__(self, plan: Path) -> None:
        self.plan = plan

    async def __call__(self, *words: str, code: int = 0) -> str:
        done = await asyncio.to_thread(CliRunner().invoke, treadle, ["goal", *words])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == code, done.output
        return done.stdout

    async def as_json(self, *words: str, code: int = 0) -> Any:
        return json.loads(await self(*words, "--json", code=code))


@pytest.fixture
def goal(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Typed:
    monkeypatch.chdir(repository)
    (tmp_path / "goal.toml").write_text(HEAD + BUDGET + ORDERS)
    return Typed(tmp_path / "goal.toml")


async def test_a_goal_is_begun_once_listed_and_shown_as_it_stands(bus: Bus, goal: Typed, repository: Path) -> None:
    said = await goal("run", str(goal.plan), "--detach")
    ((name, record),) = (await store.goals(bus)).items()
    assert said == f"goal {name} begins\n"
    assert await goal("run", str(goal.plan), "--detach") == f"goal {name} is already running\n"
    assert (await goal.as_json("run", name[:5], "--detach"))["id"] == name
    goal.plan.write_text(HEAD + ORDERS)
    with pytest.raises(ConfigError, match="there is no budget"):
        await goal("run", str(goal.plan), "--detach")
    assert (await goal.as_json("run", str(goal.plan), "--detach", "--no-budget"))["id"] != name
    landed = [
        GoalStep(state="landed", commit="c" * 40, orders=("o1",), used=Used(input_tokens=count)) for count in (100, 300)
    ]
    steps = {"rows": landed[0], "api": GoalStep(why="x\ny"), "docs": landed[1]}
    now = replace(record, steps=steps, placed=2, used={"worker": Used(input_tokens=400), "planner": Used(usd=0.5)})
    asking = replace(now, questions={"plan": "q1"}, began=time.time() - 130)
    await bus.put(f"goal.{name}", encode(asking))
    head, *rows = [line.split() for line in (await goal("ls")).splitlines()]
    assert head == ["GOAL", "STATE", "LANDED", "ORDERS", "USED", "AGE", "WHAT"]
    assert [name, *"asking 2 of 3 2 400 0.50 USD 2m Export".split()] in rows
    assert {each["id"] for each in await goal.as_json("ls")} == {name, rows[0][0]}
    assert (await goal("show", name[:6])).splitlines() == [
        f"goal    {name}: Export",
        "state   asking, for 2m",
        f"lands   on main of {repository}",
        "used    400 0.50 USD, 2 orders of 5,000 tokens, 3 orders",
        "",
        "wave 1",
        "  rows  landed as cccccccccc  o1",
        "  api   waiting (x",
        "  docs  landed as cccccccccc  o1",
        "",
        "asks about plan: `treadle fleet answer q1 allow|deny`",
    ]
    found = await goal.as_json("show", name)
    assert (found["goal"]["id"], found["plan"]["goal"]) == (name, "Export")
    await bus.put(f"goal.{name}", encode(replace(asking, state="stopped", why="enough", ended=time.time())))
    over = (await goal("show", name)).splitlines()
    assert over[1] == "state   stopped: enough, for 2m" and not any("asks" in line for line in over)
    assert await goal("run", name, code=3) == "  rows: landed\n  docs: landed\nstopped: enough\n"
    assert (await goal.as_json("run", name, code=3))["state"] == "stopped"
    assert [row.split()[1] for row in (await goal("ls")).splitlines() if row.startswith(name)] == ["stopped"]


async def test_a_goal_is_steered_as_typed(bus: Bus, goal: Typed, tmp_path: Path) -> None:
    await goal("run", str(goal.plan), "--detach")
    ((name, record),) = (await store.goals(bus)).items()
    await requested(bus)
    short = name[:6]
    assert await goal("pause", short, "--why", "lunch", "--now") == ""
    assert await requested(bus) == [{"do": "pause", "scope": f"project:{name}", "why": "lunch", "now": True}]
    assert (await goal.as_json("pause", short))["why"] == "lunch" and await requested(bus)
    assert (await goal("explain", short)).splitlines()[0] == "paused: lunch"
    assert "state" not in await goal.as_json("resume", short), "it runs, which is the default"
    await stored(bus, "at-work", state="running")
    working = GoalStep(state="working", orders=("at-work",))
    now, _ = await store.load(bus, name)
    await bus.put(
        f"goal.{name}", encode(replace(now, steps={**now.steps, "rows": working, "docs": GoalStep(state="dropped")}))
    )
    assert await goal("say", short, "be quick") == "rows: told\n" and await goal.as_json("say", short, "x") == {
        "rows": "told"
    }
    assert (await goal("explain", short)).splitlines()[1:] == [
        "  rows: working: at-work is running, no scheduler is up: `treadle fleet up`",
        "  api: waits for an answer about the plan",
    ]
    assert set(await goal.as_json("explain", short)) == {"", "rows", "api"}
    assert await typed("again", name) == f"{name} docs  the goal tries it again\n"
    assert (await store.load(bus, name))[0].steps["docs"].state == "waiting"
    goal.plan.write_text(goal.plan.read_text() + '[[order]]\nid = "more"\ntask = "more"\n')
    assert await goal("change", short, str(goal.plan)) == f"goal {name} has version 2 of its plan, 4 orders\n"
    page = tmp_path / "report.md"
    assert await goal("report", short, "--out", str(page)) == f"{page}\n" and page.read_text().startswith("# ")
    with pytest.raises(ConfigError, match="--json is printed"):
        await goal("report", short, "--json", "--out", str(page))
    assert (await goal.as_json("stop", short, "--why", "enough"))["why"].endswith(": enough")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "describe the goal"),
        (["x", "--from", "TODO.md"], "describe the goal"),
        (["x", "--out", "here"], "here already exists"),
        (["x", "--go"], "needs a budget"),
        (["x", "--from", "", "--go", "--tokens", "0"], "needs a budget"),
        (["x", "--out", "here", "--force"], "is in no fleet"),
        (["x", "--go", "--hours", "1"], "is in no fleet"),
    ],
)
def test_a_plan_is_not_begun_without_what_it_needs(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").write_text("mine")
    done = CliRunner().invoke(treadle, ["goal", "plan", *words])
    assert done.exit_code == 1 and said in str(done.exception) and (tmp_path / "here").read_text() == "mine"
