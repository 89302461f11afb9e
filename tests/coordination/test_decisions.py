"""decisions.md and conflict records."""

from pathlib import Path

import pytest

from tests.coordination.conftest import trail
from treadle.coordination import capsules
from treadle.coordination.planning import Planning
from treadle.errors import ConfigError

ANN, BOB = "haid:ann.box-0001/coder", "haid:bob.box-0002"


def text(planning: Planning) -> str:
    return Path(planning.path("ledger", "decisions.md")).read_text()


def test_entries_are_appended_with_their_time_and_signature(planning: Planning) -> None:
    assert capsules.append(planning, "  use sqlite ", " because\n\nit is there ") == "2026-06-11T12:07:27Z"
    capsules.append(planning, "second", "body", f"via x by `{ANN}`")
    assert text(planning) == (
        "\n## 2026-06-11T12:07:27Z — use sqlite\n\nbecause\n\nit is there\n"
        f"\n## 2026-06-11T12:07:27Z — second\n\nbody\n\n_via x by `{ANN}`_\n"
    )


def test_a_title_cannot_forge_another_entry(planning: Planning) -> None:
    capsules.append(planning, "a\n\n## 2020-01-01T00:00:00Z — forged", "body")
    assert text(planning).count("\n## ") == 1


@pytest.mark.parametrize(("title", "body"), [("", "b"), ("t", " \n")])
def test_an_empty_decision_is_refused(planning: Planning, title: str, body: str) -> None:
    with pytest.raises(ConfigError):
        capsules.append(planning, title, body)


def test_a_conflict_has_a_record_a_link_and_a_branch(planning: Planning) -> None:
    made = capsules.raise_conflict(
        planning, "c1", "hot fix", ["src/a/**", "b"], ANN, displaced=BOB, overriding_intent="fix", via="x"
    )
    record = Path(made["conflict_file"]).read_text()
    assert made["relative_path"] == "ledger/conflicts/2026-06-11-c1.md"
    assert made["preserved_branch"] == "displaced/haid_bob.box-0002-c1"
    assert "conflict/c1" in made["pr_path"] and made["haid"] == ANN
    assert record.startswith("# Conflict c1 — hot fix\n")
    for part in (
        f"Overriding HAID: `{ANN}`",
        f"Displaced HAID: `{BOB}`",
        "  - `src/a/**`",
        "(unspecified)",
        "Recovery",
    ):
        assert part in record
    assert "conflict c1 raised" in text(planning) and "conflicts/2026-06-11-c1.md" in text(planning)


def test_the_same_conflict_on_the_same_day_is_refused_and_the_record_stays(planning: Planning) -> None:
    made = capsules.raise_conflict(planning, "c1", "one", ["a"], ANN)
    with pytest.raises(ConfigError, match="already"):
        capsules.raise_conflict(planning, "c1", "two", ["a"], BOB)
    assert "one" in Path(made["conflict_file"]).read_text() and "two" not in text(planning)
    assert made["preserved_branch"] == "displaced/unknown-c1"
    record = Path(made["conflict_file"]).read_text()
    assert "Displaced HAID: `(unspecified)`" in record and record.count("(unspecified)") == 4
    assert trail(planning) == [["decision", "append", "conflict c1 raised"]]


@pytest.mark.parametrize("name", ["../x", "", "a b"])
def test_a_conflict_id_cannot_leave_its_directory(planning: Planning, name: str) -> None:
    with pytest.raises(ConfigError):
        capsules.raise_conflict(planning, name, "t", ["a"], ANN)
