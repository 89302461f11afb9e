"""What a run is asked to do, and where it is on disk."""

import os
from pathlib import Path

import msgspec
import pytest

from tests.host.conftest import order
from treadle.host.job import Backend, Job, RunRecord, absolute_command, runs_directory


def test_files_of_the_command_get_their_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "host.js").touch()
    assert absolute_command(["node", "host.js", "--flag", "none.js"]) == [
        "node",
        f"{tmp_path}/host.js",
        "--flag",
        "none.js",
    ]
    assert absolute_command(["./host.js"]) == [f"{tmp_path}/host.js"]


def test_the_record_of_a_run_is_read_as_it_was_written(source: Path) -> None:
    record = RunRecord(run_id="r1", order=order(source), backend="b", mode="worktree", started=1.5, receipts="/x")
    assert msgspec.json.decode(msgspec.json.encode(record), type=RunRecord) == record


def test_runs_are_below_the_state_directory() -> None:
    assert runs_directory() == os.path.join(os.environ["TREADLE_HOME"], "host")


def test_what_a_job_does_not_say_changes_nothing_and_trusts_no_one(source: Path) -> None:
    backend = Backend(name="b", argv=("b",))
    job = Job(order=order(source), backend=backend)
    assert not backend.ours and backend.env == ()
    assert (job.mode, job.apply, job.anyway, job.keep_workspace) == ("staged", False, False, False)
    assert job.confinement.use == "possible"
