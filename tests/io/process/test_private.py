"""What a process that holds secrets keeps from others, tried in a process of its own."""

import subprocess
import sys

CODE = """
import ctypes, resource
from treadle.io.process.private import hold_secrets

resource.setrlimit(resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE)[1:] * 2)
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
hold_secrets()
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE)[0])
"""


def test_its_memory_cannot_be_read_or_dumped() -> None:
    printed = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["1", "0", "0"], "dumpable before; then neither dumpable nor a core file"
