"""What the app server says out of step."""

from pathlib import Path

from tests.drivers.scenarios import NAMED, USED, play
from tests.drivers.test_session import HERE, replayed
from treadle.drivers.card import cards
from treadle.drivers.codex.session import CodexSession
from treadle.events import Message, TurnStarted, Usage
from treadle.session import SessionSpec

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


async def test_a_resumed_thread_has_its_history(tmp_path: Path) -> None:
    session = await replayed(cards()["codex"], "resumed").open(SessionSpec.of(cwd=str(tmp_path), resume="the-old-one"))
    try:
        assert isinstance(session, CodexSession)
        past = session.history()
    finally:
        await session.close()
    assert [type(event) for event in past] == [TurnStarted, Message]
    assert isinstance(past[0], TurnStarted) and past[0].prompt == "[[hello]]"


async def test_how_full_the_context_is_is_known_after_a_call(tmp_path: Path) -> None:
    async with play(replayed(cards()["codex"], "text"), NAMED["text"], tmp_path) as played:
        info = played.session.info
    assert info.context_used == 125 and info.context_window is not None and info.context_window > 125
