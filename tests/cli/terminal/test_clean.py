"""`treadle clean`: what ended terminals have left."""

import json
import os
from pathlib import Path

from tests.cli.terminal.shells import Here
from treadle.io import files
from treadle.terminal import lock


def leave(here: Here, *names: str, when: int = 1) -> list[str]:
    """Files of five bytes each, old ones unless said."""
    for name in names:
        path = here.directory / name
        path.write_bytes(b"12345")
        os.utime(path, (when, when))
    return [str(here.directory / name) for name in names]


def test_what_is_old_is_named_and_removed_only_when_asked(here: Here) -> None:
    assert here("clean") == "Nothing to clean\n"
    old = leave(here, "one.exit", "one.log", "two.out")
    kept = leave(here, "young.log", "runs.log", "runs.pid", ".hidden.log", "notes.txt")
    kept += leave(here, "young.exit", when=1 << 40)  # one young file keeps the others of its terminal
    with files.locked(here.place("runs").pid):
        would = "".join(f"would remove {path}\n" for path in old)
        assert here("clean") == f"{would}Would clean 1 log file and 2 other files, 15 bytes; say --force to do it\n"
        assert json.loads(here("clean", "--json")) == {"removed": False, "files": old, "bytes": 15}
        assert all(map(os.path.exists, old))
        removed = "".join(f"removed {path}\n" for path in old)
        assert here("clean", "--force") == f"{removed}Cleaned 1 log file and 2 other files, 15 bytes\n"
    assert sorted(map(str, here.directory.iterdir())) == sorted(kept)


def test_files_are_counted_by_what_they_are(here: Here) -> None:
    (alone,) = leave(here, "a.out")
    assert here("clean", "--force") == f"removed {alone}\nCleaned 1 file, 5 bytes\n"
    leave(here, "a.log", "a.log.1")
    assert here("clean").endswith("\nWould clean 2 log files, 10 bytes; say --force to do it\n")
    assert json.loads(here("clean", "--json", "--force"))["removed"] and list(here.directory.iterdir()) == []
    os.rmdir(here.directory)
    assert here("clean") == "Nothing to clean\n"
    here.directory.mkdir()


def test_work_that_was_not_brought_over_is_left_alone(here: Here, state_home: Path) -> None:
    workdir = Path(lock.base()) / "w-1" / "r"
    workdir.mkdir(parents=True)
    place = here.ended("w", workdir=str(workdir.resolve()))
    os.utime(place.exit, (1, 1))
    assert here("clean") == "Nothing to clean\n"
    workdir.rmdir()
    assert place.exit in here("clean")


def test_an_age_is_a_duration(here: Here) -> None:
    leave(here, "a.out", when=1)
    assert "a.out" in here("clean", "--older-than", "2h30m")
    assert here("clean", "--older-than", "99999d") == "Nothing to clean\n"
    code, out, err = here.run("clean", "--older-than", "10")
    assert (code, out) == (1, "") and "'10' is not a duration" in err and "90s, 5m, 2h30m or 1d" in err
    assert here.run("clean", "a")[0] == 2
