"""A session on disk: append-only, resumable after kill -9, forkable, rewindable."""

import resource
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.messages import AssistantMessage, ChatMessage, ToolCall, ToolResult, UserMessage
from treadle.agent.transcript import (
    PRUNED,
    Cleared,
    Compacted,
    MessageRecord,
    Pruned,
    Transcript,
    TurnBegan,
    remove,
    well_formed,
)
from treadle.errors import Busy, ConfigError, NotFound, StorageError


def asks(*calls: str) -> AssistantMessage:
    return AssistantMessage(calls=tuple(ToolCall(id=call, name="bash", arguments="{}") for call in calls))


def answers(call: str, text: str = "ok") -> ToolResult:
    return ToolResult(call=call, name="bash", text=text)


def created(tmp_path: Path, *messages: ChatMessage, **more: str) -> Transcript:
    transcript = Transcript.create(cwd=str(tmp_path), model="m", **more)
    transcript.append(*(MessageRecord(message=message) for message in messages))
    return transcript


def test_pruning_compacting_and_clearing_change_the_view_and_never_the_lines(tmp_path: Path) -> None:
    transcript = created(tmp_path, UserMessage(text="hi"), asks("c1"), answers("c1", "long"), UserMessage(text="more"))
    before = Path(transcript.directory, "history.jsonl").read_bytes()
    transcript.append(Pruned(calls=("c1",)))
    assert transcript.view()[2] == answers("c1", PRUNED)
    transcript.append(Compacted(summary="in short", retained=1))
    assert transcript.view() == [UserMessage(text="in short"), UserMessage(text="more")]
    transcript.append(Cleared())
    assert transcript.view() == []
    assert Path(transcript.directory, "history.jsonl").read_bytes().startswith(before)
    transcript.close()


def test_a_torn_last_line_and_garbage_cost_only_themselves(tmp_path: Path) -> None:
    transcript = created(tmp_path, UserMessage(text="hi"), AssistantMessage(text="hello"))
    transcript.close()
    path = Path(transcript.directory, "history.jsonl")
    with path.open("ab") as file:
        file.write(b'\xff garbage\n{"type":"from_the_future","x":1}\n{"type":"message","mess')
    again = Transcript.open(transcript.header.id)
    assert len(again.view()) == 2 and again.skipped == 3
    again.append(MessageRecord(message=UserMessage(text="next")))
    again.close()
    assert Transcript.read(transcript.header.id).view()[-1] == UserMessage(text="next")


def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    transcript = created(tmp_path)
    transcript.close()
    path = Path(transcript.directory, "history.jsonl")
    header = msgspec.json.decode(path.read_bytes().splitlines()[0])
    path.write_bytes(msgspec.json.encode({**header, "format": 99, "version": "9.9"}) + b"\n")
    content = path.read_bytes()
    with pytest.raises(StorageError, match="newer treadle"):
        Transcript.open(transcript.header.id)
    assert path.read_bytes() == content


def test_a_session_is_its_users_alone_and_open_in_one_process_at_a_time(tmp_path: Path) -> None:
    transcript = created(tmp_path)
    directory = Path(transcript.directory)
    assert (directory.stat().st_mode & 0o777, (directory / "history.jsonl").stat().st_mode & 0o777) == (0o700, 0o600)
    with pytest.raises(Busy, match="another process"):
        Transcript.open(transcript.header.id)
    transcript.close()
    Transcript.open(transcript.header.id).close()


def test_a_session_id_is_used_once(tmp_path: Path) -> None:
    created(tmp_path, session_id="mine").close()
    with pytest.raises(ConfigError, match="already"):
        created(tmp_path, session_id="mine")


@pytest.mark.parametrize("bad", ["", "..", "a/b", "../../etc", ".hidden", "a\nb"])
def test_an_id_never_leaves_the_sessions_directory(bad: str) -> None:
    with pytest.raises(NotFound):
        Transcript.read(bad)


def test_a_fork_has_the_past_and_its_own_future(tmp_path: Path) -> None:
    parent = created(tmp_path, UserMessage(text="hi"))
    fork = Transcript.create(cwd=str(tmp_path), model="m", forked=parent)
    fork.append(MessageRecord(message=UserMessage(text="another way")))
    assert len(parent.view()) == 1 and len(Transcript.read(fork.header.id).view()) == 2
    assert fork.header.forked_from == parent.header.id
    parent.close()
    fork.close()


def test_rewind_restores_files_and_conversation_as_they_were_before_the_turn(tmp_path: Path) -> None:
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("one")
    old.chmod(0o755)
    transcript = created(tmp_path, UserMessage(text="first"))
    transcript.append(
        TurnBegan(turn="t2", prompt="second"), MessageRecord(message=UserMessage(text="second"), turn="t2")
    )
    transcript.back_up("t2", str(old))
    old.write_text("two")
    transcript.back_up("t2", str(old))
    transcript.back_up("t2", str(new))
    new.write_text("made")
    transcript.append(TurnBegan(turn="t3", prompt="third"))
    transcript.back_up("t3", str(old))
    old.write_text("three")
    changed = transcript.rewind("t2").changed
    assert sorted(changed) == sorted([str(old), str(new)])
    assert old.read_text() == "one" and old.stat().st_mode & 0o777 == 0o755 and not new.exists()
    assert transcript.view() == [UserMessage(text="first")] and transcript.turns() == []
    with pytest.raises(NotFound):
        transcript.rewind("t2")
    transcript.close()


def test_a_full_disk_is_a_clear_error_and_leaves_whole_lines(tmp_path: Path) -> None:
    transcript = created(tmp_path, UserMessage(text="hi"))
    transcript.close()
    code = """
import resource, signal, sys
from treadle.agent.transcript import MessageRecord
from treadle.agent.transcript import Transcript
from treadle.agent.messages import UserMessage
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
t = Transcript.open(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    for n in range(100):
        t.append(MessageRecord(message=UserMessage(text="x" * 100)))
except Exception as error:
    print(type(error).__name__, error)
"""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)
    done = subprocess.run(
        [sys.executable, "-c", code, transcript.header.id], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.startswith("StorageError cannot append to")
    again = Transcript.open(transcript.header.id)
    assert again.skipped == 0 and len(again.view()) > 2
    again.append(MessageRecord(message=UserMessage(text="there is room again")))
    again.close()


@given(st.lists(st.sampled_from(["user", "text", "ask", "ask2", "answer", "answer2"]), max_size=12))
def test_after_closing_every_call_is_answered_right_behind_its_reply(kinds: list[str]) -> None:
    made: dict[str, ChatMessage] = {
        "user": UserMessage(text="u"),
        "text": AssistantMessage(text="t"),
        "ask": asks("c1"),
        "ask2": asks("c1", "c2"),
        "answer": answers("c1"),
        "answer2": answers("c2"),
    }
    given = [made[kind] for kind in kinds]
    closed = well_formed(given)
    waiting: list[str] = []
    for message in closed:
        if isinstance(message, ToolResult):
            waiting.remove(message.call)
        else:
            assert waiting == []
            waiting = [call.id for call in message.calls] if isinstance(message, AssistantMessage) else []
    assert waiting == [] and well_formed(closed) == closed
    said = [message for message in given if not isinstance(message, ToolResult)]
    assert [message for message in closed if not isinstance(message, ToolResult)] == said


def test_a_compaction_after_a_crash_keeps_what_the_model_kept(tmp_path: Path) -> None:
    """The call that the crash left open was answered when the session was loaded, and counted."""
    transcript = created(tmp_path, UserMessage(text="one"), asks("c1", "c2"), answers("c1"))
    transcript.append(
        MessageRecord(message=UserMessage(text="two")), MessageRecord(message=AssistantMessage(text="three"))
    )
    seen = transcript.view()
    kept = seen[1:]
    transcript.append(Compacted(summary="before", retained=len(kept)))
    assert transcript.view() == [UserMessage(text="before"), *kept]
    transcript.close()


def test_a_removed_session_is_gone_and_one_that_is_open_stays() -> None:
    open_one = Transcript.create(cwd="/x", model="m", session_id="open")
    with pytest.raises(Busy):
        remove("open")
    open_one.close()
    assert Transcript.read("open").header.id == "open"
    remove("open")
    with pytest.raises(NotFound):
        Transcript.read("open")
    with pytest.raises(NotFound):
        remove("open")
