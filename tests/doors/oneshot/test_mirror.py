"""The kept conversation as the host's own store gets it."""

import json
from pathlib import Path

from tests.stand_ins.sessions import ScriptedSession
from treadle.doors.oneshot.hosting import Mirror
from treadle.session import SessionSpec


async def test_each_line_is_sent_once_and_a_session_without_a_history_sends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"

    without = ScriptedSession(SessionSpec.of(cwd="/", session_id="s1"), [])
    assert Mirror(without).news() == []
    await without.close()
    one, two = {"type": "user", "uuid": "u1"}, {"type": "assistant", "uuid": "u2"}
    path.write_text(json.dumps(one) + "\n")
    mirror = Mirror(without, lambda: str(path))
    assert mirror.news() == [{"type": "transcript_mirror", "filePath": str(path), "entries": [one]}]
    path.write_text(json.dumps(one) + "\n" + json.dumps(two) + "\n")
    assert mirror.news()[0]["entries"] == [two] and mirror.news() == []
