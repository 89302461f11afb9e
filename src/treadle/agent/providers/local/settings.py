"""What a person can set about local models, `[models.local]`."""

import os

import msgspec

CONTEXT = 8192


class LocalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[models.local]`."""

    context: int = CONTEXT
    """The most tokens of a conversation; memory is reserved for all of them."""
    threads: int = 0
    """0: one for each core. On a shared machine, one thread is faster than two that wait for each other."""

    @property
    def cores(self) -> int:
        return self.threads or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else self.threads or 2
