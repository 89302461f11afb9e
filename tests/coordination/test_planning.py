"""The planning directory: the audit trail, and documents that no writer and no crash can damage."""

import calendar
import json
import os
import resource
import signal
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.coordination.conftest import at_once, git
from treadle.coordination.planning import (
    Document,
    Planning,
    one_line,
    places,
    seconds_of,
    timestamp,
)
from treadle.errors import StorageError


@pytest.fixture
def document(planning: Planning) -> Document:
    return Document(planning, "protocol/things.json", "things", "2.0.0")


# The trail...


@given(st.text())
def test_no_value_can_break_a_line(text: str) -> None:
    line = one_line(text)
    assert len(line.splitlines()) <= 1 and "\t" not in line
    assert one_line("plain text: ö → \\ 'x'") == "plain text: ö → \\ 'x'"


def test_text_that_cannot_be_encoded_is_logged_all_the_same(planning: Planning) -> None:
    planning.log("resolve", "set", "a=\ud800\udcff\x1b[31m")
    assert Path(planning.path("protocol.log")).read_text().endswith("a=\\ud800\\udcff\\x1b[31m\n")


@given(st.integers(0, 253402300799))
def test_a_timestamp_can_be_read_back(seconds: int) -> None:
    stamp = timestamp(seconds)
    assert seconds_of(stamp) == seconds == calendar.timegm(time.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ"))


@given(st.text() | st.none() | st.text(alphabet="0123456789-T:Z", min_size=20, max_size=20))
def test_what_is_no_timestamp_is_none_or_a_number(stamp: object) -> None:
    found = seconds_of(stamp)
    assert found is None or isinstance(found, float)


# Where it is...


def test_agents_in_several_worktrees_meet_in_the_main_one(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(project, "worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    assert places(str(tmp_path / "other"))[0] == places(str(project / "src"))[0] == str(project / ".planning")
    monkeypatch.setenv("HEIMDALL_PLANNING_DIR", str(tmp_path / "plans"))
    assert places(str(project))[0] == str(tmp_path / "plans")
    monkeypatch.delenv("HEIMDALL_PLANNING_DIR")
    assert places(str(tmp_path))[0] == str(tmp_path / ".planning")


def test_a_directory_elsewhere_says_when_claims_are_not_seen_from_it(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Planning(project=str(project)).blind() == ""
    plans = tmp_path / "plans"
    monkeypatch.setenv("HEIMDALL_PLANNING_DIR", str(plans))
    assert f"{plans}, which was not there" in Planning(project=str(project)).blind()
    plans.mkdir()
    assert Planning(project=str(project)).blind() == ""
    other = tmp_path / "other"
    git(tmp_path, "init", "-q", str(other))
    (other / "plans").mkdir()
    monkeypatch.setenv("HEIMDALL_PLANNING_DIR", str(other / "plans"))
    assert f"in another repository than {project}" in Planning(project=str(project)).blind()
    assert Planning(project=str(tmp_path)).blind() == ""
    own = project / ".git" / "heimdall" / "ledger" / "claims"
    own.mkdir(parents=True)
    monkeypatch.setenv("HEIMDALL_PLANNING_DIR", str(plans))
    assert Planning(project=str(project)).blind() == ""
    (own / "x.json").write_text("{}")
    assert f"{project} has claims of its own" in Planning(project=str(project)).blind()
    monkeypatch.setenv("HEIMDALL_PLANNING_DIR", str(project / ".planning"))
    same = Planning(project=str(project))
    assert same.blind() == "" and same.live == str(project / ".git" / "heimdall"), "it is where it would be anyway"


# Documents...


def test_what_others_added_to_it_stays(document: Document) -> None:
    document.create()
    Path(document.path).write_text('{"version":"2.1.0","owner":"ann","things":{"x":"1"}}')
    document.change(lambda things: things.update(y="2"))
    assert json.loads(Path(document.path).read_text()) == {
        "version": "2.1.0",
        "owner": "ann",
        "things": {"x": "1", "y": "2"},
    }


@pytest.mark.parametrize("text", ["", "{", "[]", '{"things": []}', '{"version":"3.0.0","things":{}}'])
def test_one_that_cannot_be_used_is_left_as_it_is(document: Document, text: str) -> None:
    document.create()
    Path(document.path).write_text(text)
    with pytest.raises(StorageError, match="by a newer treadle" if "3.0.0" in text else "is damaged: "):
        document.change(lambda things: things.update(y="2"))
    assert Path(document.path).read_text() == text


def in_child(limit: int, document: Document) -> int:
    """Change the document in a process that the kernel kills when a file it writes passes `limit` bytes."""
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            document.change(lambda things: things.update(new="x" * 40))
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


@pytest.mark.slow
def test_a_process_killed_at_any_byte_leaves_the_old_document_or_the_new_one(document: Document) -> None:
    document.change(lambda things: things.update(old="y" * 40))
    killed = 0
    for limit in range(0, 160):
        status = in_child(limit, document)
        killed += os.WIFSIGNALED(status)
        things = document.read()
        assert things in ({"old": "y" * 40}, {"old": "y" * 40, "new": "x" * 40})
        document.change(lambda things: things.pop("new", None))  # and it can still be changed
    assert killed > 100


@pytest.mark.slow
@pytest.mark.timeout(600)  # 200 processes on however busy a machine
def test_200_parallel_writers_keep_200_results(project: Path) -> None:
    assert at_once((["blackboard", "set", f"key{number}", str(number)], {}) for number in range(200)) == [0] * 200
    facts = json.loads((project / ".planning" / "blackboard.json").read_text())["facts"]
    assert facts == {f"key{number}": str(number) for number in range(200)}
    assert len((project / ".planning" / "protocol.log").read_text().splitlines()) == 200
