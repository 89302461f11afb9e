"""What a forked child does before it executes a command. The parent learns through a pipe whether that worked.

errors, report = os.pipe()
if os.fork() == 0:
    become(request, stdio, report)
os.close(report)
failure = why_not(errors)       # None when the command runs
"""

import errno
import fcntl
import marshal
import os

from treadle.io.process import signals
from treadle.light import Any, NoReturn


def become(request: dict[str, Any], stdio: list[int], errors: int) -> NoReturn:
    """Execute the request's command in a new session, with exactly these descriptors as 0, 1, 2 and so on."""
    doing = "start"
    try:
        os.setsid()
        # First move them out of the way of the numbers that they will get.
        *aside, errors = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3 + len(stdio)) for fd in (*stdio, errors))
        for target, fd in enumerate(aside):
            os.dup2(fd, target)
        if request["tty"]:
            import termios

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for name, soft, hard in request["limits"]:
            import resource

            resource.setrlimit(name, (soft, hard))
        doing = "enter"
        os.chdir(request["cwd"])
        doing = "start"
        close_all_but([*range(len(stdio)), errors])
        if request.get("view"):
            from treadle.io.process import view

            doing = "look"
            view.enter(request["view"])
            doing = "start"
        signals.reset()
        _exec(request["argv"], request["env"])
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None) or errno.EINVAL
        os.write(errors, marshal.dumps((doing, number, str(getattr(error, "strerror", None) or error))))
    finally:
        os._exit(127)


def why_not(errors: int) -> tuple[str, int, str] | None:
    """What the child failed to do, with the error's number and text; else None.

    It is "start", "enter" its directory, or "look" at the machine through its view.
    """
    failure = os.read(errors, 4096)  # empty when exec closed it
    os.close(errors)
    return marshal.loads(failure) if failure else None


def _exec(argv: list[bytes], env: dict[bytes, bytes]) -> NoReturn:
    if b"/" in argv[0]:
        os.execve(argv[0], argv, env)
    failure = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    for directory in env.get(b"PATH", os.fsencode(os.defpath)).split(b":"):
        try:
            os.execve(os.path.join(directory or b".", argv[0]), argv, env)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            failure = error  # found but not executable: more helpful than "not found"
    raise failure


def close_all_but(inherited: list[int]) -> None:
    for name in os.listdir("/dev/fd"):
        if int(name) not in inherited:
            try:
                os.close(int(name))
            except OSError:
                pass  # the descriptor that the listing itself used
