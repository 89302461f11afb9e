"""What the kernel forbids the programs that a session starts, as data."""

from typing import Literal, NamedTuple

import msgspec


class Mount(NamedTuple):
    """A file or directory of the machine that confined programs see at another path."""

    source: str
    target: str
    write: bool = False


class RelayGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A program of ours that runs outside, once for each connection that a confined program makes to `place`."""

    place: str
    """The path of the socket inside."""
    argv: tuple[str, ...]
    cwd: str
    env: tuple[tuple[str, str], ...] = ()
    """Variables that it has beside those of the process that starts it."""


class PortGrant(NamedTuple):
    """A port on the loopback address inside that leads to a Unix socket of ours outside, where the network is off."""

    port: int
    socket: str
    host: str = "127.0.0.1"


class ResourceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a confined program with all that it starts may use (`io/sandbox/limits.py`). None: the default; 0: none."""

    memory: int | None = None
    """Bytes."""
    processes: int | None = None
    """At once, threads included."""
    disk: int | None = None
    """Bytes written. By default only how much is left on the disk counts."""


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel forbids the programs that a session starts (`io/sandbox/start.py`). Paths are absolute; all else
    on the machine can be read but not written."""

    use: Literal["auto", "possible", "on", "off"] = "auto"
    """auto: in auto-edit and full-auto, if the machine can; possible: in all modes but yolo, if it can; on: always, or
    refuse to run; off: never."""
    network: Literal["auto", "on", "off"] = "auto"
    """auto: as the settings say; else, where the machine can keep it off, off for commands of our own agent in
    auto-edit, full-auto and orders, and for outside agents there whose hosts are known; on for all else."""
    hosts: tuple[str, ...] = ()
    """With the network off: hosts that can still be reached, through our proxy: `git.example.com`, `*.example.com`, and
    groups such as `npm`."""
    public: tuple[str, ...] = ()
    """Those of them that must lead to a public address: a program named them, and a person agreed."""
    write: tuple[str, ...] = ()
    """The places that may be written, the workspace first."""
    read_only: tuple[str, ...] = ()
    """Files and directories below those that may not be changed."""
    held: tuple[tuple[str, str], ...] = ()
    """Those of them that others hold, each with who, why and until when, so that this can be shown."""
    mounts: tuple[Mount, ...] = ()
    """What is shown in another place, such as a private git directory over that of the workspace."""
    hidden: tuple[str, ...] = ()
    """Files and directories that may not be read."""
    readable: tuple[str, ...] = ()
    """Places in the home directory that are shown, beside programs and packages; all else in it is not there."""
    variables: tuple[str, ...] | None = None
    """The names of the variables that are passed on; None: all that the program is started with."""
    home: str | None = None
    """The directory that `io/sandbox/places.py` has prepared for the session; None: an empty home for each program."""
    sockets: tuple[str, ...] = ()
    """Unix sockets outside that may be reached; no others can be."""
    ports: tuple[PortGrant, ...] = ()
    """Services of ours that are reached although the network is off."""
    relay: RelayGrant | None = None
    """What confined programs may have done outside, by us; only bubblewrap can offer it."""
    temp: str | None = None
    """The directory that programs see as /tmp; None: an empty one for each."""
    state: str | None = None
    """The directory that our own programs inside see as their state; None: an empty one."""
    limits: ResourceLimits = ResourceLimits()
