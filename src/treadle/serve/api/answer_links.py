"""Signed links that answer one question from a chat or a notification. Each works once, until it expires.

Opening a link answers nothing, since chat programs open every link they show. Only the button on its page answers.
"""

from __future__ import annotations

import asyncio
import html
import time
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from treadle.errors import TreadleError
from treadle.fleet import client
from treadle.serve.site import Site
from treadle.wire.fleet.records import AskRecord

if TYPE_CHECKING:
    from treadle.serve.tokens import Tokens


def make(tokens: Tokens, address: str, ask: AskRecord, decision: str) -> str:
    """The address that gives this answer to this question."""
    expires = int(ask.deadline)
    what = f"{ask.order}.{ask.number} {decision}"
    signature = tokens.sign(what, expires)
    return f"{address}/a/{ask.order}/{ask.number}/{decision}/{expires}/{signature}"


async def link(site: Site, request: Request) -> Response:
    given = request.path_params
    order, number, decision = str(given["order"]), str(given["number"]), str(given["decision"])
    expires = str(given["expires"])
    if not expires.isdigit() or len(expires) > 12 or not number.isdigit() or decision not in ("allow", "deny"):
        return _page("This link is not whole.", status=404)
    signature = str(given["signature"])
    what = f"{order}.{number} {decision}"
    if not await asyncio.to_thread(site.tokens.signed, what, float(expires), signature):
        return _page("This link has expired, or was not made here.", status=403)
    try:
        found = site.fleet.require_index().ask(f"{order}.{number}")
        if found is None:
            return _page("There is no such question any more.", status=404)
        ask, answered = found
        if answered is not None:
            return _page(f"{answered.by} has answered already: {answered.decision}.")
        if request.method != "POST":  # includes HEAD, which a route for GET also answers
            return _page(_words(ask), button=decision)
        if not await asyncio.to_thread(site.tokens.use, signature, float(expires)):
            return _page("This link was used before.", status=409)
        bus, by = site.fleet.require_bus(), f"{site.user} (answer link)"
        await client.answer(bus, order, decision, number=int(number), by=by)
    except TreadleError as error:
        return _page(error.message, status=409)
    return _page(f"Answered: {decision}.")


def _words(ask: AskRecord) -> str:
    left = max(0, int((ask.deadline - time.time()) / 60))
    asks = f"{ask.agent} asks, for “{ask.title}”:"
    return f"{asks}\n\n{ask.words}\n\n{left} minutes left, then: {ask.default}"


def _page(text: str, *, button: str = "", status: int = 200) -> Response:
    form = f'<form method="post"><button class="{button}">{button.capitalize()}</button></form>' if button else ""
    body = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="robots" content="noindex">'
        '<meta name="viewport" content="width=device-width"><title>Treadle</title>'
        '<link rel="stylesheet" href="/style.css">'
        f'<main class="link"><pre>{html.escape(shown(text))}</pre>{form}</main>'
    )
    return HTMLResponse(body, status)


HIDDEN = {0x061C, 0x180E, 0xFEFF, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070)}


def shown(text: str) -> str:
    """An agent's text with invisible characters made visible, as on the page."""
    return "".join(
        f"⟨U+{ord(letter):04X}⟩" if ord(letter) in HIDDEN or (ord(letter) < 32 and letter not in "\n\t") else letter
        for letter in text
    )
