"""Notifies people who are not looking: once for each cause, on every target, and taken back where possible.

A cause is a question, an order that failed, work to be reviewed, or a train that stopped. Browsers that subscribed are
notified over Web Push, and every `--notify` target in its own way (`notice_targets`). Failed deliveries are tried again
for a while and then given up: no run waits for them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from treadle.fleet.engine.bus import Entry
from treadle.fleet.find.order_rows import OrderRow
from treadle.fleet.orders import read_answer
from treadle.landing.train import read_train
from treadle.serve.api import answer_links
from treadle.serve.notify import notice_targets, push
from treadle.serve.notify.notice_targets import Notice
from treadle.serve.site import Site
from treadle.wire.fleet.connection import read_as
from treadle.wire.fleet.records import AnswerRecord, AskRecord
from treadle.wire.fleet.train import TrainRecord

if TYPE_CHECKING:
    from treadle.serve.tokens import Device

log = logging.getLogger(__name__)

TRIES = 6
FIRST_PAUSE = 1.0
SENT_MAX = 10_000
NEWS_SECONDS = 600.0
"""Changes older than this are not news: a server that has just started notifies no one about them."""


class Notices:
    def __init__(self, site: Site, targets: tuple[str, ...]) -> None:
        self.site = site
        self.targets = tuple(notice_targets.parse(target) for target in targets)
        self._sent: dict[str, list[Callable[[str], Awaitable[None]]]] = {}
        """Each cause that was announced, with the functions that take the notices back."""

    def on_state(self, entries: list[Entry], rows: list[OrderRow]) -> None:
        for entry in entries:
            kind, _, key = entry.key.partition(".")
            if kind == "ask" and entry.value and key not in self._sent:
                ask: AskRecord = read_as(AskRecord, entry.value, entry.key)
                if ask.deadline > time.time():
                    self._tell(self._of_ask(key, ask))
            elif kind == "answer" and entry.value and key in self._sent:
                answer: AnswerRecord = read_answer(entry.value, entry.key)
                if answer.stands:
                    self._take_back(key, f"{answer.by} answered: {answer.decision}")
            elif kind == "train" and entry.value:
                self._look_at_train(key, read_train(entry.value))
        for row in rows:
            key = f"{row.id}.{row.needs}.{row.attempt}"
            if row.needs in ("failed", "review") and row.changed > time.time() - NEWS_SECONDS and key not in self._sent:
                self._tell(self._of_row(key, row))

    def _look_at_train(self, name: str, record: TrainRecord) -> None:
        """A train that stopped by itself needs a person; one that a person paused does not."""
        note, key = record.paused, f"train.{name}"
        if note is None or note.by != "train":
            if self._sent.get(key):
                self._take_back(key, f"the train of {record.branch} goes on")
            self._sent.pop(key, None)
        elif key not in self._sent and note.at > time.time() - NEWS_SECONDS:
            self._tell(
                Notice(
                    key=key,
                    kind="stopped",
                    order="",
                    title=answer_links.shown(f"the train of {record.branch} stands still"),
                    words=answer_links.shown(f"{len(record.queue)} wait: {note.what}"),
                    until=time.time() + 86400,
                    url=f"{self.site.address}/#/trains",
                )
            )

    def _of_ask(self, key: str, ask: AskRecord) -> Notice:
        return Notice(
            key=key,
            kind="asked",
            order=ask.order,
            title=answer_links.shown(ask.title or ask.order),
            words=answer_links.shown(f"{ask.agent} asks: {ask.words}"),
            until=ask.deadline,
            url=f"{self.site.address}/#/order/{ask.order}",
            links={
                decision: answer_links.make(self.site.tokens, self.site.address, ask, decision)
                for decision in ("allow", "deny")
            },
            number=ask.number,
            ask=ask,
        )

    def _of_row(self, key: str, row: OrderRow) -> Notice:
        words = f"failed: {row.why}" if row.needs == "failed" else f"finished: {row.stat or 'to be reviewed'}"
        return Notice(
            key=key,
            kind="failed" if row.needs == "failed" else "finished",
            order=row.id,
            title=answer_links.shown(row.title or row.id),
            words=answer_links.shown(words),
            until=time.time() + 86400,
            url=f"{self.site.address}/#/order/{row.id}",
        )

    def _tell(self, notice: Notice) -> None:
        self._sent[notice.key] = []
        while len(self._sent) > SENT_MAX:
            del self._sent[next(iter(self._sent))]
        for send in self.targets:
            self.site.start_task(self._deliver(notice, partial(send, notice, self.site.tokens.key())))
        for device in self.site.tokens.read().devices:
            if device.push is not None:
                self.site.start_task(self._deliver(notice, partial(self._push, device, notice)))

    async def _deliver(self, notice: Notice, send: Callable[[], Awaitable[Any]]) -> None:
        pause = FIRST_PAUSE
        for _ in range(TRIES):
            if notice.ask is not None and self._answered(notice.key):
                return  # there is nothing left to announce
            try:
                take_back = await send()
            except Exception as error:  # whatever a foreign host or program does only delays the notice
                log.info("a notice could not be delivered: %s", type(error).__name__)
                await asyncio.sleep(pause)
                pause *= 2
                continue
            if take_back is not None:
                self._sent.get(notice.key, []).append(take_back)
            return

    def _answered(self, key: str) -> bool:
        found = self.site.fleet.index.ask(key) if self.site.fleet.index is not None else None
        return found is not None and found[1] is not None

    def _take_back(self, key: str, words: str) -> None:
        sent, self._sent[key] = self._sent[key], []

        async def later(take_back: Callable[[str], Awaitable[None]]) -> None:
            try:
                await take_back(answer_links.shown(words))
            except Exception as error:  # it stays where it is, and its links say that it was answered
                log.info("a notice could not be taken back: %s", type(error).__name__)

        for take_back in sent:
            self.site.start_task(later(take_back))

    async def _push(self, device: Device, notice: Notice) -> Callable[[str], Awaitable[None]]:
        whole = len(notice.words) <= push.TEXT_MAX
        message: dict[str, Any] = {
            "tag": notice.key,
            "order": notice.order,
            "title": notice.title[:120],
            "body": notice.words if whole else f"{notice.words[: push.TEXT_MAX]}…",
            # A notice that does not show all of it offers no answer.
            "number": notice.number if whole and device.right != "watch" else None,
        }
        await push.send(self.site, device, message, seconds=notice.until - time.time())

        async def take_back(words: str) -> None:
            gone = {"tag": notice.key, "order": notice.order, "title": message["title"], "body": words, "over": True}
            await push.send(self.site, device, gone, seconds=3600)

        return take_back
