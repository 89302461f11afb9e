"""A small warm process that starts terminals for tests: forking pytest itself, with its threads, is unsafe.

One JSON object of settings per line on stdin; one line back: the socket's path, or `! ` and why not.
"""

import json
import sys

from treadle.errors import TreadleError
from treadle.terminal import supervisor  # noqa: F401  # loaded once, shared by all that are forked
from treadle.terminal.launch import launch
from treadle.terminal.settings import TerminalSettings

for line in sys.stdin:
    settings = TerminalSettings()
    for name, value in json.loads(line).items():
        assert hasattr(settings, name), name
        setattr(settings, name, value)
    try:
        print(launch(settings).sock, flush=True)
    except TreadleError as error:
        print(f"! {error}".replace("\n", " "), flush=True)
