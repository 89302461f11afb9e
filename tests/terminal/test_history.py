import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import need
from tests.terminal.support import Stage, connected, log_lines, until, watch
from treadle.errors import NotFound
from treadle.terminal.history import Log, Rotated, exit_record


def test_a_file_that_is_full_is_renamed_and_two_are_kept(tmp_path: Path) -> None:
    file = Rotated(str(tmp_path / "x.out"), 100)
    for number in range(50):
        assert file.write(b"%010d" % number)
    kept = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir(), reverse=True))
    assert kept.endswith(b"%010d" % 49)
    assert 100 <= len(kept) <= 210
    assert file.lost == 0


def test_what_cannot_be_written_is_counted_and_disturbs_nobody(tmp_path: Path) -> None:
    full = Rotated("/dev/full", 100)
    assert not full.write(b"12345")
    assert full.lost == 5
    nowhere = Rotated(str(tmp_path / "no" / "x"), 100)
    assert not nowhere.write(b"123")
    (tmp_path / "no").mkdir()
    assert nowhere.write(b"456")
    assert (nowhere.lost, (tmp_path / "no" / "x").read_bytes()) == (3, b"456")


def test_a_device_is_written_to_and_not_moved_away() -> None:
    master, slave = os.openpty()
    try:
        file = Rotated(os.ttyname(slave), 5)
        assert file.write(b"12345") and file.write(b"678") and os.path.exists(os.ttyname(slave))
        with open(master, "rb", closefd=False) as shown:  # the kernel may give it in pieces
            assert shown.read(8) == b"12345678"
    finally:
        file.close()
        os.close(master)
        os.close(slave)


def test_the_log_is_json_lines_from_a_level_on_and_tells_what_it_could_not_write(tmp_path: Path) -> None:
    path = tmp_path / "no" / "x.log"
    log = Log(str(path), "s1", "warn")
    log("info", "not wanted")
    log("error", "lost")
    path.parent.mkdir()
    log("warn", "kept", reason='a "quoted"\nreason')
    [line] = [json.loads(line) for line in path.read_text().splitlines()]
    assert (line["session"], line["event"], line["reason"]) == ("s1", "kept", 'a "quoted"\nreason')
    assert line["lines_lost_before"] == 1


def test_all_output_is_in_the_file_after_the_end(stage: Stage) -> None:
    place = stage.start("sh", "-c", "seq 1 30000", scrollback_bytes=100)
    watch(place)
    assert Path(place.out).read_bytes().split() == [b"%d" % number for number in range(1, 30001)]


def test_a_full_disk_under_the_log_costs_only_the_log(stage: Stage) -> None:
    os.symlink("/dev/full", stage.directory / "full.log")
    place = stage.start("sh", "-c", "echo fine; read x; exit 5", id="full")
    with connected(place) as client:
        until(lambda: client.detail()["output"]["end"])
        client.input(b"\n")
        assert b"fine" in b"".join(client.output(50))
        assert client.exit_code == 5


def test_the_log_says_when_it_started_and_how_it_ended(stage: Stage) -> None:
    place = stage.start("sh", "-c", "exit 3")
    watch(place)
    assert [line["event"] for line in log_lines(place)] == ["started", "exited"]
    assert log_lines(place)[1]["code"] == 3


FULL = """
import json, os, sys, time
from treadle.terminal.launch import launch
from treadle.terminal.settings import TerminalSettings
settings = TerminalSettings()
settings.directory, settings.id, settings.linger = sys.argv[1], "x", 0.0
settings.command = ["sh", "-c", "head -c 1000000 /dev/zero | tr '\\\\0' x; exit 5"]
place = launch(settings)
for _ in range(5000):
    if os.path.exists(place.exit):
        break
    time.sleep(0.01)
print(json.load(open(place.exit))["code"], os.path.getsize(place.out) < 300_000)
"""


def test_on_a_full_disk_how_it_ended_is_kept_in_place_of_some_output(tmp_path: Path) -> None:
    mount = 'mount -t tmpfs -o size=256k,mode=700 none "$1" && exec "$2" -c "$3" "$1"'
    command = [need("unshare"), "-rm", "sh", "-c", mount, "sh", str(tmp_path), sys.executable, FULL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no disk of our own can be mounted here: {done.stderr.strip()}")
    assert done.stdout.split() == ["5", "True"], done.stderr


def test_a_record_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no exit record") as refused:
        exit_record(str(tmp_path / "x"))
    assert refused.value.hint
