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
    head, *rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines if line.startswith("| ")]
    tried = dict(zip(head[1:], (cell.split(", ") for cell in rows[0][1:]), strict=True))
    found: dict[str, dict[str, list[str]]] = {}
    for ability, *cells in rows[1:]:
        for name, text in zip(head[1:], cells, strict=True):
            if seen := re.fullmatch(r"(?:works|refused)(?:, ([\d.]+))?(?:, (\d+-\d+-\d+))?", text):
                version, day = tried[name]
                found.setdefault(name, {})[ability] = [seen[1] or version, seen[2] or day]
    return found


def page() -> str:
    lines = [
        "# What each agent does when it is asked",
        "",
        "Made by `make test-agents` with the real programs, each against a scripted model, and judged by the effect:",
        "*works* as its card declares, or *refused* when asked for. The first row has the version and the day, a cell",
        "what differs from them. A dot: not declared, so refused or not reported.",
        "",
        *table(),
        "",
        "Declared abilities that were seen to work: "
        + ", ".join(f"{name} {count(name)}" for name in PROGRAMS if name in cards())
        + ".",
    ]
    return "\n".join(lines) + "\n"


def last(agent: str, found: dict[str, dict[str, list[str]]]) -> tuple[str, str]:
    """The newest version that was tried, and the day of most of its results."""
    seen = [(version, day) for version, day in found.get(agent, {}).values() if day[:1].isdigit()]
    return max(set(seen), key=lambda each: (seen.count(each), each), default=("", ""))


def cell(agent: str, ability: str, found: dict[str, dict[str, list[str]]]) -> str:
    """Whether it works, and of which version and when, where that differs from the first row."""
    declared = can(cards()[agent].capabilities, ability)
    version, when = found.get(agent, {}).get(ability, ("", ""))
    if not when or not (declared or ability in ASKED_FOR):
        return "not tried yet" if declared else "."
    if not when[0].isdigit():
        return f"{version} {when}"
    usual = last(agent, found)
    differs = [text for text, usually in zip((version, when), usual, strict=True) if text != usually]
    return ", ".join(["works" if declared else "refused", *((version, when) if version != usual[0] else differs)])


def table() -> list[str]:
    found, names = kept(), [name for name in PROGRAMS if name in cards()]
    rows = ["| ability | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    rows.append("| tried | " + " | ".join(", ".join(last(name, found)) for name in names) + " |")
    return [*rows, *(f"| {each} | {' | '.join(cell(name, each, found) for name in names)} |" for each in ABILITIES)]


def count(agent: str) -> str:
    """How many of the declared abilities have been shown."""
    if agent not in PROGRAMS:
        return ""
    found = kept().get(agent, {})
    declared = [name for name in ABILITIES if can(cards()[agent].capabilities, name)]
    return f"{sum(found.get(name, ['', 'x'])[1][:1].isdigit() for name in declared)}/{len(declared)}"
