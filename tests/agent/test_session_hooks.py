"""All hooks of one session together: each is asked in its own form, and none of them hides another."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from treadle.agent.hooks import SessionHooks
from treadle.agent.transcript import Transcript
from treadle.session import Access, Mode, OwnProgram, Use
from treadle.settings.claude import CommandHook
from treadle.settings.config import Hook, HookSettings

ENV = {"PATH": "/usr/bin:/bin"}
LIST = Access(tool="bash", kind="execute", command="ls")


@pytest.fixture
def transcript(tmp_path: Path) -> Iterator[Transcript]:
    made = Transcript.create(cwd=str(tmp_path), model="script")
    yield made
    made.close()


def hooks(
    transcript: Transcript,
    *events: tuple[str, str],
    program: OwnProgram | None = None,
    ours: tuple[Hook, ...] = (),
    mode: Mode | None = "plan",
    **more: Any,
) -> SessionHooks:
    commands = tuple(CommandHook(event=event, matcher="", command=command) for event, command in events)
    started = {"warn": lambda text: None, "env": ENV, **more}
    settings = HookSettings(events=commands, pre_tool=ours)
    own = program or OwnProgram()
    return SessionHooks(own, settings, lambda: transcript, lambda: mode, cwd=transcript.header.cwd, **started)


def heard(transcript: Transcript) -> dict[str, Any]:
    return dict(json.loads((Path(transcript.header.cwd) / "heard.json").read_text()))


async def test_a_hook_in_claudes_form_is_told_the_session_the_mode_and_where_the_history_is(
    transcript: Transcript,
) -> None:
    await hooks(transcript, ("SessionStart", "cat > heard.json")).started("startup", "m")
    found = heard(transcript)
    assert (found["hook_event_name"], found["source"]) == ("SessionStart", "startup")
    assert found["session_id"] == transcript.header.id and "permission_mode" not in found, "as in Claude Code"
    await hooks(transcript, ("UserPromptSubmit", "cat > heard.json")).prompted("go")
    assert heard(transcript)["permission_mode"] == "plan"
    assert Path(found["transcript_path"]).is_relative_to(transcript.directory)
    assert Path(found["transcript_path"]).is_file()


async def test_an_sdk_of_claude_finds_the_history_where_claude_code_has_it(
    transcript: Transcript, state_home: Path
) -> None:
    path = Path(hooks(transcript, entrypoint="sdk-py").transcript_path)
    assert path.is_relative_to(state_home / ".claude" / "projects") and path.name == f"{transcript.header.id}.jsonl"


async def test_a_prompt_is_refused_or_added_to_and_without_a_hook_for_it_none_is_asked(transcript: Transcript) -> None:
    assert await hooks(transcript, ("UserPromptSubmit", "echo no >&2; exit 2")).prompted("go") == ("no", "")
    refused, more = await hooks(transcript, ("UserPromptSubmit", "echo be quick")).prompted("go")
    assert refused is None and "be quick" in more
    assert await hooks(transcript, ("SessionStart", "exit 2")).prompted("go") == (None, "")


async def test_each_kind_of_hook_can_refuse_a_call_that_the_others_allow(transcript: Transcript) -> None:
    async def never(use: Use) -> str:
        return "not today"

    by_program = hooks(transcript, ("PreToolUse", "true"), program=OwnProgram(pre_tool=never))
    by_event = hooks(transcript, ("PreToolUse", "echo no >&2; exit 2"))
    for one, why in ((by_program, "not today"), (by_event, "no")):
        verdict = await one.judge("1", "bash", {"command": "ls"}, LIST)
        assert (verdict.decision, verdict.reason) == ("deny", why)
    by_own = hooks(transcript, ("PreToolUse", "true"), ours=(Hook(command="echo never >&2; exit 2"),))
    assert (await by_own.judge("1", "bash", {"command": "ls"}, LIST)).decision == ""
    assert "never" in (await by_own.pre_tool("bash", {"command": "ls"}, LIST) or "")


async def test_a_subagents_history_is_beside_that_of_its_session_and_its_hooks_know_more(
    transcript: Transcript,
) -> None:
    made = hooks(
        transcript, ("PreToolUse", "cat > heard.json"), agent=("agent_7", "Explore"), about=lambda: {"effort": "high"}
    )
    own = Transcript.create(cwd=transcript.header.cwd, model="m", persist=False)
    path = Path(made.written(own))
    assert path.name == "agent-agent_7.jsonl" and path.parent.name == "subagents" and path.is_file()
    assert path.parents[1] == Path(transcript.directory) / transcript.header.id
    await made.judge("1", "bash", {"command": "ls"}, LIST)
    found = heard(transcript)
    assert (found["effort"], found["agent_id"], found["agent_type"]) == ("high", "agent_7", "Explore")
