"""What is told of how busy this machine is."""

import os
import shutil
from pathlib import Path

import pytest

from treadle.io import machine


def test_processors_are_told_as_a_share_of_the_time_since_the_look_before() -> None:
    look = machine.MachineLook()
    before = os.times()
    while (now := os.times()).user + now.system - before.user - before.system < 0.2:
        sum(range(10000))
    used = look.cpu()
    assert used is not None and 0.0 < used <= 1.0


def test_memory_and_disk_are_what_the_system_says(tmp_path: Path) -> None:
    free, whole = machine.memory()
    assert 0 < free <= whole == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    free, whole = machine.disk(str(tmp_path))
    assert 0 < free <= whole == shutil.disk_usage(tmp_path).total


def test_what_the_kernel_says_is_counted_and_what_it_does_not_say_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat, meminfo = tmp_path / "stat", tmp_path / "meminfo"
    monkeypatch.setattr(machine, "PROC", str(tmp_path))

    def ticks(*counts: int) -> None:
        stat.write_text(f"cpu {' '.join(map(str, counts))}\ncpu0 9 9 9 9 9 9 9 9 9 9\n")

    ticks(10, 0, 10, 100, 20, 0, 0, 0, 5, 5)
    look = machine.MachineLook()
    assert look.cpu() is None, "no time has passed"
    ticks(20, 5, 15, 150, 30, 0, 0, 0, 500, 500)
    assert look.cpu() == 20 / 80
    ticks(30, 5, 15, 150, 30, 0, 0, 0, 500, 500)
    assert look.cpu() == 1.0, "since the look before"
    ticks(20, 5, 15, 170, 30, 0, 0, 0, 500, 500)
    assert look.cpu() == 0.0, "a count that went back is no time"
    stat.write_text("nonsense here\n")
    assert look.cpu() is None
    stat.unlink()
    assert machine.MachineLook().cpu() is None
    meminfo.write_text("MemTotal: 8 kB\nno colon\nMemAvailable:    3 kB\n")
    assert machine.memory() == (3072, 8192)
    for text in ("MemTotal: 8 kB\n", "MemTotal: x kB\nMemAvailable: 3 kB\n", "MemTotal:\nMemAvailable: 3 kB\n"):
        meminfo.write_text(text)
        assert machine.memory() == (0, 0)
    meminfo.unlink()
    assert machine.memory() == (0, 0)
