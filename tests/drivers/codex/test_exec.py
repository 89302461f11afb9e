"""A Codex without an app-server is driven by `codex exec --json`."""

import json
from pathlib import Path

import pytest

from tests.drivers.scenarios import Scenario, check_always, play
from treadle.agents import find_agent
from treadle.drivers.codex.driver import ExecSession
from treadle.events import CommandRun, FileChanged, Message, ToolEnded, ToolStarted, Usage, Warned
from treadle.session import Mode
from treadle.settings.config import AgentSettings

OLD = """#!/bin/sh
if [ "$1" = app-server ]; then echo "error: unrecognized subcommand 'app-server'" >&2; exit 2; fi
echo "$*" >> {log}
cat > {prompt}
cat {says}
exit {code}
"""
USED = {"input_tokens": 120, "cached_input_tokens": 20, "output_tokens": 5, "reasoning_output_tokens": 1}
COMMAND = {"id": "item_1", "type": "command_execution", "command": "/bin/bash -lc 'echo hi'"}
PATCH = {"id": "item_2", "type": "file_change", "changes": [{"path": "/w/a.txt", "kind": "add"}], "status": "completed"}
GOOD = [
    {"type": "thread.started", "thread_id": "t-1"},
    {"type": "item.completed", "item": {"id": "item_0", "type": "error", "message": "unknown model"}},
    {"type": "turn.started"},
    {"type": "item.started", "item": {**COMMAND, "status": "in_progress", "exit_code": None}},
    {
        "type": "item.completed",
        "item": {**COMMAND, "status": "completed", "exit_code": 0, "aggregated_output": "hi\n"},
    },
    {"type": "item.completed", "item": PATCH},
    {"type": "item.completed", "item": {"id": "item_3", "type": "agent_message", "text": "All is done."}},
    {"type": "turn.completed", "usage": USED},
]


def old_codex(folder: Path, records: list[dict[str, object]], code: int = 0) -> AgentSettings:
    says = folder / "says"
    says.write_text("".join(json.dumps(record) + "\n" for record in records))
    program = folder / "codex"
    program.write_text(OLD.format(log=folder / "log", prompt=folder / "prompt", says=says, code=code))
    program.chmod(0o755)
    return AgentSettings(command=str(program))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


async def test_a_turn_without_an_app_server(tmp_path: Path, work: Path) -> None:
    agent = find_agent("codex", {"codex": old_codex(tmp_path, GOOD)})
    async with play(agent, Scenario("exec", ("do it", "and again"), lambda played: None, mode="plan"), work) as played:
        assert isinstance(played.session, ExecSession)
        check_always(played)
        assert [end.text for end in played.ends] == ["All is done."] * 2
        assert played.session.id == "t-1"
        assert (tmp_path / "prompt").read_text() == "and again"
        first, second = (tmp_path / "log").read_text().splitlines()
        assert first == "exec --json --skip-git-repo-check --sandbox read-only -"
        assert second.endswith("resume t-1 -")
        assert [event.command for event in played.of(CommandRun)] == ["echo hi"] * 2
        assert played.of(FileChanged)[0].change == "added"
        assert played.of(ToolStarted)[0].command == "echo hi"
        # Its counts are over the thread: the second turn has used nothing, as it told the same again.
        assert [event.prompt_tokens for event in played.of(Usage)] == [120, 0]
        assert [event.code for event in played.of(Warned)] == ["not_enforced", "agent", "agent"]


@pytest.mark.parametrize(("records", "code"), [(GOOD[:4], 0), ([], 1), (GOOD[:1] + [{"type": "turn.failed"}], 1)])
async def test_a_turn_that_breaks_off_has_failed(
    records: list[dict[str, object]], code: int, tmp_path: Path, work: Path
) -> None:
    agent = find_agent("codex", {"codex": old_codex(tmp_path, records, code)})
    async with play(agent, Scenario("exec", ("do it",), lambda played: None), work) as played:
        check_always(played)
        assert played.ends[0].outcome == "failed"


THOUGHT = {"id": "item_4", "type": "reasoning", "text": "hm"}
LIMITED_USE = {"input_tokens": 150, "cached_input_tokens": 20, "output_tokens": 9, "reasoning_output_tokens": 1}


async def test_each_record_is_told_and_what_stays_open_has_failed(tmp_path: Path, work: Path) -> None:
    search = {"id": "item_5", "type": "web_search", "query": "q"}
    failed = {**COMMAND, "id": "item_6", "status": "failed", "exit_code": 3, "aggregated_output": "no"}
    records: list[dict[str, object]] = [
        {"type": "thread.started", "thread_id": "t-2"},
        {"type": "item.started", "item": {"id": "item_3", "type": "agent_message", "text": "half"}},
        {"type": "item.completed", "item": THOUGHT},
        {"type": "item.completed", "item": failed},
        {"type": "item.started", "item": search},
        {"type": "item.completed", "item": {"id": "item_3", "type": "agent_message", "text": "All is done."}},
        {"type": "turn.completed", "usage": LIMITED_USE},
        {"type": "something.later"},
    ]
    agent = find_agent("codex", {"codex": old_codex(tmp_path, records)})
    scenario = Scenario("exec", ("do it",), lambda played: None, mode=None)
    async with play(agent, scenario, work, model="m1", resume="t-1") as played:
        check_always(played)
        assert played.session.id == "t-2" and played.ends[0].iterations == 1
        assert not played.of(Usage), "what was used before it was resumed is not known"
        assert [(event.text, event.kind) for event in played.of(Message)] == [
            ("hm", "thinking"),
            ("All is done.", "text"),
        ]
        (ran,) = played.of(CommandRun)
        assert (ran.command, ran.exit_code, ran.output) == ("echo hi", 3, "no") and ran.call.endswith(":item_6")
        ends = {event.name: (event.ok, event.result) for event in played.of(ToolEnded)}
        assert ends == {"exec_command": (False, "no"), "web_search": (False, "the turn ended before it did")}
        assert (tmp_path / "log").read_text().endswith("--sandbox danger-full-access --model m1 resume t-1 -\n")
        assert "asks no one" in played.of(Warned)[0].message


@pytest.mark.parametrize(("mode", "sandbox"), [("suggest", "read-only"), ("yolo", "danger-full-access")])
async def test_the_mode_chooses_its_own_sandbox_and_an_error_its_words(
    tmp_path: Path, work: Path, mode: Mode, sandbox: str
) -> None:
    records = [{"type": "turn.failed", "error": {"message": "no quota"}}]
    agent = find_agent("codex", {"codex": old_codex(tmp_path, records, 1)})  # type: ignore[arg-type]
    async with play(agent, Scenario("exec", ("do it",), lambda played: None, mode=mode), work) as played:
        error = played.ends[0].error
        assert error is not None and error.message == "no quota"
        assert f"--sandbox {sandbox} -" in (tmp_path / "log").read_text()
        assert played.session.info.capabilities["steer"] == "unsupported"


async def test_records_that_lack_what_they_must_have_are_left_out_with_a_warning(tmp_path: Path, work: Path) -> None:
    broken: list[dict[str, object]] = [{"type": "thread.started"}, {"type": "item.completed", "item": "odd"}]
    agent = find_agent("codex", {"codex": old_codex(tmp_path, [*broken, *GOOD])})
    async with play(agent, Scenario("exec", ("do it",), lambda played: None, mode="plan"), work) as played:
        assert [end.text for end in played.ends] == ["All is done."]
        incomplete = [event for event in played.of(Warned) if event.message == "codex sent an incomplete record"]
    assert len(incomplete) == 2
