"""What a card declares works, by its effect in a recording. Every ability that an agent declares has a test here or
names the test that shows it; `tests/live/test_abilities.py` does the same with the real programs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.scenarios import NAMED, Played, play
from tests.drivers.test_session import RECORDED, UNHURRIED, replayed
from treadle.drivers.card import Card
from treadle.events import Asked, CommandRun, FileChanged, TextDelta, ToolDenied, ToolEnded, ToolStarted, Usage
from treadle.session import SessionSpec
from treadle.sessions.abilities import ABILITIES, can

SEEN: dict[str, tuple[str, Callable[[Played], Any]]] = {
    "streaming": ("text", lambda played: len(played.of(TextDelta)) > 1),
    "usage": ("text", lambda played: played.of(Usage)),
    "cost": ("text", lambda played: any(usage.cost_usd is not None for usage in played.of(Usage))),
    "iterations": ("text", lambda played: played.ends[0].iterations == 1),
    "tools": ("tool", lambda played: played.of(ToolStarted) and played.of(ToolEnded)),
    "results": ("tool", lambda played: "tool-output" in played.of(ToolEnded)[0].result or played.of(CommandRun)),
    "file_changes": ("file", lambda played: "+hello" in played.of(FileChanged)[0].diff),
    "permissions": ("allowed", lambda played: played.of(Asked) and list(played.tools().values()) == ["ok"]),
    "rules": ("ruled", lambda played: played.of(ToolDenied)[0].by == "rule"),
    "interrupt": ("interrupted", lambda played: played.ends[0].outcome == "interrupted"),
    "changed_input": ("another_input", lambda played: "touch other.txt" in str(played.of(ToolStarted)[0].command)),
    "steer": ("told_more", lambda played: not played.refused),
}
"""The scenario in which an ability can be seen, and what is seen of it."""
HERE = Path(__file__).parent
ONESHOT = "../doors/oneshot"
ELSEWHERE: dict[str, str] = {
    "servers": "test_servers.py::test_a_tool_of_a_given_server_is_judged_and_told_as_any_other",
    "images": "test_images.py::test_an_image_is_sent_with_the_prompt",
    "resume": "test_contract.py::test_a_session_that_goes_on_counts_only_what_is_new",
    "fork": "acp/test_session.py::test_without_load_it_is_resumed_and_the_newest_is_found",
    "commands": "acp/test_session.py::test_its_slash_commands_are_prompts",
    "model": "acp/test_session.py::test_a_model_is_chosen_by_its_id_or_its_name",
    "switch_model": "claude/test_session.py::test_the_model_and_the_mode_change_during_a_session",
    "mode": "claude/test_session.py::test_the_model_and_the_mode_change_during_a_session",
    "questions": "claude/test_session.py::test_its_question_goes_to_the_person",
    "tasks": "claude/test_session.py::test_a_background_task_wakes_it_for_a_turn_of_its_own",
    "session_id": "claude/test_session.py::test_the_id_of_a_new_session_is_a_uuid",
    "system_prompt": "acp/test_session.py::test_instructions_come_before_the_first_prompt_only",
    "subagents": "claude/test_forms.py::test_a_subagent_has_claude_codes_names_for_tools",
    "hooks": "claude/test_gate.py::test_a_hook_forbids_what_the_rules_allow",
    "own_tools": "claude/test_gate.py::test_a_tool_of_the_program_runs_in_the_program",
    "structured_output": f"{ONESHOT}/test_run.py::test_an_answer_that_fits_the_schema_is_in_the_result_as_a_value",
}
"""What shows the others, with a recording or an agent that is played."""
LIVE_ONLY = {"thinking", "servers_alone", "toolset", "skills"}
"""These are shown with the real programs alone: thinking, and what Claude's SDK asks for."""
CASES = [(card, name) for card in RECORDED.values() for name in SEEN if can(card.capabilities, name)]


@pytest.mark.parametrize(("card", "ability"), CASES, ids=lambda case: case if isinstance(case, str) else case.name)
async def test_what_is_declared_is_seen_in_a_recording(card: Card, ability: str, tmp_path: Path) -> None:
    scenario, seen = SEEN[ability]
    async with play(replayed(card, scenario, patience=UNHURRIED), NAMED[scenario], tmp_path) as played:
        assert seen(played), f"{card.name} declares {ability}"


def test_every_ability_has_a_test_that_shows_it() -> None:
    assert {*SEEN, *ELSEWHERE, *LIVE_ONLY} | {"interrupt_call", "effort"} == ABILITIES.keys()
    declared = {name for card in RECORDED.values() for name in ABILITIES if can(card.capabilities, name)}
    assert not declared & {"interrupt_call", "effort"}, "no agent declares these: one that does needs a test"
    for ability, named in ELSEWHERE.items():
        file, _, function = named.partition("::")
        assert f"def {function}(" in (HERE / file).read_text(), f"{ability} is shown by {named}, which is not there"


@pytest.mark.parametrize("card", RECORDED.values(), ids=lambda card: card.name)
async def test_a_system_prompt_reaches_the_agent(card: Card, tmp_path: Path) -> None:
    """On its input, however each is told."""
    noted = tmp_path / "noted"
    spec = SessionSpec.of(cwd=str(tmp_path), append_system_prompt="MARKED", mode="full-auto")
    agent = replayed(card, "text", patience=UNHURRIED, noted=noted)
    async with play(agent, NAMED["text"], tmp_path, instructions=spec.instructions) as played:
        assert played.ends[0].outcome == "completed"
    if card.name != "pi":  # its extension asks for it, which a recording without it does not
        assert "MARKED" in noted.read_text()
