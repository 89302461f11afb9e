"""Briefs: what they contain, what they never contain, and when one is refused."""

from pathlib import Path

import pytest

from treadle.coordination.briefs import anchors, build, section
from treadle.coordination.capsules import Capsules
from treadle.coordination.ledger import Symbols
from treadle.coordination.planning import Planning
from treadle.errors import ConfigError, NotFound


@pytest.fixture
def planning(tmp_path: Path) -> Planning:
    planning = Planning(str(tmp_path / ".planning"), project=str(tmp_path), clock=lambda: 1_781_179_647.0)
    Symbols(planning).set("F12", "src/matching/engine.ts")
    Capsules(planning).write("w1", "did one")
    Capsules(planning).write("w2", "did two", depends="w1")
    return planning


def test_a_brief_has_its_sections_in_their_layout(planning: Planning) -> None:
    brief = build(planning, "3.2", "implement\nbook diff", "F12,F99", "w2", "INVARIANTS.md")
    lines = brief.splitlines()
    assert lines[0] == "=== DELTA BRIEF — task 3.2 ==="
    assert lines[1].startswith("#") and lines[2] == ""
    assert lines[3:7] == ["TASK SPEC:", "  implement", "  book diff", ""]
    assert lines[7:11] == ["SYMBOLS (referenced only):", "  F12 = src/matching/engine.ts", "  F99 = <UNRESOLVED>", ""]
    assert lines[11].startswith("CONTEXT CAPSULES (")
    assert lines.index("  [w1] WHAT: did one") + 1 == lines.index("  [w2] (after w1) WHAT: did two")
    assert brief.endswith("\n\nINVARIANTS REF: INVARIANTS.md\n\n")


def test_sections_that_were_not_asked_for_are_absent(planning: Planning) -> None:
    brief = build(planning, "3.2", "spec")
    assert not any(word in brief for word in ("SYMBOLS", "CAPSULES", "INVARIANTS"))


def test_an_unknown_capsule_always_refuses(planning: Planning) -> None:
    with pytest.raises(NotFound, match="w9"):
        build(planning, "3.2", "spec", "", "w9")
    assert "\tbrief\trefused\t" in Path(planning.path("protocol.log")).read_text()


def test_a_spec_that_names_a_section_is_that_section(planning: Planning, tmp_path: Path) -> None:
    text = "# One\nfirst\n## Part\nof it\n### Deeper\nx\n## Next\ny\n# Two\nlast"
    (tmp_path / "SPEC.md").write_text(text)
    assert section(str(tmp_path), "SPEC.md") == text
    assert section(str(tmp_path), "SPEC.md#part") == "## Part\nof it\n### Deeper\nx"
    assert section(str(tmp_path), "SPEC.md#two") == "# Two\nlast"
    assert "  ## Part\n  of it\n" in build(planning, "1", "SPEC.md#part")
    for words in ("SPEC.md", "SPEC.md#", "see SPEC.md#part", "SPEC.txt#part"):
        assert f"TASK SPEC:\n  {words}\n" in build(planning, "1", words)
    for lost in ("SPEC.md#none", "GONE.md#part"):
        with pytest.raises(NotFound, match="does not exist"):
            build(planning, "1", lost)


def test_strict_refuses_what_leads_nowhere_and_names_it(planning: Planning, tmp_path: Path) -> None:
    (tmp_path / "INV.md").write_text("# Rules\n\n## Balances sum to zero\n")
    assert build(planning, "3.2", "spec", "F12", "w2", "INV.md#balances-sum-to-zero", strict=True)
    for symbols, invariants in (("F99", ""), ("", "GONE.md"), ("", "INV.md#no-such-heading"), ("", ".")):
        with pytest.raises(NotFound):
            build(planning, "3.2", "spec", symbols, "", invariants, strict=True)


def test_a_brief_without_a_task_or_a_spec_is_refused(planning: Planning) -> None:
    with pytest.raises(ConfigError):
        build(planning, "", "spec")
    with pytest.raises(ConfigError):
        build(planning, "3.2", "")


def test_headings_are_named_as_github_names_them() -> None:
    text = "# One: *two* (three)\n## Same\n## Same\n```\n# not one\n```\n### Same ##\n####### seven\n#no\n"
    assert anchors(text) == {"one-two-three", "same", "same-1", "same-2"}
