"""Which abilities the tests with real programs have shown, when, and with which version: kept beside the programs and
on a page of the docs, so that runs by agent and by part, here and elsewhere, add up to one table."""

import json
import re
import time
from pathlib import Path
from typing import Any

from tests.drivers.programs import CACHE, PROGRAMS
from treadle.drivers.card import cards
from treadle.sessions.abilities import ABILITIES, can

ASKED_FOR = ("changed_input", "steer")
"""What the scenarios ask of every agent, also of those that do not declare it."""
KEPT = CACHE / "abilities.json"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "agents-abilities.md"
SCENARIOS: dict[str, tuple[str, ...]] = {
    "text": ("streaming", "usage", "cost", "iterations"),
    "tool": ("tools", "results"),
    "file": ("file_changes",),
    "allowed": ("permissions",),
    "denied": ("permissions",),
    "ruled": ("rules",),
    "interrupted": ("interrupt",),
    "another_input": ("changed_input",),
    "told_more": ("steer",),
}
TRIALS: dict[str, tuple[str, ...]] = {
    "told": ("system_prompt", "thinking"),
    "commanded": ("commands",),
    "planned": ("mode",),
    "switched": ("model", "switch_model"),
    "paced": ("effort",),
    "schema": ("structured_output",),
    "beside": ("add_dirs",),
    "forgotten": ("unsaved",),
    "numbered": ("session_id",),
    "barely": ("bare",),
    "sourced": ("sources",),
    "alone": ("servers_alone",),
    "limited": ("toolset",),
    "delegated": ("subagents",),
    "skilled": ("skills",),
    "extended": ("plugins",),
}
"""The trials of test_abilities.py."""
TESTS: dict[str, tuple[str, ...]] = {
    "test_an_image_of_a_prompt_reaches_the_model": ("images",),
    "test_a_given_server_is_started_and_its_tool_is_called": ("servers",),
    "test_a_background_task_wakes_it_for_a_turn_of_its_own": ("tasks",),
    "test_its_question_goes_to_the_person_and_the_answer_to_the_model": ("questions",),
    "test_hooks_of_the_program_change_a_call_add_to_its_result_and_see_the_end": ("hooks",),
    "test_a_tool_of_the_program_is_offered_and_called": ("own_tools",),
}


def shown_by(function: str, params: dict[str, Any]) -> tuple[str, ...]:
    """The abilities that this test shows when it passes."""
    if "fork" in params:
        return ("fork",) if params["fork"] else ("resume",)
    if "scenario" in params:
        return SCENARIOS.get(params["scenario"].name, ())
    return TRIALS.get(str(params.get("trial")), ()) or TESTS.get(function, ())


def keep(agent: str, ability: str, passed: bool) -> None:
    found = kept()
    day = time.strftime("%Y-%m-%d")
    found.setdefault(agent, {})[ability] = [PROGRAMS[agent].version, day if passed else f"did not work on {day}"]
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    KEPT.write_text(json.dumps(found))


def kept() -> dict[str, dict[str, list[str]]]:
    """What the page says, and what was seen here since."""
    found = {name: dict(row) for name, row in on_the_page().items()}
    for name, row in (json.loads(KEPT.read_text()) if KEPT.exists() else {}).items():
        found.setdefault(name, {}).update(row)
    return found


def on_the_page() -> dict[str, dict[str, list[str]]]:
    lines = PAGE.read_text().splitlines() if PAGE.exists() else []
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines if line.startswith("| ")]
    found: dict[str, dict[str, list[str]]] = {}
    for ability, *cells in rows[1:]:
        for name, text in zip(rows[0][1:], cells, strict=True):
            if seen := re.fullmatch(r"(?:works|refused), (\S+), (\S+)", text):
                found.setdefault(name, {})[ability] = [*seen.groups()]
    return found


def page() -> str:
    lines = [
        "# What each agent does when it is asked",
        "",
        "Made by `make test-agents` with the real programs, each against a scripted model, and judged by the effect:",
        "*works* as its card declares, or *refused* although it was asked for, with the version and the day on which",
        "that was last seen. A cell without them was not tried with the real program; what a card does not declare is",
        "refused, or warned about, by one check, which `make test` tries with every card.",
        "",
        *table(),
        "",
        "Declared abilities that were seen to work: "
        + ", ".join(f"{name} {count(name)}" for name in PROGRAMS if name in cards())
        + ".",
    ]
    return "\n".join(lines) + "\n"


def cell(agent: str, ability: str, found: dict[str, dict[str, list[str]]]) -> str:
    """When it was last true, and of which version."""
    declared = can(cards()[agent].capabilities, ability)
    version, when = found.get(agent, {}).get(ability, ("", ""))
    if not when or not (declared or ability in ASKED_FOR):
        known = ABILITIES[ability]
        refused = "refused" if known.refusal else "not reported"
        return "declared, not tried yet" if declared else refused
    return f"{'works' if declared else 'refused'}, {version}, {when}" if when[0].isdigit() else f"{version} {when}"


def table() -> list[str]:
    found, names = kept(), [name for name in PROGRAMS if name in cards()]
    rows = ["| ability | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    return [*rows, *(f"| {each} | {' | '.join(cell(name, each, found) for name in names)} |" for each in ABILITIES)]


def count(agent: str) -> str:
    """How many of the declared abilities have been shown."""
    if agent not in PROGRAMS:
        return ""
    found = kept().get(agent, {})
    declared = [name for name in ABILITIES if can(cards()[agent].capabilities, name)]
    return f"{sum(found.get(name, ['', 'x'])[1][:1].isdigit() for name in declared)}/{len(declared)}"
