from treadle.terminal.marks import PERMISSION, STREAMING, THINKING, TOOL, WORKING, Marks
from treadle.terminal.sequences import SEQUENCE


def found(agent: str, *parts: bytes) -> list[int]:
    marks = Marks(agent)
    return [meaning for part in parts for meaning, _ in marks.feed(part, SEQUENCE)]


def test_words_with_cursor_movements_between_are_one_text() -> None:
    assert found("claude", b"Do\x1b[5Gyou\x1b[9Gwant\x1b[1mto\x1b[0m\x1b[17Gproceed?") == []
    assert found("claude", b"Do\x1b[5Gyou\x1b[9Gwant\x1b[14Gto\x1b[17Gproceed?") == [PERMISSION]


def test_a_mark_cut_between_two_reads_is_found_once() -> None:
    data = "· esc to interrupt · thinking".encode()
    for cut in range(1, len(data)):
        assert found("claude", data[:cut], data[cut:]) == [WORKING, THINKING]


def test_codex_streams_when_it_writes_words_and_nothing_else() -> None:
    assert found("codex", b"\x1b[3;5Hword") == [STREAMING]
    assert found("codex", "• Running sleep 4 • Working (0s • esc to interrupt) › Ask Codex to do".encode())[0] == TOOL
    assert STREAMING not in found("codex", "› Ask Codex to do anything ? for shortcuts".encode())
    assert found("codex", "◦".encode(), b"3") == []
