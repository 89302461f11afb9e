"""Many command lines, each in a process of its own that begins with everything loaded: a copy takes 10 ms, a start 300.

    python -m tests.calls < ARGVS > ENDINGS      # a JSON list of argvs; a JSON list of [exit code, stdout, stderr]

Each runs in an empty directory, with an empty home, nothing on stdin and no terminal.
"""

import gc
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parent.parent
SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
SECONDS = 60
HUNG = 124

Ending = tuple[int, str, str]
"""Exit code, stdout, stderr. In both `~` stands for the home and `.` for the directory."""


def endings(calls: Sequence[Sequence[str]]) -> list[Ending]:
    """How each ends."""
    with tempfile.TemporaryDirectory() as place:
        env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "COLUMNS": "100", "LC_ALL": "C.UTF-8"}
        own = {"HOME": f"{place}/h", "TREADLE_HOME": f"{place}/h/treadle", "TREADLE_WARM": "0", "TMPDIR": place}
        argv = [sys.executable, "-W", "ignore", "-m", "tests.calls"]
        done = subprocess.run(argv, input=json.dumps(calls), cwd=ROOT, env=env | own, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [(code, out, err) for code, out, err in json.loads(done.stdout)]


def _main() -> None:
    # Before the modules behind them, which take over some of their names.
    entries = {script: _entry(place) for script, place in SCRIPTS.items()}
    from treadle.cli.help import every

    every()  # loads all commands
    gc.freeze()
    json.dump([_ending(entries[argv[0]], argv) for argv in json.load(sys.stdin)], sys.stdout)


def _entry(place: str) -> Callable[[], None]:
    module, _, name = place.partition(":")
    entry: Callable[[], None] = getattr(importlib.import_module(module), name)
    return entry


def _ending(entry: Callable[[], None], argv: list[str]) -> Ending:
    home, cwd = os.environ["HOME"], os.path.join(os.environ["TMPDIR"], "w")
    for place in (home, cwd):
        _empty(place)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        if not (pid := os.fork()):
            _run(entry, argv, cwd, out.fileno(), err.fileno())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        said = [(stream.seek(0), stream.read().decode())[1] for stream in (out, err)]
    plain = [text.replace(home, "~").replace(cwd, ".") for text in said]
    return (HUNG if code == -signal.SIGALRM else code), *plain


def _empty(place: str) -> None:
    """Make it anew, although what the call before has left running may still write there."""
    while True:
        shutil.rmtree(place, ignore_errors=True)
        with suppress(FileExistsError):
            return os.mkdir(place, 0o700)


def _run(entry: Callable[[], None], argv: list[str], cwd: str, out: int, err: int) -> None:
    """Be the script that `argv` names. Never returns."""
    signal.alarm(SECONDS)
    os.setsid()
    os.chdir(cwd)
    for fd, stream in enumerate((os.open(os.devnull, os.O_RDONLY), out, err)):
        os.dup2(stream, fd)
    sys.argv = argv
    code = 1
    try:
        entry()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _main()
