"""Commands that look: status, cost, context, tools, skills."""

from pathlib import Path

from tests.agent.commands.conftest import ran
from tests.agent.conftest import SAY, Opened
from tests.scripts import calls
from treadle.agent.context import estimate
from treadle.agent.messages import AssistantMessage, ToolResult, UserMessage
from treadle.session import Prompt
from treadle.sessions.session import run_turn


async def test_status_says_where_the_session_stands(opened: Opened) -> None:
    session = await opened()
    async for _ in run_turn(session, "go"):
        pass
    shown = await ran(session, "status")
    assert session.id in shown and "suggest" in shown and "scripted" in shown and "$0.2500" in shown
    assert "turns      1\n" in shown and "sealed     no: what it starts is not confined" in shown


async def test_cost_is_what_was_spent_by_kind_of_token(opened: Opened) -> None:
    session = await opened(SAY + SAY)
    assert "nothing yet" in await ran(session, "cost")
    for _ in range(2):
        async for _ in run_turn(session, "go"):
            pass
    shown = await ran(session, "cost")
    assert "$0.5000" in shown and "input tokens        14" in shown and "output tokens       6" in shown
    assert "estimate" not in shown and "model calls         2" in shown


async def test_an_unknown_price_is_not_a_zero(opened: Opened) -> None:
    session = await opened('[[reply]]\ntext = "done"\n')
    async for _ in run_turn(session, "go"):
        pass
    shown = await ran(session, "cost")
    assert "unknown" in shown and "$" not in shown and "estimate" in shown


async def test_context_says_how_full_it_is_and_with_what(opened: Opened) -> None:
    session = await opened("context_window = 1000\n" + SAY)
    async for _ in run_turn(session, "x" * 400):
        pass
    shown = await ran(session, "context")
    assert "of 1,000 tokens (1%)" in shown and "by you         about 104 tokens" in shown


async def test_tools_are_those_that_are_offered(opened: Opened) -> None:
    assert "bash (execute)" in await ran(await opened(), "tools")
    shown = await ran(await opened(tools=("read_file",)), "tools")
    assert shown.startswith("read_file (read)") and "bash" not in shown
    assert "No tools" in await ran(await opened(tools=()), "tools")


async def test_a_session_with_a_name_and_skills_says_so_also_while_a_turn_runs(opened: Opened, work: Path) -> None:
    session = await opened('[[reply]]\ntext = "at last"\ndelay = 60\n')
    assert "There are no skills here" in await ran(session, "skills")
    for name, about in (("weave", "description: How to weave"), ("bare", "")):
        (work / ".treadle" / "skills" / name).mkdir(parents=True)
        (work / ".treadle" / "skills" / name / "SKILL.md").write_text(f"---\n{about}\n---\nx")
    bare = work / ".treadle" / "skills" / "bare" / "SKILL.md"
    assert await ran(session, "skills") == f"/bare   {bare}\n/weave  How to weave"
    shown = (await ran(session, "status")).splitlines()
    assert shown[1:3] == [f"session    {session.id}", f"directory  {work}"]
    assert "tasks      0 running, 0 ended" in shown and "cost       nothing yet" in shown and "tokens     0" in shown
    await ran(session, "rename night shift")
    await session.prompt(Prompt(text="go"))
    shown = (await ran(session, "status")).splitlines()
    assert shown[1] == f"session    {session.id} (night shift)"
    assert any(line.startswith("turns ") and line.endswith(", one is running") for line in shown)


async def test_running_and_ended_tasks_are_counted_apart(opened: Opened) -> None:
    session = await opened('[[reply]]\nwhen = "count"\ntext = "3"\n[[reply]]\nwhen = "wait"\ntext = "x"\ndelay = 60\n')
    await ran(session, "agent run count")
    await ran(session, "agent run --background wait")
    assert "tasks      1 running, 1 ended" in await ran(session, "status")


async def test_context_is_told_by_who_wrote_it(opened: Opened) -> None:
    script = calls("glob", {"pattern": "*.none"}) + SAY
    session = await opened("context_window = 4000\n" + script, mode="yolo")
    async for _ in run_turn(session, "hello"):
        pass
    rows = dict(line.split("  ", 1) for line in (await ran(session, "context")).splitlines())
    kinds = [rows[name].strip() for name in ("by you", "by the model", "from tools")]
    sizes = [int(kind.split()[1]) for kind in kinds]
    by_kind = [UserMessage, AssistantMessage, ToolResult]
    assert sizes == [sum(estimate(m) for m in session.context.messages if type(m) is kind) for kind in by_kind]
    assert all(sizes) and rows["messages"].strip() == "4" and "4,000" in rows["in use"]
    assert rows["system prompt"].strip() == f"about {len(session.system().encode()) // 4:,} tokens"


async def test_the_first_sentence_of_a_tool_says_what_it_is_for(opened: Opened) -> None:
    shown = await ran(await opened(tools=("todo",)), "tools")
    assert shown == "todo (other)  Keep a list of the steps of a longer piece of work."
