"""What a process that holds secrets keeps from others, tried in a copy of this process."""

import ctypes
import resource

from tests.io.process.test_reaper import in_copy
from treadle.io.process.loop import hold_secrets


def test_its_memory_cannot_be_read_or_dumped() -> None:
    def tried() -> tuple[int, int, tuple[int, int]]:
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        before = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
        hold_secrets()
        return before, ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE)

    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    assert in_copy(tried) == (1, 0, (0, hard)), "dumpable before; then neither dumpable nor a core file"
