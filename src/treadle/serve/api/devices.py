"""Signing in with the code of a link, the devices that hold a token, and signed links that answer one question."""

from __future__ import annotations

import asyncio
import html
import os
import time
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from treadle.errors import TreadleError
from treadle.fleet import client
from treadle.redact import Redactor
from treadle.serve.api.calls import Asking, RequestBody, call
from treadle.serve.envelope import RequestRefused, answer, failure
from treadle.serve.gate import BODY_SECONDS, Gate, address_of
from treadle.serve.site import Site
from treadle.serve.tokens import Right
from treadle.wire.fleet.records import AskRecord

if TYPE_CHECKING:
    from treadle.serve.tokens import Tokens


COOKIE_SECONDS = 400 * 86400
"""Browsers keep no cookie longer than 400 days."""


class Code(msgspec.Struct, frozen=True):
    code: Annotated[str, Meta(min_length=1, max_length=200)]


async def sign_in(gate: Gate, request: Request) -> Response:
    """`POST /login`: exchange the code of a link, once, for a cookie that no script can read and a proof that only
    pages of this origin can keep.
    """
    try:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                code = msgspec.json.decode(await request.body(), type=Code).code
        except (msgspec.MsgspecError, TimeoutError):
            raise RequestRefused(400, "bad_request", "the code cannot be read") from None
        made = await asyncio.to_thread(gate.tokens.exchange, code, request.headers.get("user-agent", ""))
        if made is None:
            gate.note_failure(address_of(request.scope), code)
            raise RequestRefused(401, "unauthorized", "this link was used before or has expired", hint=_ANEW)
    except TreadleError as error:
        return failure(error)
    device, cookie, proof = made
    response = answer({"right": device.right, "device": device.name, "proof": proof})
    response.set_cookie(
        gate.cookie,
        cookie,
        max_age=COOKIE_SECONDS,
        path="/",
        httponly=True,
        samesite="strict",
        secure=gate.secure,
    )
    return response


_ANEW = "`treadle serve --link` prints a new one"


class DeviceRow(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    right: Right
    created: float
    used: float
    you: bool


@call("GET", "/devices", right="all", returns=list[DeviceRow])
async def list_devices(asking: Asking) -> list[DeviceRow]:
    """The devices that hold a token, and what each may do."""
    return [
        DeviceRow(
            id=each.id,
            name=each.name,
            right=each.right,
            created=each.created,
            used=each.used,
            you=each.id == asking.device.id,
        )
        for each in asking.site.tokens.read().devices
    ]


class NewLink(RequestBody, frozen=True, kw_only=True):
    right: Right = "answer"
    name: Annotated[str, Meta(max_length=80)] = ""


class MadeLink(msgspec.Struct, frozen=True):
    url: str


@call("POST", "/devices", right="all", body=NewLink, returns=MadeLink, status=201)
async def invite_device(asking: Asking) -> MadeLink:
    """A link that can be opened once, for another device."""
    code = await asyncio.to_thread(asking.site.tokens.link, asking.body.name, asking.body.right)
    return MadeLink(f"{asking.site.address}/#{code}")


@call("DELETE", "/devices/{id}", right="all")
async def revoke_device(asking: Asking) -> None:
    """Revoke a device's token, and close what the device has open."""
    device = await asyncio.to_thread(asking.site.tokens.revoke, asking.path("id"))
    await asking.site.cut_off(device.id)


class WhoAmI(msgspec.Struct, frozen=True):
    device: str
    right: Right
    user: str


@call("GET", "/me", returns=WhoAmI)
async def who_am_i(asking: Asking) -> WhoAmI:
    """Which device this token belongs to, and what it may do."""
    return WhoAmI(asking.device.name, asking.device.right, asking.site.user)


# Signed links that answer one question from a chat or a notification. Each works once, until it expires.
#
# Opening a link answers nothing, since chat programs open every link they show. Only the button on its page answers.


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
    """An agent's text without secrets, and with invisible characters made visible, as on the page."""
    return "".join(
        f"⟨U+{ord(letter):04X}⟩" if ord(letter) in HIDDEN or (ord(letter) < 32 and letter not in "\n\t") else letter
        for letter in Redactor.of_environment(os.environ).text(text)
    )
