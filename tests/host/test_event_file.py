"""Events in a file that only their owner reads, without secrets."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treadle.errors import StorageError
from treadle.host.event_file import EventFile, RedactedEvents, encode_events
from treadle.redact import MARK, Redactor
from treadle.wire.sidecar.receipts import AnyAgentEvent, AssistantDelta, AssistantSaid, ToolCalled

KEY = "sk-proj-abcdefghijklmnop1234"
EVENTS: list[AnyAgentEvent] = [
    AssistantSaid(ts="2026-01-01T00:00:00Z", text='the key is "correct-horse-battery"\u2028'),
    ToolCalled(ts="2026-01-01T00:00:00Z", tool_name="bash", input={"command": "echo correct-horse-battery"}),
]


def test_it_is_private_also_when_it_was_there_before(tmp_path: Path) -> None:
    place = tmp_path / "events"
    place.write_text("old")
    place.chmod(0o644)
    file = EventFile(str(place))
    file.write(EVENTS, encode_events(EVENTS))
    file.close()
    assert stat.S_IMODE(os.stat(place).st_mode) == 0o600 and place.read_bytes() == encode_events(EVENTS)


def test_secrets_are_taken_out_wherever_they_are(tmp_path: Path) -> None:
    file = EventFile(str(tmp_path / "events"), Redactor(["correct-horse-battery"]))
    file.write(EVENTS, encode_events(EVENTS))
    file.close()
    text = (tmp_path / "events").read_text()
    assert "correct-horse" not in text
    assert [json.loads(line)["type"] for line in text.split("\n")[:-1]] == ["assistant_message", "tool_call"]


def test_what_is_held_back_is_written_with_what_ends_it_or_at_the_close(tmp_path: Path) -> None:
    ts = "2026-01-01T00:00:00Z"
    file = EventFile(str(tmp_path / "events"), Redactor())
    steps: list[list[AnyAgentEvent]] = [
        [],
        [AssistantDelta(ts=ts, text="one\nsk-")],
        [AssistantDelta(ts=ts, text="x"), AssistantSaid(ts=ts, text="said")],
        [AssistantDelta(ts=ts, text=KEY[:12])],
        [AssistantDelta(ts=ts, text=f"{KEY[12:]} end")],
    ]
    seen = []
    for events in steps:
        file.write(events, encode_events(events))
        lines = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
        seen.append("".join(line["text"] for line in lines))
    assert seen == ["", "one\n", "one\nsk-xsaid", "one\nsk-xsaid", "one\nsk-xsaid"]
    file.close()
    lines = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert "".join(line["text"] for line in lines) == f"one\nsk-xsaid{MARK} end" and {line["ts"] for line in lines} == {
        ts
    }


def test_a_place_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="none"):
        EventFile(str(tmp_path / "none" / "events"))
    full = EventFile("/dev/full")
    with pytest.raises(StorageError):
        full.write([], b"x" * 100_000)
    full.close()


def cleaned(*events: dict[str, Any]) -> list[dict[str, Any]]:
    redacted = RedactedEvents(Redactor())
    return [clean for event in events for clean in redacted.clean(event)] + list(redacted.rest())


def test_a_key_that_a_tool_prints_in_pieces_is_removed_while_another_tool_prints() -> None:
    first, second = KEY[:10], KEY[10:]
    found = cleaned(
        {"type": "tool_output", "call": "a", "text": f"x {first}"},
        {"type": "tool_output", "call": "b", "text": "fine\n"},
        {"type": "message", "text": "meanwhile"},
        {"type": "tool_output", "call": "a", "text": f"{second} y"},
        {"type": "tool_ended", "call": "a", "result": f"x {KEY} y"},
    )
    assert KEY not in str(found) and second not in str(found)
    printed = "".join(each["text"] for each in found if each["type"] == "tool_output" and each["call"] == "a")
    assert printed == f"x {MARK} y" and found[-1]["result"] == f"x {MARK} y"
    assert [each["type"] for each in found][-2:] == ["tool_output", "tool_ended"]


def test_a_private_key_over_many_pieces_is_removed_whole() -> None:
    lines = ["-----BEGIN PRIVATE KEY-----\n", "MIIEow\n", "abc\n", "-----END PRIVATE KEY-----\n", "after\n"]
    for kind in ("text_delta", "thinking_delta", "tool_output"):
        found = cleaned(*({"type": kind, "text": line} for line in lines))
        assert "".join(each["text"] for each in found) == f"{MARK}\nafter\n"


def test_a_value_whose_name_says_that_it_is_a_secret_is_removed_from_a_tools_arguments() -> None:
    (found,) = cleaned({"type": "tool_started", "args": {"password": "hunter two", "n": 1}, "name": "login"})
    assert found == {"type": "tool_started", "args": {"password": MARK, "n": 1}, "name": "login"}


PEM = "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----"
PIECES = st.sampled_from(
    ["a", "word ", "\n", "sk-", "proj-abcdefgh", "ijklmnop1234", "-", "--", "-----BEGIN PRIV", "ATE KEY-----"]
    + ["-----END PRIVATE KEY-----", "hun", "ter2-is-it", "pass", 'word="', "sesame-open", "é", "x" * 5000, ""]
)


def written(batches: list[list[str | None]], redactor: Redactor) -> list[str]:
    """What a file has of texts that were said in pieces: None in a batch is another event, which ends a text."""
    redacted = RedactedEvents(redactor)
    ts, out = "2026-01-01T00:00:00Z", b""
    for batch in batches:
        events: list[AnyAgentEvent] = [
            AssistantSaid(ts=ts, text="") if text is None else AssistantDelta(ts=ts, text=text) for text in batch
        ]
        if events:
            out += redacted.clean_lines(events, encode_events(events))
    found = [json.loads(line) for line in out.splitlines()] + list(redacted.rest())
    said = [None if event["type"] == "assistant_message" else event["text"] for event in found]
    return joined(said)


def joined(texts: list[str | None]) -> list[str]:
    """The texts between other events."""
    whole: list[str] = [""]
    for text in texts:
        whole = [*whole, ""] if text is None else [*whole[:-1], whole[-1] + text]
    return whole


@given(st.lists(st.lists(st.one_of(PIECES, st.none()), max_size=5), max_size=6))
@example([["x", "sk-"], ["proj-abcdefgh", "ijklmnop1234"]])
@example([["--"], ["---BEGIN PRIVATE KEY-----\nabc"], ["d\n"], ["-----END PRIVATE KEY-----", "after"]])
@example([["a\n", "word "], [None, "word "], ["a", None]])
@example([["x" * 5000], ["x" * 5000], ["x sk-"], ["proj-abcdefghijklmnop1234"]])
def test_however_texts_come_in_pieces_and_batches_the_file_has_what_redacting_the_whole_gives(
    batches: list[list[str | None]],
) -> None:
    redactor = Redactor(["hunter2-is-it"])
    whole = joined([text for batch in batches for text in batch])
    assert written(batches, redactor) == [redactor.text(text) for text in whole]
