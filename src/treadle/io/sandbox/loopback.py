"""One network for the commands of a session that have none of the machine's: they reach each other's ports.

The first of them makes it, and each that starts while one of them runs joins it. Sandboxes with the same private /tmp
are those of one session.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

from treadle.confinement import Confinement

_running: dict[str, list["SharedNetwork"]] = {}


class SharedNetwork(NamedTuple):
    """The network of a program that is running."""

    path: str
    """What stands for it in /proc, while the program runs."""
    namespace: str

    def is_there(self) -> bool:
        try:
            return os.readlink(self.path) == self.namespace
        except OSError:
            return False


def shared(confinement: Confinement) -> SharedNetwork | None:
    """The network that a program of this confinement should join; None when it makes its own."""
    if confinement.network != "off" or confinement.temp is None:
        return None
    return next((one for one in _running.get(confinement.temp, ()) if one.is_there()), None)


def running(confinement: Confinement, first: int) -> Callable[[], None]:
    """Let others join the network of this process, until what is returned is called."""
    temp, path = confinement.temp, f"/proc/{first}/ns/net"
    if confinement.network != "off" or temp is None:
        return lambda: None
    made = SharedNetwork(path, os.readlink(path))
    _running.setdefault(temp, []).append(made)

    def ended() -> None:
        left = [one for one in _running.get(temp, ()) if one is not made]
        if left:
            _running[temp] = left
        else:
            _running.pop(temp, None)

    return ended
