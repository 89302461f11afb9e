"""The list of sessions, from the two ends of their histories."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle.agent.messages import UserMessage
from treadle.agent.stored_sessions import TAIL, SessionDocument, as_markdown, find_session, list_sessions, under_way
from treadle.agent.transcript import (
    KILLED,
    MessageRecord,
    Named,
    Rewound,
    Switched,
    Transcript,
    TurnBegan,
    TurnOver,
    listing_of,
)
from treadle.errors import NotFound
from treadle.redact import Redactor

LONG = UserMessage(text="x" * TAIL)


def created(tmp_path: Path, **more: str) -> Transcript:
    return Transcript.create(cwd=str(tmp_path), model="m", **more)


def history(transcript: Transcript) -> Path:
    return Path(transcript.directory, "history.jsonl")


def test_sessions_are_listed_latest_first_and_found_by_id_beginning_or_name(tmp_path: Path) -> None:
    first = created(tmp_path, session_id="aaa-1")
    second = created(tmp_path, session_id="bbb-2")
    second.append(TurnBegan(turn="t", prompt="what is this"), Named(name="my work"))
    os.utime(history(first), (1, 1))
    entries = list_sessions(str(tmp_path))
    assert [entry.id for entry in entries] == ["bbb-2", "aaa-1"]
    assert entries[0].name == "my work" and entries[0].prompt == "what is this" and entries[0].turns == 1
    assert find_session("my work") == "bbb-2" == find_session("bbb") == find_session("", str(tmp_path))
    assert list_sessions("/elsewhere") == []
    with pytest.raises(NotFound, match="no session"):
        find_session("nothing")
    with pytest.raises(NotFound, match="no session to continue"):
        find_session("", "/elsewhere")
    first.close()
    second.close()


def test_what_stands_for_an_outside_agent_s_session_is_offered_to_no_one(tmp_path: Path) -> None:
    with under_way("claude:1", str(tmp_path), "p"):
        (entry,) = list_sessions(theirs=True)
        assert (entry.theirs, entry.ending, list_sessions()) == ("claude:1", "running", [])
    assert list_sessions(theirs=True) == []


def test_what_is_no_history_is_left_out(tmp_path: Path) -> None:
    transcript = created(tmp_path)
    root = Path(transcript.directory).parent
    newer = history(transcript).read_bytes().replace(b'"format":1', b'"format":99')
    for name, content in (("empty", b""), ("garbage", b"\xff\n"), ("newer", newer)):
        (root / name).mkdir()
        (root / name / "history.jsonl").write_bytes(content)
    (root / "nothing").mkdir()
    (root / "directory" / "history.jsonl").mkdir(parents=True)
    assert [entry.id for entry in list_sessions()] == [transcript.header.id]
    transcript.close()


STEPS = st.lists(st.sampled_from(["begin", "end", "name", "switch", "rewind", "say", "old rewind"]), max_size=12)


@given(STEPS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_end_tells_what_the_whole_would(tmp_path: Path, steps: list[str]) -> None:
    transcript = created(tmp_path)
    begun: list[str] = []
    for number, step in enumerate(steps):
        match step:
            case "begin":
                begun.append(f"t{number}")
                transcript.append(TurnBegan(turn=begun[-1], prompt=f"prompt {number}"))
            case "end" if begun:
                transcript.append(TurnOver(turn=begun[-1], outcome="completed", listing=transcript.listing))
            case "name":
                transcript.append(Named(name=f"name {number}"))
            case "switch":
                transcript.append(Switched(model=f"model {number}"))
            case "rewind" if begun:
                transcript.rewind(begun.pop())
            case "old rewind" if begun:
                transcript.append(Rewound(turn=begun.pop()))
                transcript.listing = listing_of(transcript.header, transcript.records)
            case _:
                transcript.append(MessageRecord(message=LONG))
    transcript.close()
    [entry] = [entry for entry in list_sessions() if entry.id == transcript.header.id]
    whole = listing_of(transcript.header, transcript.records)
    assert transcript.listing == whole
    told = (entry.model, entry.name, entry.prompt, entry.turns, entry.ending)
    assert told == (whole.model, whole.name, whole.prompt, whole.turns, whole.ending.replace("running", KILLED))


@pytest.mark.parametrize(
    ("over", "closed", "ending"),
    [
        (TurnOver(turn="t", outcome="completed"), True, "completed"),
        (TurnOver(turn="t", outcome="failed", reason="no key"), True, "failed: no key"),
        (None, False, "running"),
        (None, True, KILLED),
    ],
)
def test_each_session_is_listed_and_shown_with_how_its_last_turn_ended(
    over: TurnOver | None, closed: bool, ending: str, tmp_path: Path
) -> None:
    transcript = created(tmp_path, session_id="aaa")
    transcript.append(TurnBegan(turn="t", prompt="p"), *([over] if over else []))
    if closed:
        transcript.close()
    (entry,) = list_sessions()
    shown = as_markdown(SessionDocument(Transcript.read("aaa"), Redactor()))
    assert (entry.ending, f"The last turn: {ending}\n" in shown) == (ending, ending != "completed")
    transcript.close()
    again = Transcript.open("aaa")
    assert (again.killed, again.listing.ending) == (over is None, KILLED if over is None else ending)
    again.close()
    assert Transcript.read("aaa").listing.ending == (KILLED if over is None else ending)
