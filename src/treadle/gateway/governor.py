"""One governor for each account: when a service says 429 or 529, all runs of this machine that use the account wait.

Until when is in a file for each account, which holds neither the service nor the key. Runs that wait for the same
moment go one after the other, each a little later than the one before, so that they do not all fail again.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import time
from collections.abc import Callable, Mapping

import msgspec

from treadle.io.paths import private_dir, state_dir
from treadle.io.records import FileRecord
from treadle.wire.models.families import retry_after

STATUSES = (429, 529)
PATIENCE = 240.0
"""Seconds that a client is kept waiting; most give up after 300 to 600. After that it gets the service's answer."""
FIRST, LONGEST = 1.0, 30.0
"""Seconds between tries, where the service does not say when."""
OUT_OF_MONEY = rb"(?i)insufficient_quota|billing|credit balance"
"""No wait helps against that."""
STEP = 0.05
"""Seconds between two runs that go on after a wait."""


class AccountState(msgspec.Struct, frozen=True, kw_only=True):
    until: float = 0.0
    """No one asks before this time, in seconds since 1970."""
    next: float = 0.0
    """When the next one of those that waited may ask."""
    refused: int = 0
    """How often the service has refused in a row."""
    refused_at: float = 0.0


STATE = FileRecord(AccountState, sync=False)


class AccountGovernor:
    def __init__(self, service: str, key: str, *, place: str = "") -> None:
        name = hashlib.sha256(f"{service}\0{key}".encode()).hexdigest()[:24]
        self._path = os.path.join(place or private_dir(os.path.join(state_dir(), "accounts")), f"{name}.json")

    async def turn(self, announce: Callable[[float], None]) -> None:
        """Wait until this account may be asked; `announce`: until when, if that is not now."""
        began = time.time()
        while (state := STATE.load_whole(self._path)) is not None and time.time() < began + PATIENCE:
            if max(state.until, state.next) <= time.time() or state.until - time.time() > PATIENCE:
                return  # also when no client waits that long: it gets the service's own answer
            mine = await asyncio.to_thread(self._place)
            if mine > time.time() + 1:
                announce(mine)
            await asyncio.sleep(max(0.0, min(mine - time.time(), PATIENCE)))
            now = STATE.load_whole(self._path)
            if now is None or now.until <= time.time():
                return

    def _place(self) -> float:
        """Take the next place in the row."""
        with STATE.locked(self._path):
            state = STATE.load_whole(self._path) or AccountState()
            mine = max(state.until, state.next, time.time())
            STATE.save(self._path, msgspec.structs.replace(state, next=mine + STEP))
            return mine

    def refused(self, status: int, headers: Mapping[str, str], body: bytes, waited: float) -> float | None:
        """Note an answer that is an error. Returns the seconds after which the call is made again; None: it is not."""
        if status not in STATUSES or re.search(OUT_OF_MONEY, body):
            return None
        asked = retry_after(headers, time.time())
        with STATE.locked(self._path):
            state = STATE.load_whole(self._path) or AccountState()
            refused = state.refused + 1
            wait = asked if asked is not None else min(LONGEST, FIRST * 2.0 ** min(refused - 1, 10))
            now = time.time()
            until = max(state.until, now + wait)
            made = AccountState(until=until, next=max(until, state.next), refused=refused, refused_at=now)
            STATE.save(self._path, made)
        return None if headers.get("x-should-retry") == "false" or waited + wait > PATIENCE else wait

    def succeeded(self, asked_at: float) -> None:
        """Note that a call was answered which was made at this time: what was refused before that counts no more."""
        if STATE.load_whole(self._path) is None:
            return
        with STATE.locked(self._path):
            state = STATE.load_whole(self._path)
            if state is not None and state.refused and state.refused_at <= asked_at:
                STATE.save(self._path, AccountState(next=state.next if state.until <= asked_at else 0.0))
