"""A sidecar in a sandbox: what it may write, what is hidden from it, and whether the kernel keeps the policy."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec.structs import replace

from treadle.agent.confining import Confining
from treadle.host.supervise import policy_of
from treadle.io.sandbox import methods, places
from treadle.session import Confinement
from treadle.wire.sidecar.connection import WorkOrder


class Cage:
    """For one run. `confinement` is made when the workspace is there; `close` removes what was made for it."""

    def __init__(self, asked: Confinement, order: WorkOrder, run_id: str) -> None:
        root = order.workspace.root
        self._confining = Confining(root, (), asked, session=run_id)
        self._confining.obey(policy_of(order.policy, root).path_rules, None)

    def confinement(self, argv: Sequence[str]) -> Confinement | None:
        """None: not wanted. Raises ConfigError when a sandbox is demanded that this machine cannot make.

        /tmp inside is another one, so a program that lies in ours has to be shown to it.
        """
        made = self._confining.now()
        if made is None:
            return None
        shown = [_shown(word) for word in argv if os.path.isabs(word) and os.path.isfile(word)]
        private = [place for place in shown if places.is_under(place, *places.PRIVATE)]
        return replace(made, read_only=(*dict.fromkeys((*private, *made.read_only)),))

    def close(self) -> None:
        self._confining.close()


def _shown(path: str) -> str:
    """The directory of a program, as it may need what lies beside it; the program alone where that is all of /tmp."""
    real = os.path.realpath(path)
    folder = os.path.dirname(real)
    return real if folder in places.PRIVATE else folder


def kept_by_kernel() -> bool:
    """Whether the sandbox of this machine keeps what `deny_read` and `deny_write` name."""
    return methods.available().method == "bubblewrap"
