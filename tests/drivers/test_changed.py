"""A new recording is compared with the old one by the events that it gives, not by its bytes."""

from pathlib import Path

from tests.drivers.changed import compared
from tests.drivers.test_session import HERE
from treadle.drivers.card import cards

OLD = HERE / "codex" / "recordings" / "tool.jsonl"


async def test_what_is_new_is_shown_as_a_difference_of_events(tmp_path: Path) -> None:
    new = tmp_path / "tool.jsonl"
    new.write_text(OLD.read_text().replace("tool-output", "other-output"))
    found = await compared(cards()["codex"], "tool", OLD, new)
    assert [line[0] for line in found if "other-output" in line] == ["+", "+", "+"]
    assert found[0] == "--- codex/tool (before)" and any(line.startswith("-CommandRun") for line in found)


async def test_other_ids_and_times_are_no_difference(tmp_path: Path) -> None:
    new = tmp_path / "tool.jsonl"
    new.write_text(OLD.read_text().replace('"emittedAtMs": 17', '"emittedAtMs": 18'))
    assert new.read_text() != OLD.read_text()
    assert await compared(cards()["codex"], "tool", OLD, new) == []
