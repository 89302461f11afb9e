"""What a process tree shows from outside: its CPU time and its open connections."""

import os

from treadle.io.process import table
from treadle.wire.fleet.messages import TreeSeen


def of_tree(root: int) -> TreeSeen:
    """The tree's CPU seconds so far, its number of processes, and its open sockets without our own."""
    tree = table.descendants(root)
    cpu = round(sum(process.cpu for process in tree), 2)
    return TreeSeen(processes=len(tree), cpu=cpu, sockets=sum(_sockets(process.pid) for process in tree))


def _sockets(pid: int) -> int:
    here = f"/proc/{pid}/fd"
    found = 0
    try:
        for name in os.listdir(here):
            found += os.readlink(os.path.join(here, name)).startswith("socket:")
    except OSError:
        pass
    return found
