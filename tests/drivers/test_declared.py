"""What a card declares works, by its effect in a recording. Every ability that an agent declares has a test here or
names the test that shows it; `tests/live/test_abilities.py` does the same with the real programs."""

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.drivers.scenarios import NAMED, fits, play
from tests.drivers.test_session import EACH_DRIVER, RECORDED, SEEN, UNHURRIED, replayed
from treadle.drivers.card import Card
from treadle.errors import Unsupported
from treadle.events import Warned
from treadle.session import Change, Instructions, Reasoning, SessionSpec, Toolset
from treadle.sessions.abilities import ABILITIES, can

HERE = Path(__file__).parent
ONESHOT = "../doors/oneshot"
ELSEWHERE: dict[str, str] = {
    "servers": "test_servers.py::test_a_tool_of_a_given_server_is_judged_and_told_as_any_other",
    "images": "test_images.py::test_an_image_is_sent_with_the_prompt",
    "resume": "test_session.py::test_a_session_that_goes_on_counts_only_what_is_new",
    "fork": "acp/test_session.py::test_without_load_it_is_resumed_and_the_newest_is_found",
    "commands": "acp/test_session.py::test_its_slash_commands_are_prompts",
    "model": "acp/test_session.py::test_a_model_is_chosen_by_its_id_or_its_name",
    "switch_model": "claude/test_session.py::test_the_model_and_the_mode_change_during_a_session",
    "mode": "claude/test_session.py::test_the_model_and_the_mode_change_during_a_session",
    "questions": "claude/test_session.py::test_its_question_goes_to_the_person",
    "tasks": "claude/test_session.py::test_a_background_task_wakes_it_for_a_turn_of_its_own",
    "session_id": "claude/test_session.py::test_the_id_of_a_new_session_is_a_uuid",
    "system_prompt": "acp/test_session.py::test_instructions_come_before_the_first_prompt_only",
    "subagents": "claude/test_session.py::test_it_is_told_what_the_session_is_to_be_and_what_changes",
    "hooks": "claude/test_gate.py::test_a_hook_forbids_what_the_rules_allow",
    "own_tools": "claude/test_gate.py::test_a_tool_of_the_program_runs_in_the_program",
    **dict.fromkeys(
        ("servers_alone", "sources", "bare", "plugins"),
        "test_declared.py::test_what_claude_code_takes_when_it_is_started_is_on_its_command_line",
    ),
    "add_dirs": "test_declared.py::test_a_further_directory_reaches_the_agent",
    "effort": "test_declared.py::test_an_effort_reaches_the_agent_or_is_refused",
    "unsaved": "test_declared.py::test_an_agent_that_can_keep_nothing_is_told_to",
    "sandbox": "test_confined.py::test_a_program_that_is_driven_can_write_in_its_workspace_only",
    "structured_output": f"{ONESHOT}/test_run.py::test_an_answer_that_fits_the_schema_is_in_the_result_as_a_value",
}
"""What shows the others, with a recording or an agent that is played."""
LIVE_ONLY = {"thinking", "toolset", "skills"}
"""These are shown with the real programs alone."""
UNDECLARED = {"interrupt_call", "resume_at", "session_name", "repeats", "tuning"}
"""No agent declares these."""


def test_every_ability_has_a_test_that_shows_it() -> None:
    assert {*SEEN, *ELSEWHERE, *LIVE_ONLY, *UNDECLARED} == ABILITIES.keys()
    declared = {name for card in RECORDED.values() for name in ABILITIES if can(card.capabilities, name)}
    assert not declared & UNDECLARED, "one that declares it needs a test"
    for card in RECORDED.values():
        shown = {scenario for ability, (scenario, _) in SEEN.items() if can(card.capabilities, ability)}
        assert all(fits(card, NAMED[scenario]) for scenario in shown), card.name
    for ability, named in ELSEWHERE.items():
        file, _, function = named.partition("::")
        assert f"def {function}(" in (HERE / file).read_text(), f"{ability} is shown by {named}, which is not there"


@pytest.mark.parametrize("card", EACH_DRIVER)
async def test_a_system_prompt_reaches_the_agent(card: Card, tmp_path: Path) -> None:
    """On its input, however each is told."""
    noted = tmp_path / "noted"
    spec = SessionSpec.of(cwd=str(tmp_path), append_system_prompt="MARKED", mode="full-auto")
    agent = replayed(card, "text", patience=UNHURRIED, noted=noted)
    async with play(agent, NAMED["text"], tmp_path, instructions=spec.instructions) as played:
        assert played.ends[0].outcome == "completed"
    if card.name != "pi":  # its extension asks for it, which a recording without it does not
        assert "MARKED" in noted.read_text()


async def _started(card: Card, spec: SessionSpec, tmp_path: Path) -> str:
    """All that the agent is given when a session is opened: its command line, and what it hears."""
    noted, line = tmp_path / "noted", tmp_path / "line"
    agent = replayed(card, "text", patience=UNHURRIED, noted=noted)
    keeps = (
        "import sys; open(sys.argv[1], 'w').write(' '.join(sys.argv)); import os; os.execv(sys.argv[2], sys.argv[2:])"
    )
    argv = (sys.executable, "-S", "-c", keeps, str(line), *agent.launch.argv)
    agent.agent.launch = msgspec.structs.replace(agent.launch, argv=argv)
    session = await agent.open(msgspec.structs.replace(spec, cwd=str(tmp_path)))
    await session.close()
    return line.read_text() + noted.read_text()


@pytest.mark.parametrize(
    "card", [card for card in RECORDED.values() if can(card.capabilities, "add_dirs")], ids=lambda card: card.name
)
async def test_a_further_directory_reaches_the_agent(card: Card, tmp_path: Path) -> None:
    """Or it asks about what is not in its own, as our rules then allow."""
    beside = tmp_path / "beside"
    beside.mkdir()
    given = await _started(card, SessionSpec(cwd="/", mode="suggest", add_dirs=(str(beside),)), tmp_path)
    assert (str(beside) in given) == (card.capabilities["add_dirs"] == "native")


@pytest.mark.parametrize(("name", "sign"), [("claude", "--no-session-persistence"), ("codex", '"ephemeral": true')])
async def test_an_agent_that_can_keep_nothing_is_told_to(name: str, sign: str, tmp_path: Path) -> None:
    spec = SessionSpec.of(cwd="/", mode="suggest", persist=False)
    assert sign in await _started(RECORDED[name], spec, tmp_path)
    assert sign not in await _started(RECORDED[name], SessionSpec(cwd="/", mode="suggest"), tmp_path)


@pytest.mark.parametrize(
    ("name", "sign"),
    [("claude", "--effort low"), ("codex", '"model_reasoning_effort": "low"'), ("pi", "--thinking low")],
)
async def test_an_effort_reaches_the_agent_or_is_refused(name: str, sign: str, tmp_path: Path) -> None:
    def wanting(**wanted: Any) -> SessionSpec:
        return SessionSpec.of(cwd=str(tmp_path), mode="suggest", thinking=Reasoning(**wanted))

    assert sign in await _started(RECORDED[name], wanting(effort="low"), tmp_path)
    with pytest.raises(Unsupported, match=f"{name} does not support the effort of 100 tokens"):
        await replayed(RECORDED[name], "text", patience=UNHURRIED).open(wanting(tokens=100))


@pytest.mark.parametrize("name", ["claude", "codex", "pi"])
async def test_an_effort_that_was_set_is_not_forgotten_in_silence(name: str, tmp_path: Path) -> None:
    spec = SessionSpec.of(cwd=str(tmp_path), mode="suggest", thinking=Reasoning(effort="low"))
    session = await replayed(RECORDED[name], "text", patience=UNHURRIED).open(spec)
    try:
        with pytest.raises(Unsupported, match="cannot go back to the effort of its settings"):
            await session.configure(Change(thinking=Reasoning()))
    finally:
        await session.close()


@pytest.mark.parametrize("answers", [True, False])
async def test_codex_may_ask_questions_when_a_person_is_there(answers: bool, tmp_path: Path) -> None:
    """Its model is refused the tool otherwise."""
    given = await _started(RECORDED["codex"], SessionSpec(cwd="/", mode="suggest", answers=answers), tmp_path)
    assert ('"default_mode_request_user_input": true' in given) == answers


@pytest.mark.parametrize("name", ["codex", "pi"])
async def test_one_that_keeps_what_goes_on_says_so(name: str, tmp_path: Path) -> None:
    agent = replayed(RECORDED[name], "text", patience=UNHURRIED)
    with pytest.raises(Unsupported, match="always saves a resumed"):
        await agent.open(SessionSpec.of(cwd=str(tmp_path), resume="x", persist=False))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (SessionSpec(cwd="/", tools=Toolset(only_servers=True)), "--strict-mcp-config"),
        (SessionSpec(cwd="/", instructions=Instructions(sources=("user",))), "--setting-sources=user"),
        (SessionSpec(cwd="/", instructions=Instructions(project=False)), "--strict-mcp-config --setting-sources="),
        (SessionSpec(cwd="/", instructions=Instructions(plugins=("/kit",))), "--plugin-dir /kit"),
    ],
    ids=["servers_alone", "sources", "bare", "plugins"],
)
async def test_what_claude_code_takes_when_it_is_started_is_on_its_command_line(
    spec: SessionSpec, words: str, tmp_path: Path
) -> None:
    given = await _started(RECORDED["claude"], spec, tmp_path)
    assert words in given


async def test_hooks_of_the_settings_that_an_agent_does_not_run_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path))
    warnings = []
    for text in ("", '[[hooks.pre_tool]]\ncommand = "exit 2"\n'):
        (tmp_path / "config.toml").write_text(text)
        session = await replayed(RECORDED["codex"], "text", patience=UNHURRIED).open(SessionSpec(cwd=str(tmp_path)))
        found = [event.message for event in session.events().ready() if isinstance(event, Warned)]
        warnings.append(any("does not run the hooks of the settings" in message for message in found))
        await session.close()
    assert warnings == [False, True]
