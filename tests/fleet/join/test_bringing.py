"""The program for another machine: an archive that runs where it is unpacked, and a wheel for other kinds."""

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from treadle import __version__
from treadle.fleet.join import machines


def test_the_program_is_packed_as_a_wheel_that_can_be_installed(tmp_path: Path) -> None:
    wheel = tmp_path / machines.WHEEL
    wheel.write_bytes(machines.wheel())
    names = zipfile.ZipFile(io.BytesIO(wheel.read_bytes())).namelist()
    assert "treadle/fleet/join/machines.py" in names and f"treadle-{__version__}.dist-info/entry_points.txt" in names
    assert not any("__pycache__" in name for name in names)
    code = "import treadle, sys; sys.exit(treadle.__version__ != sys.argv[1])"
    argv = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(wheel)!r}); {code}", __version__]
    assert subprocess.run(argv).returncode == 0


def test_what_is_asked_of_another_machine_is_what_this_one_is() -> None:
    said = subprocess.run([sys.executable, "-c", machines.KIND], capture_output=True, text=True, check=True).stdout
    assert said.strip() == machines.kind()


def test_what_the_libraries_need_is_among_them_and_what_only_tests_need_is_not() -> None:
    names = machines.libraries()
    assert {"msgspec", "nats-py", "pynacl", "cryptography", "anyio"} <= {name.lower() for name in names}
    assert not {"pytest", "mypy"} & set(names)


def unpack(archive: bytes, home: Path) -> "subprocess.CompletedProcess[bytes]":
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    argv = [sys.executable, "-c", machines.UNPACK]
    return subprocess.run(argv, input=archive, env=env, capture_output=True, timeout=240)


@pytest.fixture(scope="module")
def archive() -> bytes:
    return machines.archive()


@pytest.mark.slow
def test_the_archive_is_unpacked_into_a_program_that_runs_and_replaces_the_one_before(
    archive: bytes, tmp_path: Path
) -> None:
    place = tmp_path / machines.PLACE
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "of-an-older-one").touch()
    done = unpack(archive, tmp_path)
    assert done.returncode == 0, done.stderr
    command = place / "bin" / "treadle"
    said = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=60, cwd=tmp_path, env={})
    assert said.stdout.split()[-1:] == [__version__], said
    assert os.access(place / "bin" / "nats-server", os.X_OK) and not (place / "bin" / "of-an-older-one").exists()
    assert sorted(each.name for each in place.parent.iterdir()) == ["program"]


def test_libraries_that_do_not_run_there_leave_what_was_there(tmp_path: Path) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as made:
        machines._add(made, "site/msgspec.py", b"raise ImportError('built for a newer machine')", 0o644)
    place = tmp_path / machines.PLACE
    place.mkdir(parents=True)
    (place / "kept").touch()
    done = unpack(data.getvalue(), tmp_path)
    assert done.returncode and (place / "kept").exists()
