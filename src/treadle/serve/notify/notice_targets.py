"""Where notices can go. A target is written as text, and becomes a function that sends one notice there.

    https://hooks.example/x                   a POST of JSON, signed in the header X-Treadle-Signature
    ntfy:https://ntfy.example/topic           a message with two buttons
    slack:https://hooks.slack.example/x       the same in Slack, by an incoming webhook
    telegram:https://api.telegram.org/botTOKEN#CHAT   the same in Telegram; it says who answered when a person has
    command:notify-send                       the command is run with the words as its last argument
    env:NAME                                  the target in this environment variable: addresses of hooks are secrets

Every button is a link that shows the question; only the button on its page answers.
"""

import asyncio
import hashlib
import hmac
import os
import shlex
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from treadle.errors import ConfigError
from treadle.wire.fleet.records import AskRecord

TEXT_MAX = 3000
TakeBack: TypeAlias = Callable[[str], Awaitable[None]]
Target: TypeAlias = Callable[["Notice", bytes], Awaitable[TakeBack | None]]
"""Sends a notice, signed with this key where possible. Returns a function that takes it back, if it can be."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something that needs a person, in words."""

    key: str
    kind: str
    """asked, failed, finished, or stopped, which is about no order."""
    order: str
    title: str
    words: str
    until: float
    url: str
    links: dict[str, str] = {}
    """For a question: decision -> the link that gives this answer."""
    number: int | None = None
    ask: AskRecord | None = None

    def buttons(self) -> list[tuple[str, str]]:
        return [(name.capitalize(), url) for name, url in self.links.items()] or [("Look", self.url)]

    def cut(self) -> str:
        return self.words if len(self.words) <= TEXT_MAX else f"{self.words[:TEXT_MAX]}… (the link shows all of it)"


def parse(target: str) -> Target:
    kind, _, rest = target.partition(":")
    if kind == "env":
        if not (found := os.environ.get(rest, "")) or found.startswith("env:"):
            raise ConfigError(f"the environment has no {rest} that is a target for notices")
        return parse(found)
    if kind == "command" and shlex.split(rest):
        return lambda notice, key: _command(shlex.split(rest), notice)
    url = rest if kind in ("ntfy", "slack", "telegram") else target
    if not url.startswith(("https://", "http://127.0.0.1", "http://localhost")):
        # Without its secret part, because this may be printed anywhere.
        raise ConfigError(
            f"a target of the kind {kind[:20]!r} is not a target for notices",
            hint="URL, ntfy:URL, slack:URL, telegram:URL#CHAT (each https), command:PROGRAM or env:NAME",
        )
    if kind == "ntfy":
        return lambda notice, key: _ntfy(url, notice)
    if kind == "slack":
        return lambda notice, key: _slack(url, notice)
    if kind == "telegram":
        bot, _, chat = url.partition("#")
        if not chat:
            raise ConfigError(
                "a Telegram target needs the chat", hint="telegram:https://api.telegram.org/botTOKEN#CHAT"
            )
        return lambda notice, key: _telegram(bot, chat, notice)
    return lambda notice, key: _webhook(url, notice, key)


async def _command(argv: list[str], notice: Notice) -> None:
    from treadle.io.process.programs import run_program

    done = await asyncio.to_thread(run_program, [*argv, f"{notice.title}: {notice.cut()}"], timeout=60.0)
    if done.code:
        raise OSError(f"the command failed: {done.complaint}")


async def _webhook(url: str, notice: Notice, key: bytes) -> None:
    body = msgspec.json.encode(notice)
    signature = hmac.new(key, body, hashlib.sha256).hexdigest()
    await _post(url, body, {"Content-Type": "application/json", "X-Treadle-Signature": f"sha256={signature}"})


async def _ntfy(url: str, notice: Notice) -> None:
    actions = "; ".join(f"view, {word}, {link}, clear=true" for word, link in notice.buttons())
    title = notice.title[:100].encode("ascii", "replace").decode()
    headers = {"Title": title, "Actions": actions, "Click": notice.url, "Priority": "high"}
    await _post(url, notice.cut().encode(), headers)


async def _slack(url: str, notice: Notice) -> None:
    """Blocks of plain text, so that an agent's words cannot mention anybody or hide where a link leads."""
    buttons = [
        {"type": "button", "text": {"type": "plain_text", "text": word}, "url": link} for word, link in notice.buttons()
    ]
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": notice.title[:140], "emoji": False}},
        {"type": "section", "text": {"type": "plain_text", "text": notice.cut()[:2900], "emoji": False}},
        {"type": "actions", "elements": buttons},
    ]
    text = notice.title[:140].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    await _post_json(url, {"text": text, "blocks": blocks, "unfurl_links": False})


async def _telegram(bot: str, chat: str, notice: Notice) -> TakeBack:
    buttons = [[{"text": word, "url": link} for word, link in notice.buttons()]]
    text = f"{notice.title}\n\n{notice.cut()}"
    answer = await _post_json(
        f"{bot}/sendMessage",
        {
            "chat_id": chat,
            "text": text,
            "reply_markup": {"inline_keyboard": buttons},
            "link_preview_options": {"is_disabled": True},
        },
    )
    message = answer["result"]["message_id"]

    async def take_back(words: str) -> None:
        changed = {"chat_id": chat, "message_id": message, "text": f"{text}\n\n{words}"}
        await _post_json(f"{bot}/editMessageText", changed)

    return take_back


async def _post_json(url: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await _post(url, msgspec.json.encode(body), {"Content-Type": "application/json"})
    try:
        found = msgspec.json.decode(answer)
    except msgspec.MsgspecError:
        return {}
    return found if isinstance(found, dict) else {}


async def _post(url: str, body: bytes, headers: dict[str, str]) -> bytes:
    import httpx2

    async with httpx2.AsyncClient(timeout=10.0, trust_env=True) as client:
        answer = await client.post(url, content=body, headers=headers)
        answer.raise_for_status()
        return bytes(answer.content)
