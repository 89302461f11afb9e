"""What a process does while a copy of the warm parent works in its place: pass signals on, and end as the copy does.

A signal that comes in the moment before a read begins is handled when that read ends, so the copy sends an empty line
every few seconds (`LINE_SECONDS`): without it such a signal would wait for the next one.

A Python that only waits has 4 MB of its own, so it becomes a shell that waits, which has a tenth of a megabyte. Where
there is no shell, Python waits.
"""

import os
import socket
import sys

from treadle.light import NoReturn

KILLED = "treadle: the process that did this was killed; how far it got is unknown\n"
SHELL = "/bin/sh"
PASSED = ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2")
LINE_SECONDS = 5.0
START = b"\0"
"""What the copy gets when signals are passed on from then on. Before that it does nothing, and any of them ends us."""
_CONTROL = 3
"""The descriptor of the connection to the copy, in the shell."""
_WAIT = f"""
trap '' PIPE
TRAPS
printf '\\000' 2>/dev/null >&{_CONTROL}
while :; do
    new=
    read -r code <&{_CONTROL} && {{ [ "$code" ] && exit "$code"; continue; }}
    [ "$new" ] || break # not a signal: the copy is gone
done
[ "$last" ] && {{ trap - "$last"; kill -s "$last" $$; }}
printf '%s' "$2" >&2
exit 1
"""
"""Called with the pid of the copy and KILLED."""


def wait(control: socket.socket, copy: int) -> int:
    """Pass on every signal that we get to the copy. Returns its exit code, if this process does not become a shell."""
    try:
        os.dup2(control.fileno(), _CONTROL)
        os.set_inheritable(_CONTROL, True)
        shown = f"# {os.path.basename(sys.argv[0])}, waiting for process {copy}, which does the work\n"
        os.execve(SHELL, ["sh", "-c", shown + _script(), "sh", str(copy), KILLED], {})
    except OSError:
        return _wait_here(control, copy)


def _script() -> str:
    """A signal that we ignore stays ignored: a shell cannot trap those."""
    import signal

    traps = []
    for name in PASSED:
        byte = rf"\\{signal.Signals[f'SIG{name}']:03o}"
        traps.append(f"trap 'last={name} new=yes; printf {byte} 2>/dev/null >&{_CONTROL}' {name}")
    # When someone resumes us, the copy is resumed as well.
    traps.append('trap \'new=yes; kill -s STOP "$1"; kill -s STOP $$; kill -s CONT "$1"\' TSTP')
    return _WAIT.replace("TRAPS", "\n".join(traps))


def _wait_here(control: socket.socket, copy: int) -> int:
    passed = _pass_on_signals(control, copy)
    control.send(START)
    answer = b""
    while (more := control.recv(16)) and not (answer := (answer + more).lstrip()).endswith(b"\n"):
        pass
    if more:
        return int(answer)
    if passed:
        _die_by_signal(passed[-1])
    sys.stderr.write(KILLED)
    return 1


def _pass_on_signals(control: socket.socket, copy: int) -> list[int]:
    """Pass on every signal that we get from now on to the copy; the list has those that were passed on."""
    import signal

    passed: list[int] = []

    def pass_on(number: int, frame: object) -> None:
        passed.append(number)
        control.send(bytes([number]))

    def stop(number: int, frame: object) -> None:
        os.kill(copy, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.kill(copy, signal.SIGCONT)  # someone resumed us

    for name in PASSED:
        number = signal.Signals[f"SIG{name}"]
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, pass_on)
    if signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
        signal.signal(signal.SIGTSTP, stop)
    return passed


def _die_by_signal(number: int) -> NoReturn:
    """End by the same signal as the copy, so that the one who waits for us learns of it."""
    import signal

    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(1)
