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
        shown = places.shown(argv, os.environ) if argv else ()
        return replace(made, read_only=(*dict.fromkeys((*shown, *made.read_only)),))

    def close(self) -> None:
        self._confining.close()


def kept_by_kernel() -> bool:
    """Whether the sandbox of this machine keeps what `deny_read` and `deny_write` name."""
    return methods.available().method == "bubblewrap"
