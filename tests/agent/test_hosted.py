"""What a session of our own agent asks of its host, and allows for longer."""

import asyncio
import os
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.agent.checkouts import checkout, git
from tests.agent.conftest import Opened
from tests.agent.opened import DELEGATE_WRITE, SAY, WRITE, of, turn
from tests.scripts import calls, says
from treadle.agent.stored_sessions import list_sessions
from treadle.errors import Denied
from treadle.events import (
    Asked,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Warned,
)
from treadle.io.sandbox import methods
from treadle.session import (
    Answer,
    Change,
    Confinement,
    HookVerdict,
    OwnProgram,
    Prompt,
    Rules,
)
from treadle.sessions.totals import run_turn
from treadle.settings import config


async def test_with_nobody_to_ask_an_ask_is_a_denial_that_says_so(opened: Opened) -> None:
    session = await opened(WRITE + SAY)
    events = await turn(session)
    [denied] = of(events, ToolDenied)
    assert denied.reason == "write_file (write) requires approval in suggest mode" and denied.by == "nobody"
    assert of(events, Asked) == [] and not Path(session.spec.cwd, "made.txt").exists()
    assert events[-1].text == "done"


async def test_allowed_always_is_a_rule_in_the_persons_own_settings(opened: Opened) -> None:
    session = await opened(WRITE + WRITE + SAY, answers=True)
    events = await turn(session, answer=Answer(decision="allow", scope="always"))
    assert len(of(events, Asked)) == 1 and [event.code for event in of(events, Warned)] == ["rule_kept"]
    rule = f"write_file({session.spec.cwd}/made.txt)"
    assert config.load(session.spec.cwd, {}).settings.permissions.allow == (rule,)
    later = await opened(WRITE + SAY)
    assert of(await turn(later), ToolDenied) == []


async def test_a_person_can_change_what_is_done_but_not_past_a_deny_rule(opened: Opened) -> None:
    session = await opened(WRITE + WRITE + SAY, answers=True, rules=Rules(deny=("Write(secret*)",)))
    changed = iter(["other.txt", "secret.txt"])
    events = []
    async for event in run_turn(session, "go"):
        events.append(event)
        if isinstance(event, Asked):
            args = {"file_path": next(changed), "content": "x"}
            await session.answer(event.request, Answer(decision="allow", changed_args=args))
    assert of(events, ToolStarted)[0].args["file_path"] == "other.txt"
    assert os.listdir(session.spec.cwd) == ["other.txt"]
    assert len(of(events, ToolDenied)) == 1


async def test_what_a_person_allowed_for_the_session_is_allowed_to_subagents_too(opened: Opened) -> None:
    session = await opened(WRITE + SAY + DELEGATE_WRITE, answers=True)
    await turn(session, "first", answer=Answer(decision="allow", scope="session"))
    async with asyncio.timeout(60):
        await session.tasks.run_agent("write the file", label="x", agent_type=None, background=False)
    assert len(of(session.events().ready(), Asked)) == 1


class Heard:
    """A program that hears every event, and denies those that it is told to."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.against: set[str] = set()

    async def event(self, name: str, payload: dict[str, Any]) -> HookVerdict | None:
        self.told.append((name, payload))
        return HookVerdict(decision="deny", reason="not now") if name in self.against else None

    def of(self, name: str) -> list[dict[str, Any]]:
        return [payload for one, payload in self.told if one == name]

    @property
    def program(self) -> OwnProgram:
        return OwnProgram(event=self.event)


async def test_a_hook_may_be_against_a_command_of_the_project(opened: Opened, work: Path) -> None:
    heard = Heard()
    heard.against = {"UserPromptExpansion"}
    session = await opened(SAY, program=heard.program)
    (work / ".treadle" / "commands").mkdir(parents=True)
    (work / ".treadle" / "commands" / "fix.md").write_text("Fix it.")
    result = await session.command("fix", "a b")
    assert result is not None and not result.ok and result.message == "a hook forbids /fix: not now"
    [told] = heard.of("UserPromptExpansion")
    assert told == {
        "expansion_type": "slash_command",
        "command_name": "fix",
        "command_args": "a b",
        "command_source": "projectSettings",
        "prompt": "/fix a b",
    }
    heard.against = set()
    assert (result := await session.command("fix", "")) is not None and result.turn
    assert heard.of("UserPromptExpansion")[1]["prompt"] == "/fix"


async def test_a_hook_may_be_against_another_model(opened: Opened, tmp_path: Path) -> None:
    heard = Heard()
    heard.against = {"PreModelSwitch"}
    session = await opened(SAY, program=heard.program)
    (tmp_path / "other.toml").write_text('model = "other"\n' + SAY)
    before = session.provider
    with pytest.raises(Denied, match=f"the model stays {before.model}, because a hook forbids the change: not now"):
        await session.configure(Change(model=f"scripted:{tmp_path}/other.toml"))
    assert session.provider is before and not heard.of("PostModelSwitch")


async def test_a_turn_is_stopped_with_its_reason_and_without_one_nothing_is(opened: Opened) -> None:
    session = await opened(says("late", delay=60))
    await session.stop_turn("nothing runs")
    events = session.events(after=-1)
    await session.prompt(Prompt(text="go"))
    async with asyncio.timeout(60):
        async for event in events:
            if isinstance(event, TurnStarted):
                assert session.hook_facts()["prompt_id"] == session.hook_facts()["prompt_id"]
                await session.stop_turn("enough")
            if isinstance(event, TurnEnded):
                break
    assert isinstance(event, TurnEnded) and event.outcome == "interrupted"
    events.close()


async def test_a_host_may_read_only_what_no_rule_hides_whatever_link_leads_there(opened: Opened, work: Path) -> None:
    session = await opened(SAY, rules=Rules(deny=("Read(secret*)",)))
    (work / "link").symlink_to("secret.txt")
    assert [session.may_read(str(work / name)) for name in ("a.txt", "secret.txt", "link")] == [True, False, False]


@pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")
@pytest.mark.parametrize("decision", ["allow", "deny", None])
async def test_a_person_is_asked_about_a_file_that_the_gate_took_out(
    opened: Opened, work: Path, decision: Literal["allow", "deny"] | None
) -> None:
    checkout(work)
    command = "echo agents > AGENTS.md; git add .; git -c user.name=a -c user.email=a@b commit -qm planted"
    script = calls("bash", {"command": command}) + SAY
    session = await opened(script, mode="full-auto", answers=decision is not None, confinement=Confinement(use="on"))
    events = await turn(session, answer=Answer(decision=decision) if decision else None)
    assert [event.paths for event in of(events, Asked)] == ([(str(work / "AGENTS.md"),)] if decision else [])
    allowed = decision == "allow"
    assert (work / "AGENTS.md").exists() == allowed and of(events, ToolEnded)[0].ok == allowed
    assert (git(work, "log", "-1", "--format=%s") == "planted") == allowed
    assert "taken out" in of(events, ToolEnded)[0].result or allowed


@pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")
async def test_nobody_is_asked_about_a_file_that_the_gate_took_out_and_a_rule_forbids(
    opened: Opened, work: Path
) -> None:
    checkout(work)
    script = calls("bash", {"command": 'python3 -c \'open(chr(65) + "GENTS.md", "w").write("x")\''}) + SAY
    given: dict[str, Any] = {"mode": "full-auto", "answers": True, "confinement": Confinement(use="on")}
    session = await opened(script, rules=Rules(deny=("Edit(AGENTS.md)",)), **given)
    events = await turn(session, answer=Answer(decision="allow"))
    assert of(events, Asked) == [] and not (work / "AGENTS.md").exists()
    assert "taken out" in of(events, ToolEnded)[0].result


async def test_a_session_of_an_sdk_that_dies_in_its_first_turn_is_not_taken_for_deleted(
    opened: Opened, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CLAUDE_CODE_ENTRYPOINT", "sdk-py")
    session = await opened(WRITE + SAY, answers=True, env={"CLAUDE_CODE_ENTRYPOINT": "sdk-py"})
    listed = []
    async for event in run_turn(session, "go"):
        if isinstance(event, Asked):
            listed = [(each.id, each.turns) for each in list_sessions(str(work))]
            await session.answer(event.request, Answer(decision="deny"))
    assert listed == [(session.id, 1)]
