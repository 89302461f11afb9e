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
    """An agent's line has its version and the earliest day of its results; what it does not name was shown."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, version, day, less in re.findall(LINE, PAGE.read_text() if PAGE.exists() else ""):
        if name in cards():
            wanted = {*ASKED_FOR, *declared(name)} - {*less.split(", ")}
            found[name] = {ability: [version, day] for ability in wanted}
    return found


LINE = r"(?m)^- (\w+) ([\d.]+), ([\d-]+)[^:]*: [\d/]+(?:, not shown: ([\w, ]+))?$"


def declared(agent: str) -> list[str]:
    return [name for name in ABILITIES if can(cards()[agent].capabilities, name)]


def page() -> str:
    lines = [
        "# What each agent does when it is asked",
        "",
        "Made by `make test-agents` with the real programs, each against a scripted model. For each agent:",
        "version, days, and how many [declared abilities](agents.md#what-they-can-be-asked-for) were seen to work.",
        f"Without the ability, {' and '.join(ASKED_FOR)} were refused.",
        "",
        *(line(name) for name in PROGRAMS if name in cards()),
    ]
    return "\n".join(lines) + "\n"


def line(agent: str) -> str:
    found = {name: seen for name, seen in kept().get(agent, {}).items() if seen[1][:1].isdigit()}
    version, days = max((seen[0] for seen in found.values()), default=""), sorted({seen[1] for seen in found.values()})
    when = " to ".join(dict.fromkeys([*days[:1], *days[-1:]]))
    lacks = [name for name in declared(agent) if found.get(name, [""])[0] != version]
    without = f", not shown: {', '.join(lacks)}" if lacks else ""
    return f"- {agent} {version}, {when}: {len(declared(agent)) - len(lacks)}/{len(declared(agent))}{without}"
