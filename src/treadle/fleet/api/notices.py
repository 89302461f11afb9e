"""Telling a person who does not look: each question once, to a webhook, an ntfy topic or a command, with answer links.

    https://hooks.example/x          a POST of JSON, signed in the header X-Treadle-Signature
    ntfy:https://ntfy.example/topic  a message with two buttons, each of which answers
    command:notify-send              the command is run with the words as its last argument

What cannot be delivered is tried again for a while and then left: no run waits for it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import shlex
from typing import TYPE_CHECKING, Any

import msgspec

from treadle.errors import ConfigError
from treadle.fleet.api import answer_links
from treadle.fleet.bus import Entry
from treadle.fleet.order_rows import OrderRow

if TYPE_CHECKING:
    from treadle.fleet.api.serve import WebServer

log = logging.getLogger(__name__)

TRIES = 6
FIRST_PAUSE = 1.0
TOLD_MAX = 10_000


def checked(target: str) -> str:
    kind, _, rest = target.partition(":")
    url = rest if kind == "ntfy" else target
    if kind != "command" and not url.startswith(("https://", "http://127.0.0.1", "http://localhost")):
        raise ConfigError(f"{target!r} is no place to tell", hint="https://..., ntfy:https://..., or command:PROGRAM")
    return target


class Notices:
    def __init__(self, server: WebServer, targets: tuple[str, ...]) -> None:
        self.server = server
        self.targets = tuple(checked(target) for target in targets)
        self._told: dict[str, None] = {}

    def on_state(self, entries: list[Entry], rows: list[OrderRow]) -> None:
        for entry in entries:
            if not entry.key.startswith("ask.") or not entry.value or entry.key in self._told:
                continue
            self._told[entry.key] = None
            while len(self._told) > TOLD_MAX:
                del self._told[next(iter(self._told))]
            ask = msgspec.json.decode(entry.value)
            for target in self.targets:
                self.server.start_task(self._tell(target, ask))

    async def _tell(self, target: str, ask: dict[str, Any]) -> None:
        pause = FIRST_PAUSE
        for _ in range(TRIES):
            if self._answered(ask):
                return  # answered meanwhile: there is nothing left to tell
            try:
                return await self._send(target, ask)
            except Exception as error:  # whatever a foreign host or program does, it is only told later
                log.info("a notice could not be delivered: %s", type(error).__name__)
            await asyncio.sleep(pause)
            pause *= 2

    def _answered(self, ask: dict[str, Any]) -> bool:
        found = self.server.index.ask(f"{ask['order']}.{ask['number']}") if self.server.index is not None else None
        return found is not None and found[1] is not None

    async def _send(self, target: str, ask: dict[str, Any]) -> None:
        kind, _, rest = target.partition(":")
        links = {
            decision: answer_links.make(self.server.tokens, self.server.address, ask, decision)
            for decision in ("allow", "deny")
        }
        words = answer_links.shown(f"{ask.get('agent')} asks: {ask.get('command') or ask.get('text')}")
        if kind == "command":
            return await self._run([*shlex.split(rest), words])
        if kind == "ntfy":
            actions = "; ".join(f"view, {decision.capitalize()}, {url}, clear=true" for decision, url in links.items())
            title = answer_links.shown(str(ask.get("title", "")))[:100].encode("ascii", "replace").decode()
            return await self._post(rest, words.encode(), {"Title": title, "Actions": actions, "Priority": "high"})
        body = msgspec.json.encode({"kind": "asked", "ask": ask, "links": links})
        signature = hmac.new(self.server.tokens.key(), body, hashlib.sha256).hexdigest()
        headers = {"Content-Type": "application/json", "X-Treadle-Signature": f"sha256={signature}"}
        await self._post(target, body, headers)

    async def _post(self, url: str, body: bytes, headers: dict[str, str]) -> None:
        import httpx2

        async with httpx2.AsyncClient(timeout=10.0, trust_env=True) as client:
            (await client.post(url, content=body, headers=headers)).raise_for_status()

    async def _run(self, argv: list[str]) -> None:
        from treadle.io.process.programs import output_of

        await asyncio.to_thread(output_of, argv)
