"""The sandbox of a program that speaks one of our wires, when a person asks for one. For others see `agent.py`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from treadle.io.sandbox import methods, places
from treadle.session import Confinement, SessionSpec

HOMES = {"codex": ("~/.codex",)}
"""What an agent writes at home: its sessions, its login, its settings. Without it, it does not start."""
VARIABLES = ("CODEX_HOME",)


def confinement(spec: SessionSpec, name: str, argv: Sequence[str], env: Mapping[str, str]) -> Confinement | None:
    """None unless a person asked for it: an agent that nobody tried in here may need more than its workspace.

    Raises ConfigError when the machine cannot keep it.
    """
    if spec.confinement.use != "on" or not methods.wanted(spec.confinement, spec.mode):
        return None
    cwd = os.path.realpath(spec.cwd)
    home = env.get("HOME", "")
    own = [home + place[1:] for place in HOMES.get(name, ()) if home]
    own += [env[variable] for variable in VARIABLES if env.get(variable)]
    for place in own:
        os.makedirs(place, mode=0o700, exist_ok=True)  # what is not there cannot be made writable
    shown = [os.path.dirname(os.path.realpath(word)) for word in argv if os.path.isabs(word) and os.path.isfile(word)]
    return replace(
        spec.confinement,
        write=(cwd, *places.git_directories(cwd), *spec.add_dirs, *spec.confinement.write, *own),
        read_only=(*spec.confinement.read_only, *places.protected_in(cwd), *_in_private(shown)),
    )


def _in_private(directories: list[str]) -> list[str]:
    """/tmp inside is another one, so a program that lies in ours has to be shown to it."""
    return [place for place in directories if places.is_under(place, *places.PRIVATE) and place not in places.PRIVATE]
