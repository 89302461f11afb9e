"""The filter as a program: interpreted here, and run by the kernel in test_start.py."""

import ctypes
import os
import platform
import socket
import struct
from pathlib import Path

import pytest

from tests.io.process.trees import in_copy
from treadle.io.sandbox import seccomp

ALLOW, REFUSE, ABSENT = 0x7FFF0000, 0x00050001, 0x00050026


def verdict(program: bytes, number: int, architecture: int, *arguments: int) -> int:
    data = struct.pack("<IIQ6Q", number, architecture, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    steps = [struct.unpack_from("HBBI", program, at) for at in range(0, len(program), 8)]
    at = value = 0
    while True:
        op, yes, no, k = steps[at]
        at += 1
        if op == 0x20:
            (value,) = struct.unpack_from("<I", data, k)
        elif op == 0x54:
            value &= k
        elif op == 0x06:
            return int(k)
        else:
            at += yes if (value == k if op == 0x15 else value & k) else no


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_it_refuses_what_it_lists_and_nothing_else(machine: str) -> None:
    program = seccomp.program(machine)
    assert program is not None
    architecture, calls, ioctl, socket, _ = seccomp.MACHINES[machine]
    refused = {*calls.values(), *seccomp.NEW_IN_ALL.values()}
    for number in range(600):
        expected = REFUSE if number in refused else ABSENT if number == seccomp.OPENAT2 else ALLOW
        assert verdict(program, number, architecture) == expected, number
    assert verdict(program, ioctl, architecture, 0, seccomp.TIOCSTI) == REFUSE
    assert verdict(program, ioctl, architecture, 0, seccomp.TIOCLINUX) == REFUSE
    assert verdict(program, ioctl, architecture, 0, 0x5413) == ALLOW
    assert verdict(program, 0x40000001, architecture) == (REFUSE if machine == "x86_64" else ALLOW)
    assert verdict(program, socket, architecture, seccomp.AF_VSOCK) == REFUSE
    assert verdict(program, socket, architecture, 2) == ALLOW
    assert verdict(program, socket, architecture, seccomp.AF_UNIX) == ALLOW


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_without_unix_sockets_only_connected_pairs_are_left(machine: str) -> None:
    program = seccomp.program(machine, unix_sockets=False)
    assert program is not None
    architecture, _, ioctl, socket, socketpair = seccomp.MACHINES[machine]
    cloexec, stream, datagrams = 0o2000000, 1, seccomp.SOCK_DGRAM
    assert verdict(program, socket, architecture, seccomp.AF_UNIX, stream) == REFUSE
    assert verdict(program, socket, architecture, seccomp.AF_VSOCK, stream) == REFUSE
    assert verdict(program, socket, architecture, 2, stream) == ALLOW
    assert verdict(program, socketpair, architecture, seccomp.AF_UNIX, stream | cloexec) == ALLOW
    assert verdict(program, socketpair, architecture, seccomp.AF_UNIX, datagrams | cloexec) == REFUSE
    assert verdict(program, ioctl, architecture, 0, seccomp.TIOCSTI) == REFUSE


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_no_file_can_be_given_its_owners_rights(machine: str) -> None:
    program = seccomp.program(machine)
    assert program is not None
    architecture = seccomp.MACHINES[machine][0]
    for number, (mode, flags) in seccomp.MODES[machine].items():
        arguments = [0, 0, 0, 0]
        arguments[mode] = 0o104755
        if flags is not None:
            assert verdict(program, number, architecture, *arguments) == ALLOW  # it makes nothing
            arguments[flags] = 0o101
        assert verdict(program, number, architecture, *arguments) == REFUSE
        arguments[mode] = 0o102755
        assert verdict(program, number, architecture, *arguments) == ALLOW


def test_another_architecture_and_the_x32_numbers_are_refused() -> None:
    program = seccomp.program("x86_64")
    assert program is not None
    assert verdict(program, 1, 0x40000003) == REFUSE
    assert verdict(program, 0x40000001, 0xC000003E) == REFUSE


def test_a_processor_without_numbers_has_no_filter() -> None:
    assert seccomp.program("riscv128") is None


@pytest.mark.skipif(platform.machine() not in seccomp.MACHINES, reason="there is no filter for this processor")
def test_the_kernel_refuses_what_the_filter_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**how: bool) -> list[str]:
        ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # no new privileges
        seccomp.apply(**how)
        found = []
        for name, act in (
            ("socket", lambda: socket.socket(socket.AF_UNIX).close()),
            ("pair", lambda: [one.close() for one in socket.socketpair()]),
            ("mode", lambda: os.chmod(tmp_path, 0o4755)),
            ("usual", lambda: os.chmod(tmp_path, 0o755)),
        ):
            try:
                act()
            except PermissionError:
                found.append(name)
        return found

    assert in_copy(refused) == ["mode"] and in_copy(lambda: refused(unix_sockets=False)) == ["socket", "mode"]
    monkeypatch.setattr(seccomp, "_PR_SET_SECCOMP", -1)
    with pytest.raises(OSError, match="the kernel refuses the seccomp filter"):
        seccomp.apply()

    def unknown() -> None:
        seccomp.MACHINES = {}
        seccomp.program.cache_clear()
        seccomp.apply()

    assert in_copy(unknown) is None, "a processor without numbers has no filter"
