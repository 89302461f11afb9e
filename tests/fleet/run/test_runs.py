"""The directory of an attempt: what a runner has to know, and whether one lives."""

import os
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tests.fleet.conftest import spec
from treadle.fleet.orders import begun
from treadle.fleet.run import runs
from treadle.io.files import locked


def job(name: str = "a", attempt: int = 1) -> runs.RunJob:
    given = spec(id=name)
    order = replace(begun(given, 1.0), attempt=attempt, node="n1")
    return runs.RunJob(spec=given, order=order, role="worker:n1", lease=2.0)


def test_a_runner_reads_what_the_node_has_written_and_no_password_is_in_it(
    state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    path = runs.prepare(job())
    runs.note_runner(path)
    assert synced == [], "no run outlives its machine, so none waits for the disk"
    assert path == runs.directory("a", 1) and runs.read_job(path) == job()
    assert os.stat(path).st_mode & 0o077 == 0
    assert "password" not in Path(path, "job.json").read_text()


def test_a_runner_lives_while_it_holds_the_lock_and_is_the_process_that_it_says(state_home: Path) -> None:
    path = runs.prepare(job())
    assert runs.runner_of(path) is None
    runs.note_runner(path)
    assert runs.runner_of(path) is None, "a number alone may be another process's by now"
    with locked(runs.lock_of(path), 0):
        found = runs.runner_of(path)
        assert found is not None and found.pid == os.getpid() and found.alive
        Path(path, "runner.json").write_bytes(msgspec.json.encode(replace(found, start=found.start + 1)))
        assert runs.runner_of(path) is None, "the number belongs to another process"
        Path(path, "runner.json").write_bytes(b"half")
        assert runs.runner_of(path) is None


def test_every_run_of_this_machine_is_found_and_nothing_else_in_its_directory(state_home: Path) -> None:
    assert runs.all_here() == []
    paths = [runs.prepare(job(name, attempt)) for name, attempt in (("a", 1), ("a", 2), ("b.c", 1))]
    for other in ("notes", "a.x", ".1"):
        Path(os.path.dirname(paths[0]), other).mkdir()
    assert runs.all_here() == [("a", 1, paths[0]), ("a", 2, paths[1]), ("b.c", 1, paths[2])]
