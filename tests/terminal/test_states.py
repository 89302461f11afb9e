"""Which state can follow which."""

from pathlib import Path

from treadle.terminal.states import AT_WORK, DEAD, STARTING, TRANSITIONS, WAITING

DOCS = Path(__file__).parents[2] / "docs" / "explanation" / "terminals.md"


def test_what_was_at_rest_or_at_work_does_not_start_again() -> None:
    assert {state for state, others in TRANSITIONS.items() if STARTING in others} == {*WAITING, "unknown"}


GROUPS = {"at_work": AT_WORK, "asks": WAITING}
"""States that are drawn as one, because the same can follow them."""


def picture() -> str:
    """The table as a diagram for the documentation."""
    group = {state: name for name, states in GROUPS.items() for state in states}
    lines = ["stateDiagram-v2", f"    [*] --> {STARTING}"]
    for state, others in TRANSITIONS.items():
        for other in [other for other in TRANSITIONS if other in others]:
            one, two = group.get(state, state), group.get(other, other)
            line = f"    {one} --> {two}"
            if one != two and line not in lines:
                lines.append(line)
    return "\n".join([*lines, f"    {DEAD} --> [*]"])


def test_the_picture_in_the_documentation_is_drawn_from_the_table() -> None:
    assert f"```mermaid\n{picture()}\n```" in DOCS.read_text()
