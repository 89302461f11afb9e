"""What a process tree shows from outside: its CPU time and its open connections."""

import os

from treadle.io.process import table
from treadle.io.reading import read_if_there

_TICKS = os.sysconf("SC_CLK_TCK")


def of_tree(root: int) -> dict[str, float | int]:
    """The tree's CPU seconds so far, its number of processes, and its open sockets without our own."""
    pids = [process.pid for process in table.descendants(root)]
    return {"processes": len(pids), "cpu": round(sum(map(_cpu, pids)), 2), "sockets": sum(map(_sockets, pids))}


def _cpu(pid: int) -> float:
    try:
        data = read_if_there(f"/proc/{pid}/stat") or b""
    except Exception:  # it ended between the listing and the look
        return 0.0
    fields = data.rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS if len(fields) > 12 else 0.0


def _sockets(pid: int) -> int:
    here = f"/proc/{pid}/fd"
    found = 0
    try:
        for name in os.listdir(here):
            found += os.readlink(os.path.join(here, name)).startswith("socket:")
    except OSError:
        pass
    return found
