"""Whether the work is good, by a command of a person's."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.io.sandbox.rooms import WRITES_TOO_MUCH, writing_counts
from treadle.confinement import ResourceLimits
from treadle.errors import DiskFull
from treadle.io.sandbox import limits, methods
from treadle.sandboxed.checks import run_check
from treadle.session import Confinement


async def test_its_exit_code_and_the_end_of_what_it_said_are_kept(tmp_path: Path) -> None:
    check = await run_check("seq 1 5000; echo wrong >&2; exit 3", str(tmp_path))
    assert check.exit_code == 3 and check.command.startswith("seq")
    assert check.output_tail.endswith("5000\nwrong\n") and len(check.output_tail) <= 8192


async def test_it_runs_in_the_workspace_and_sees_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret words")
    check = await run_check('pwd; echo "key: $SOME_API_KEY."', str(tmp_path))
    assert check.output_tail == f"{tmp_path}\nkey: .\n" and check.exit_code == 0


async def test_one_that_does_not_end_is_stopped_with_all_it_started(tmp_path: Path) -> None:
    check = await run_check("(sleep 1000 & echo $! > pid); sleep 1000", str(tmp_path), seconds=2)
    assert check.exit_code is None and check.output_tail.endswith("[it did not end within 2 s]")
    if (tmp_path / "pid").exists():  # on a busy machine it may not have come so far
        pid = (tmp_path / "pid").read_text().strip()
        assert not pid or not Path(f"/proc/{pid}").exists()


@pytest.mark.skipif(methods.available().method is None, reason="nothing to confine with")
@pytest.mark.parametrize(
    ("network", "code", "said"),
    [("off", 1, True), ("off", 0, False), ("on", 1, False)],
)
async def test_one_that_fails_for_want_of_a_network_says_so(
    tmp_path: Path, network: Any, code: int, said: bool
) -> None:
    walls = Confinement(use="on", write=(str(tmp_path),), network=network)
    for text in ("Could not resolve host", "something else"):
        check = await run_check(f"echo {text}; exit {code}", str(tmp_path), confinement=walls)
        assert ("[commands have no network here" in check.output_tail) is (said and "resolve" in text)
        assert check.exit_code == code and check.command.startswith("echo")


@writing_counts
async def test_one_that_comes_up_to_a_limit_of_its_sandbox_says_which(tmp_path: Path) -> None:
    walls = Confinement(use="on", write=(str(tmp_path),), limits=ResourceLimits(disk=5 << 20))
    check = await run_check(WRITES_TOO_MUCH, str(tmp_path), confinement=walls)
    assert check.exit_code != 0 and check.output_tail.endswith(", more than 5 MB]")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts a small disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(tmp_path)], check=True)
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.skipif(methods.available().method is None, reason="nothing to confine with")
@pytest.mark.parametrize("confined", [True, False])
@pytest.mark.parametrize(
    ("free", "command", "wrote", "judged"),
    [
        (0, "echo x > f", 0, False),
        (60, "fallocate -l 59M x; sleep 60", 0, False),
        (60, "fallocate -l 59M x; sleep 60", 40, True),
        (60, "exit 3", 0, True),
        (0, "true", 0, True),
    ],
    ids=["full before", "others fill it", "it fills it itself", "red", "green on a full disk"],
)
async def test_one_that_fails_because_the_disk_is_full_says_nothing_about_the_work(
    small: Path, monkeypatch: pytest.MonkeyPatch, free: int, command: str, wrote: int, judged: bool, confined: bool
) -> None:
    if not confined and "sleep" in command:
        return  # nothing watches it
    monkeypatch.setattr(limits, "written", lambda pid: wrote << 20)
    with (small / "others").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, os.statvfs(small).f_bavail * 4096 - (free << 20))
    walls = Confinement(use="on", write=(str(small),)) if confined else None
    if not judged:
        with pytest.raises(
            DiskFull, match=f"`{command}` could not be run to its end: .* are left on the disk of {small}"
        ):
            await run_check(command, str(small), confinement=walls)
        return
    assert (await run_check(command, str(small), confinement=walls)).ok is (command == "true")
