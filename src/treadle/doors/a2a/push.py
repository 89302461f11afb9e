"""Webhooks: changes of a task, posted to an address that its client named and the person allowed.

A client that could name any address would reach what only this machine reaches, so only hosts that the person named
are called, over TLS unless it is this machine, and no redirect is followed.
"""

import asyncio
import logging
from collections.abc import Iterable
from urllib.parse import urlsplit

import msgspec

from treadle.io.http import HttpClient, HttpError
from treadle.io.within import end_tasks
from treadle.policy.addresses import is_loopback
from treadle.wire.a2a.records import A2aEvent, PushTarget
from treadle.wire.a2a.versions import Malformed, Version, written

log = logging.getLogger(__name__)

SECONDS = 15.0
TRIES = 3
WAITING = 1000
"""Changes that may wait for one address; more are dropped, and the client asks for the task."""


class Allowed:
    """Hosts that may be called: `hooks.example` for any port, `hooks.example:8443` for one."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._hosts = {host.lower() for host in hosts}

    def __bool__(self) -> bool:
        return bool(self._hosts)

    def check(self, target: PushTarget) -> None:
        """Raise Malformed, with the reason, unless it may be called."""
        try:
            parts = urlsplit(target.url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError as error:
            raise Malformed(f"url: {error}") from None
        host = (parts.hostname or "").lower()
        named = f"[{host}]" if ":" in host else host
        if parts.scheme not in ("http", "https") or not host or parts.username is not None or parts.fragment:
            raise Malformed("url: an address of http or https is needed, without a name, password or fragment in it")
        if not {host, named, f"{named}:{port}"} & self._hosts:
            raise Malformed(f"url: this server does not call {named}:{port}; its owner allows hosts by --webhook-host")
        if parts.scheme == "http" and not is_loopback(host):
            raise Malformed(f"url: {named} is another machine, so it is called by https only")
        for value in (target.token, target.scheme, target.credentials):
            if not value.isprintable() or not value.isascii():
                raise Malformed("token, scheme and credentials are plain text for a header")


class Webhook:
    """One address, which is told of changes in their order. What cannot be delivered is tried again, then dropped."""

    def __init__(self, target: PushTarget, version: Version) -> None:
        self.target = target
        self.version = version
        self._waiting: asyncio.Queue[A2aEvent | None] = asyncio.Queue(WAITING)
        headers = {"content-type": "application/a2a+json" if version == "1.0" else "application/json"}
        if target.token:
            headers["x-a2a-notification-token"] = target.token
        if target.scheme and target.credentials:
            headers["authorization"] = f"{target.scheme} {target.credentials}"
        self._client = HttpClient(headers, connect_seconds=SECONDS, idle_seconds=SECONDS)
        self._work = asyncio.create_task(self._run(), name=f"webhook {target.id}")

    def tell(self, event: A2aEvent) -> None:
        if self._waiting.full():
            log.warning("the webhook %s is too slow, and was not told of a change", self.target.id)
        else:
            self._waiting.put_nowait(event)

    def finish(self) -> None:
        """Nothing more comes: it ends when all has been delivered."""
        if not self._waiting.full():
            self._waiting.put_nowait(None)

    async def close(self) -> None:
        await end_tasks(self._work)

    async def _run(self) -> None:
        try:
            while (event := await self._waiting.get()) is not None:
                await self._deliver(msgspec.json.encode(written(event, self.version)))
        finally:
            await self._client.aclose()

    async def _deliver(self, body: bytes) -> None:
        for tried in range(TRIES):
            if tried:
                await asyncio.sleep(2.0**tried)
            try:
                async with self._client.request("POST", self.target.url, body) as response:
                    async for _ in response.chunks():
                        pass
                if response.status < 300:
                    return
                why = f"it answered {response.status}"
            except HttpError as error:
                why = str(error)
            log.info("the webhook %s was not reached: %s", self.target.id, why)
        log.warning("the webhook %s was given up for one change after %d tries", self.target.id, TRIES)
