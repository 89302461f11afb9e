"""The fixed filter that every confined program gets: system calls that no build or test needs and escapes are made of.

They fail with EPERM. A filter is a program for the kernel's packet filter machine; see seccomp(2).
"""

from __future__ import annotations

import platform
import struct
from functools import cache

_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_BITS, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _EPERM = 0x7FFF0000, 0x00050001
_NUMBER, _ARCHITECTURE, _ARGUMENT_0, _ARGUMENT_1 = 0, 4, 16, 24
_X32 = 0x40000000
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
AF_VSOCK = 40

NEW_IN_ALL = {
    **{"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427},
    **{"open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433},
    "mount_setattr": 442,
}
"""Calls that have the same number on every architecture."""
X86_64 = {
    **{"add_key": 248, "request_key": 249, "keyctl": 250, "perf_event_open": 298, "open_by_handle_at": 304},
    **{"bpf": 321, "userfaultfd": 323},
}
AARCH64 = {
    **{"add_key": 217, "request_key": 218, "keyctl": 219, "perf_event_open": 241, "open_by_handle_at": 265},
    **{"bpf": 280, "userfaultfd": 282},
}
MACHINES: dict[str, tuple[int, dict[str, int], int, int]] = {
    "x86_64": (0xC000003E, X86_64, 16, 41),
    "aarch64": (0xC00000B7, AARCH64, 29, 198),
}
"""The kernel's name for the architecture, the calls refused there, and its numbers of ioctl and socket."""


@cache
def program(machine: str = platform.machine()) -> bytes | None:
    """The filter for this machine; None for an architecture that we have no numbers for."""
    if machine not in MACHINES:
        return None
    architecture, calls, ioctl, socket = MACHINES[machine]
    refused = sorted({*calls.values(), *NEW_IN_ALL.values()})
    body: list[tuple[int, int, str, str]] = [(_LOAD, _ARCHITECTURE, "", ""), (_JUMP_IF_EQUAL, architecture, "", "no")]
    body += [(_LOAD, _NUMBER, "", "")]
    if machine == "x86_64":
        body += [(_JUMP_IF_BITS, _X32, "no", "")]
    body += [(_JUMP_IF_EQUAL, number, "no", "") for number in refused]
    body += [
        (_JUMP_IF_EQUAL, socket, "", "2"),
        (_LOAD, _ARGUMENT_0, "", ""),
        (_JUMP_IF_EQUAL, AF_VSOCK, "no", "yes"),
        (_JUMP_IF_EQUAL, ioctl, "", "yes"),
        (_LOAD, _ARGUMENT_1, "", ""),
        (_JUMP_IF_EQUAL, TIOCSTI, "no", ""),
        (_JUMP_IF_EQUAL, TIOCLINUX, "no", ""),
    ]
    ends = {"yes": len(body), "no": len(body) + 1}

    def jump(at: int, to: str) -> int:
        return ends[to] - at - 1 if to in ends else int(to or 0)

    packed = [struct.pack("HBBI", op, jump(at, yes), jump(at, no), k) for at, (op, k, yes, no) in enumerate(body)]
    return b"".join([*packed, struct.pack("HBBI", _RETURN, 0, 0, _ALLOW), struct.pack("HBBI", _RETURN, 0, 0, _EPERM)])
