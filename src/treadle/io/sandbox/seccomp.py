"""The fixed filter of every confined program: it refuses system calls that escapes need and builds and tests do not.

They fail with EPERM. So does making a set-user-ID file, which runs as its owner: if root makes one in a container, a
user outside the container may be able to run it. A filter is a program for the kernel's packet filter machine; see
seccomp(2).
"""

import platform
import struct
from functools import cache

_LOAD, _AND, _JUMP_IF_EQUAL, _JUMP_IF_BITS, _RETURN = 0x20, 0x54, 0x15, 0x45, 0x06
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
_NUMBER, _ARCHITECTURE = 0, 4
_ARGUMENTS = (16, 24, 32, 40)
_X32 = 0x40000000
"""Set in the numbers of the x32 calls, a second table of x86_64: without this check each refused call could be made by
its other number."""
_PR_SET_SECCOMP = 22
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
"""Both put characters into the terminal's input, as if a person had typed them for the shell outside."""
AF_UNIX, AF_VSOCK = 1, 40
"""VSOCK reaches the host of a virtual machine without any IP network."""
SOCK_DGRAM, SOCK_TYPES = 2, 0xF
SET_USER_ID = 0o4000
MAKES = 0o100 | 0o20000000
"""O_CREAT and O_TMPFILE. Without them the mode is ignored, and may be anything."""
OPENAT2 = 437
"""Its mode is in memory, where a filter cannot look. It is reported as missing, and programs use the older call."""

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
MACHINES: dict[str, tuple[int, dict[str, int], int, int, int]] = {
    "x86_64": (0xC000003E, X86_64, 16, 41, 53),
    "aarch64": (0xC00000B7, AARCH64, 29, 198, 199),
}
"""The kernel's id of the architecture, the calls refused there, and the numbers of ioctl, socket and socketpair."""
MODES: dict[str, dict[int, tuple[int, int | None]]] = {
    "x86_64": {
        **{90: (1, None), 91: (1, None), 268: (2, None), 452: (2, None), 85: (1, None), 133: (1, None), 259: (2, None)},
        **{2: (2, 1), 257: (3, 2)},
    },
    "aarch64": {52: (1, None), 53: (2, None), 452: (2, None), 33: (2, None), 56: (3, 2)},
}
"""Calls that set a file's mode: which argument it is and, for `open` and `openat`, which one has the flags."""


@cache
def program(machine: str = platform.machine(), *, unix_sockets: bool = True) -> bytes | None:
    """The filter for this machine; None for an architecture whose numbers we do not have.

    Without `unix_sockets` only connected pairs can be made, and no pair for datagrams: it could still send to a path.
    """
    if machine not in MACHINES:
        return None
    architecture, calls, ioctl, socket, socketpair = MACHINES[machine]
    refused = sorted({*calls.values(), *NEW_IN_ALL.values()})
    body: list[tuple[int, int, str, str]] = [(_LOAD, _ARCHITECTURE, "", ""), (_JUMP_IF_EQUAL, architecture, "", "no")]
    body += [(_LOAD, _NUMBER, "", "")]
    if machine == "x86_64":
        body += [(_JUMP_IF_BITS, _X32, "no", "")]
    body += [(_JUMP_IF_EQUAL, number, "no", "") for number in refused]
    body += [(_JUMP_IF_EQUAL, OPENAT2, "absent", "")]
    for number, (mode, flags) in MODES[machine].items():
        makes = [] if flags is None else [(_LOAD, _ARGUMENTS[flags], "", ""), (_JUMP_IF_BITS, MAKES, "", "yes")]
        body += [(_JUMP_IF_EQUAL, number, "", str(len(makes) + 2)), *makes]
        body += [(_LOAD, _ARGUMENTS[mode], "", ""), (_JUMP_IF_BITS, SET_USER_ID, "no", "yes")]
    if not unix_sockets:
        body += [
            (_JUMP_IF_EQUAL, socketpair, "", "3"),
            (_LOAD, _ARGUMENTS[1], "", ""),
            (_AND, SOCK_TYPES, "", ""),
            (_JUMP_IF_EQUAL, SOCK_DGRAM, "no", "yes"),
        ]
    families = [AF_VSOCK, *([] if unix_sockets else [AF_UNIX])]
    body += [
        (_JUMP_IF_EQUAL, socket, "", str(len(families) + 1)),
        (_LOAD, _ARGUMENTS[0], "", ""),
        *((_JUMP_IF_EQUAL, family, "no", "") for family in families[:-1]),
        (_JUMP_IF_EQUAL, families[-1], "no", "yes"),
        (_JUMP_IF_EQUAL, ioctl, "", "yes"),
        (_LOAD, _ARGUMENTS[1], "", ""),
        (_JUMP_IF_EQUAL, TIOCSTI, "no", ""),
        (_JUMP_IF_EQUAL, TIOCLINUX, "no", ""),
    ]
    ends = {"yes": len(body), "no": len(body) + 1, "absent": len(body) + 2}

    def jump(at: int, to: str) -> int:
        return ends[to] - at - 1 if to in ends else int(to or 0)

    packed = [struct.pack("HBBI", op, jump(at, yes), jump(at, no), k) for at, (op, k, yes, no) in enumerate(body)]
    returns = [struct.pack("HBBI", _RETURN, 0, 0, value) for value in (_ALLOW, _EPERM, _ENOSYS)]
    return b"".join([*packed, *returns])


def apply(*, unix_sockets: bool = True) -> None:
    """Apply the filter to this process and all that it starts. The process must have given up new privileges."""
    import ctypes

    if (bytes_ := program(unix_sockets=unix_sockets)) is None:
        return
    steps = ctypes.create_string_buffer(bytes_, len(bytes_))
    described = struct.pack("HxxxxxxP", len(bytes_) // 8, ctypes.addressof(steps))
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_SECCOMP, 2, described, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refuses the seccomp filter")
