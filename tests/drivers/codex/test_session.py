"""What the app server says out of step."""

from pathlib import Path

from tests.drivers.scenarios import NAMED, USED, play
from tests.drivers.test_contract import HERE, replayed
from treadle.drivers.card import cards
from treadle.events import Usage

RESUMED = HERE / "codex" / "recordings" / "resumed.jsonl"


async def test_what_the_resumed_thread_used_before_is_not_counted_again(tmp_path: Path) -> None:
    """It tells the use of the earlier turn after the thread is resumed, maybe while the next one starts."""
    lines = RESUMED.read_text().splitlines()
    told = next(at for at, line in enumerate(lines) if "tokenUsage/updated" in line)
    asked = next(at for at, line in enumerate(lines) if 'turn/start"' in line)
    lines.insert(asked, lines.pop(told))
    assert 'turn/start"' in lines[asked - 1] and "tokenUsage/updated" in lines[asked]
    late = tmp_path / "late.jsonl"
    late.write_text("\n".join(lines))
    async with play(replayed(cards()["codex"], str(late)), NAMED["text"], tmp_path, resume="the-old-one") as played:
        assert [usage.output_tokens for usage in played.of(Usage)] == [USED.output]
