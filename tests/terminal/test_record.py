import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.terminal.support import Stage, connected, until, watch
from treadle.errors import ConfigError, StorageError
from treadle.terminal.settings import TerminalSettings
from treadle.terminal.viewers.record import CastRecorder, play, read


def recorder(path: Path, now: float = 0.0) -> CastRecorder:
    settings = TerminalSettings()
    settings.id, settings.command, settings.record = "s", ["claude"], str(path)
    return CastRecorder(settings.check(), now)


def lines(path: Path) -> list[object]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_session_is_recorded_with_its_size_changes_and_its_exit(stage: Stage, tmp_path: Path) -> None:
    path = tmp_path / "x.cast"
    place = stage.start("sh", "-c", "echo hello; read x; exit 3", record=str(path), cols=80, rows=24)
    with connected(place) as client:
        until(lambda: client.detail()["output"]["end"])
        client.resize(100, 30)
        client.input(b"secret word\n")
    watch(place)
    header, *events = lines(path)
    assert isinstance(header, dict)
    assert (header["version"], header["term"]["cols"], header["term"]["rows"]) == (3, 80, 24)
    codes = [event[1] for event in events]  # type: ignore[index]
    assert codes[-1] == "x" and "r" in codes and "i" not in codes
    assert "".join(event[2] for event in events if event[1] == "o").startswith("hello\r\n")  # type: ignore[index]
    assert [event[2] for event in events if event[1] in "rx"] == ["100x30", "3"]  # type: ignore[index]
    assert all(event[0] >= 0 for event in events)  # type: ignore[index]


def test_a_secret_is_taken_out_also_when_it_comes_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "x.cast"
    out = recorder(path)
    key = "sk-abcdefghijklmnopqrstuvwxyz"
    for index, letter in enumerate(f"key {key} end"):
        out.output(letter.encode(), index / 1000)
    out.output(b"quiet", 9.0)
    out.close(0, 10.0)
    assert key not in path.read_text()
    assert "".join(event[2] for event in lines(path)[1:-1]) == "key [redacted] endquiet"  # type: ignore[index]
    assert sum(event[0] for event in lines(path)[1:-2]) < 1  # type: ignore[index,misc]


def test_a_full_disk_costs_events_and_never_half_of_one(tmp_path: Path) -> None:
    """A file size limit behaves like a full disk: the write that crosses it is cut short, the next one fails."""
    path = tmp_path / "x.cast"
    with limited(1000):
        out = recorder(path)
        begun = path.stat().st_size
        out.output(b"x" * 300 + b"\n", 1.0)
        out.output(b"y" * (990 - path.stat().st_size) + b"\n", 2.0)  # begins below the limit and ends above it
        out.output(b"z\n", 3.0)
        out.close(0, 4.0)
    kept = [event[2][0] for event in lines(path)[1:]]  # type: ignore[index]
    assert begun < 600 and path.stat().st_size <= 1000
    assert kept == ["x", "z", "0"]


def test_a_disk_that_takes_nothing_does_not_end_the_recorder(tmp_path: Path) -> None:
    path = tmp_path / "x.cast"
    path.symlink_to("/dev/full")
    out = recorder(path)
    out.output(b"x\n", 1.0)
    out.close(0, 2.0)


@contextmanager
def limited(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_playing_gives_the_same_bytes_with_the_same_pauses_and_the_code(tmp_path: Path) -> None:
    path = tmp_path / "x.cast"
    out = recorder(path)
    out.output(b"one\n", 1.0)
    out.output(b"two\n", 61.0)
    out.output(b"and at once\n", 61.0)
    out.close(7, 61.5)
    shown: list[str] = []
    slept: list[float] = []
    assert play(str(path), shown.append, slept.append, speed=2.0, idle_limit=10.0) == 7
    assert ("".join(shown), slept) == ("one\ntwo\nand at once\n", [0.5, 5.0, 0.25])


def test_version_2_has_absolute_times_and_a_torn_last_line_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "old.cast"
    path.write_text('{"version": 2, "width": 80, "height": 24}\n[1.0, "o", "a"]\n[1.5, "o", "b"]\n[2.0, "o", "c')
    header, events = read(str(path))
    assert list(events) == [(1.0, "o", "a"), (0.5, "o", "b")]


@pytest.mark.parametrize("text", ["", "hello", "[1]", '{"version": 1}', '{"x": 2}'])
def test_what_is_no_recording_is_refused_with_a_reason(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(ConfigError, match="recording|version"):
        read(str(path))


def test_a_recording_that_cannot_be_made_is_said_with_its_place(tmp_path: Path) -> None:
    settings = TerminalSettings()
    settings.workdir, settings.record = str(tmp_path), "no/x.cast"
    with pytest.raises(StorageError, match=f"cannot record to {tmp_path}/no/x.cast: "):
        CastRecorder(settings, 0.0)
    with pytest.raises(StorageError, match=f"cannot read {tmp_path}/none: "):
        play(str(tmp_path / "none"), lambda text: None, lambda seconds: None)
