"""A small warm process that starts terminals for all tests: forking pytest itself, with its threads, is unsafe.

One JSON object per line on stdin, with the settings and the environment of who asks; one line back: the socket's path,
or `! ` and why not. A fork of it answers, so that nothing that one test has loaded or set is there in the next.
"""

import json
import os
import sys

from treadle.errors import TreadleError
from treadle.terminal import supervisor  # noqa: F401  # loaded once, shared by all that are forked
from treadle.terminal.launch import launch
from treadle.terminal.settings import TerminalSettings


def answer(request: dict[str, dict[str, object]]) -> None:
    os.environ.clear()
    os.environ.update({name: str(value) for name, value in request["environ"].items()})
    settings = TerminalSettings()
    for name, value in request["settings"].items():
        assert hasattr(settings, name), name
        setattr(settings, name, value)
    try:
        print(launch(settings).sock, flush=True)
    except TreadleError as error:
        print(f"! {error}".replace("\n", " "), flush=True)


for line in sys.stdin:
    if child := os.fork():
        os.waitpid(child, 0)
    else:
        try:
            answer(json.loads(line))
        finally:
            os._exit(0)
