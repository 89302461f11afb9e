"""One governor for each account: when a service says 429 or 529, all runs of this machine that use the account wait.

Until when is in a file for each account, which holds neither the service nor the key. When it is over, half as many
again go on at once as the service has answered after the wait before, and of the others twice as many every 50 ms. So
what the service allows is used, and it refuses a few calls only until all runs know.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

import msgspec

from treadle.errors import StorageError
from treadle.events import ErrorInfo, Retrying
from treadle.io.paths import ACCOUNTS, private_dir, state_dir
from treadle.io.records import FileRecord
from treadle.wire.models.families import retry_after

STATUSES = (429, 529)
PATIENCE = 240.0
"""Seconds that a client is kept waiting; most give up after 300 to 600. After that it gets the service's answer."""
FIRST, LONGEST = 0.5, 30.0
"""Seconds between tries, where the service does not say when."""
OUT_OF_MONEY = rb"(?i)insufficient_quota|billing|credit balance"
"""No wait helps against that."""
DOUBLING = 0.05
"""Seconds after a wait in which twice as many go on."""
COUNTED = 60.0
"""Seconds after a wait in which calls are counted."""


class AccountState(msgspec.Struct, frozen=True, kw_only=True):
    until: float = 0.0
    """No one asks before this time, in seconds since 1970."""
    row: int = 0
    """How many have asked after that, or will."""
    answered: int = 0
    """How many of them the service has answered."""
    at_once: int = 0
    """How many were answered after the wait before: these and half as many again need not wait any longer."""
    refused: int = 0
    """How often in a row the service has refused a call that was made after the refusal before it."""
    refused_at: float = 0.0


STATE = FileRecord(AccountState, sync=False)


class AccountGovernor:
    def __init__(self, service: str, key: str, *, place: str = "") -> None:
        name = hashlib.sha256(f"{service}\0{key}".encode()).hexdigest()[:24]
        self._path = os.path.join(place or private_dir(os.path.join(state_dir(), ACCOUNTS)), f"{name}.json")

    async def turn(self) -> AsyncIterator[float]:
        """Wait until this account may be asked. Yields until when, if that is not at once."""
        began = time.time()
        while (state := self._state()) is not None and time.time() < began + PATIENCE:
            if not -COUNTED < state.until - time.time() < PATIENCE or _set_back(state):
                return  # also when no client waits that long: it gets the service's own answer
            mine = await asyncio.to_thread(self._take_place)
            if mine > time.time() + 1:
                yield mine
            await asyncio.sleep(max(0.0, mine - time.time()))
            now = self._state()
            if now is None or now.until <= time.time():
                return

    def _state(self) -> AccountState | None:
        """None also where it cannot be read: a full disk, or one who may not look there, ends no run."""
        with suppress(StorageError):
            return STATE.load_whole(self._path)
        return None

    def _take_place(self) -> float:
        with suppress(StorageError), STATE.locked(self._path):
            state = STATE.load_whole(self._path) or AccountState()
            STATE.save(self._path, msgspec.structs.replace(state, row=state.row + 1))
            return _place(state)
        return time.time()

    def refused(
        self, status: int, headers: Mapping[str, str], body: bytes, waited: float, asked_at: float
    ) -> float | None:
        """Note an answer that is an error. Returns the seconds after which the call is made again; None: it is not."""
        if status not in STATUSES or re.search(OUT_OF_MONEY, body):
            return None
        asked = retry_after(headers, time.time())
        wait = FIRST if asked is None else asked
        with suppress(StorageError), STATE.locked(self._path):
            state, now = STATE.load_whole(self._path) or AccountState(), time.time()
            state = AccountState() if _set_back(state) else state
            refused = state.refused + 1
            wait = asked if asked is not None else min(LONGEST, FIRST * 2.0 ** min(refused - 1, 10))
            if asked_at >= state.refused_at:
                state = AccountState(until=max(state.until, now + wait), at_once=state.answered, refused=refused)
            elif asked is not None and now + asked > state.until + 1:  # else both were under way: that is one refusal
                state = msgspec.structs.replace(state, until=now + asked)
            STATE.save(self._path, msgspec.structs.replace(state, refused_at=max(now, state.refused_at)))
        return None if headers.get("x-should-retry") == "false" or waited + wait > PATIENCE else wait

    def succeeded(self, asked_at: float) -> None:
        """Note that a call was answered which was made at this time: what was refused before that counts no more."""
        state = self._state()
        if state is None or state.until < time.time() - COUNTED:
            return
        with suppress(StorageError), STATE.locked(self._path):
            state = STATE.load_whole(self._path) or AccountState()
            if asked_at < state.refused_at:
                state = msgspec.structs.replace(state, at_once=state.at_once + 1)
            else:
                until = min(state.until, asked_at)  # it was made although others wait, so these need not
                state = msgspec.structs.replace(state, until=until, answered=state.answered + 1, refused=0)
            STATE.save(self._path, state)


def waiting(until: float) -> Retrying:
    """No call is made before this time."""
    wait = max(0, round((until - time.time()) * 1000))
    when = time.strftime("%H:%M:%S", time.localtime(until))
    shown = f"waiting for the model until {when}: " if wait <= PATIENCE * 1000 else ""
    message = f"{shown}its service limits this account"
    error = ErrorInfo(code="rate_limited", message=message, retryable=True, retry_after_ms=wait)
    return Retrying(attempt=1, delay_ms=wait, error=error)


def _place(state: AccountState) -> float:
    """When the next one may ask."""
    return state.until + DOUBLING * math.log2(1 + max(0, state.row - state.at_once * 3 // 2))


def _set_back(state: AccountState) -> bool:
    """Whether the clock was: then no one knows how long that wait still is."""
    return state.refused_at > time.time() + 1
