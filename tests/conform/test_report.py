"""What was found, in the forms that people and programs read."""

import xml.etree.ElementTree as ET

import pytest

from treadle.conform.kit import Kit, Outcome, Ruling
from treadle.conform.report import as_data, badge, counts, junit, summary, table

KIT = Kit(protocol="worker", specification="s", clauses=[])


def ruling(outcome: Outcome, seen: str = "seen") -> Ruling:
    return Ruling(sentence=f"it is {outcome}", section="All", outcome=outcome, seen=seen, seconds=0.5)


MIXED = [ruling("kept"), ruling("broken", "a \x00 byte & <more>"), ruling("untried")]


def test_what_was_not_tried_counts_neither_way() -> None:
    assert counts(MIXED) == (1, 1, 1)
    assert summary(KIT, MIXED) == "worker: 1 of 2 clauses kept, 1 not tried"
    assert summary(KIT, MIXED[:1]) == "worker: 1 of 1 clauses kept"
    assert as_data(KIT, "./w", MIXED)["broken"] == 1


def test_junit_has_a_case_for_each_clause_whatever_the_program_wrote() -> None:
    assert junit(KIT, "./w", MIXED).startswith(b"<?xml")
    suite = ET.fromstring(junit(KIT, "./w", MIXED))
    assert dict(suite.attrib) == {"name": "worker: ./w", "tests": "3", "failures": "1", "skipped": "1"}
    assert [[part.tag for part in case] for case in suite] == [[], ["failure"], ["skipped"]]
    assert suite[1][0].get("message") == "a \ufffd byte & <more>"


def test_a_badge_is_green_only_when_nothing_is_broken() -> None:
    assert "1/2" in badge(KIT, MIXED) and "#cf222e" in badge(KIT, MIXED)
    assert "1/1" in badge(KIT, MIXED[:1]) and "#2da44e" in badge(KIT, MIXED[:1])
    ET.fromstring(badge(KIT, MIXED))


def test_two_programs_stand_side_by_side() -> None:
    with pytest.raises(ValueError):
        table(KIT, {"ours": MIXED, "theirs": MIXED[:1]})
    lines = table(KIT, {"ours": [ruling("kept")], "theirs": [ruling("kept", "x")]}).splitlines()
    assert lines[0] == "| worker | ours | theirs |"
    assert lines[2:] == ["| clauses kept | 1 of 1 | 1 of 1 |", "| it is kept | yes | yes |"]
