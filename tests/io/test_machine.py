"""What is told of how busy this machine is."""

import os
import shutil
from pathlib import Path

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
