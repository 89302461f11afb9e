"""Events in a file that only their owner reads, without secrets."""

import json
import os
import stat
from pathlib import Path

import pytest

from treadle.errors import StorageError
from treadle.host.event_file import EventFile, encode_events
from treadle.redact import Redactor
from treadle.wire.sidecar.receipts import AssistantSaid, ToolCalled

EVENTS = [
    AssistantSaid(ts="2026-01-01T00:00:00Z", text='the key is "correct-horse-battery"\u2028'),
    ToolCalled(ts="2026-01-01T00:00:00Z", tool_name="bash", input={"command": "echo correct-horse-battery"}),
]


def test_it_is_private_also_when_it_was_there_before(tmp_path: Path) -> None:
    place = tmp_path / "events"
    place.write_text("old")
    place.chmod(0o644)
    file = EventFile(str(place))
    file.write(encode_events(EVENTS))
    file.close()
    assert stat.S_IMODE(os.stat(place).st_mode) == 0o600 and place.read_bytes() == encode_events(EVENTS)


def test_secrets_are_taken_out_wherever_they_are(tmp_path: Path) -> None:
    file = EventFile(str(tmp_path / "events"), Redactor(["correct-horse-battery"]))
    file.write(encode_events(EVENTS))
    file.close()
    text = (tmp_path / "events").read_text()
    assert "correct-horse" not in text
    assert [json.loads(line)["type"] for line in text.split("\n")[:-1]] == ["assistant_message", "tool_call"]


def test_a_place_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="none"):
        EventFile(str(tmp_path / "none" / "events"))
    full = EventFile("/dev/full")
    with pytest.raises(StorageError):
        full.write(b"x" * 100_000)
    full.close()
