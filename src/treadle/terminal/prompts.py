"""Texts to submit to the program: one at a time, each to the end of its turn, the next when it is idle again.

The supervisor does this, and not the one who sends, because each key depends on what the screen shows at that moment:

1. `queued`: it waits for the program to be idle with an empty input box, if the sender wanted to wait; else it is
   refused when that is not so.
2. `typing`: the text is typed. Enter is pressed when it is seen in the box, and not before.
3. `entered`: Enter was pressed, and the program has not shown what came of it (`judge.Submission`).
4. `taken`: it has: its turn runs, or is over, or asks.
5. `over`: the program is at rest again. Then it is the next one's turn.

A prompt ends early as `refused` (nothing was typed), `unseen` (typed, but Enter was not pressed), `unsubmitted` (Enter
was pressed, and nothing came of it), `cancelled` or `dead`.
"""

from __future__ import annotations

import time

from treadle.light import TYPE_CHECKING, Any
from treadle.terminal import judge, states
from treadle.terminal.keyboard import as_paste, refusal
from treadle.terminal.loop import now_ms
from treadle.wire.common.jsontext import dumps, repaired
from treadle.wire.terminal import frames as wire

if TYPE_CHECKING:
    from typing import Protocol

    from treadle.terminal.history import Log
    from treadle.terminal.loop import Loop
    from treadle.terminal.output import ConnectedClient
    from treadle.terminal.pty import Pty
    from treadle.terminal.state import Watch

    class Senders(Protocol):
        def tell_prompted(self, client: ConnectedClient, message: wire.Prompted) -> None: ...

    class PromptedTerminal(Protocol):
        """What a text is submitted to."""

        loop: Loop
        log: Log
        pty: Pty
        watch: Watch
        code: int | None

        @property
        def clients(self) -> Senders: ...

        def type(self, data: bytes) -> None: ...
        def state(self) -> dict[str, Any]: ...
        def look(self) -> None: ...


QUEUE_MAX = 200
TRIES = 3
"""How often a queued text is typed before it is given up."""
CLEAR = b"\x05\x15"
"""To the end of the line, and remove it: these keys have the same meaning in all agents and in shells."""
CLEAR_MAX = 40
"""How many lines of a text are removed before that is given up."""


class QueuedPrompt:
    def __init__(self, number: int, asked: wire.SubmitPrompt, client: ConnectedClient | None, now: int) -> None:
        self.number = number
        self.data = asked.data
        self.how = asked.how
        self.patience = asked.patience_ms
        self.client = client
        self.stage = "queued"
        self.since = now  # of this stage
        self.stopped = 0  # for how long the program had been stopped when it began
        self.tries = 0
        self.cleared = 0  # how often the keys were pressed that clear a line
        self.obstacle = ""  # what it waits for
        self.reported: tuple[str, str] = ("", "")
        self.submission: judge.Submission | None = None

    @property
    def waits(self) -> bool:
        return bool(self.how & wire.WHEN_IDLE)

    @property
    def anyway(self) -> bool:
        return bool(self.how & wire.AT_ANY_TIME)


class Prompts:
    def __init__(self, session: PromptedTerminal) -> None:
        self.session = session
        self.queue: list[QueuedPrompt] = []
        self._count = 0
        self._stepping = False

    # What clients ask...

    def add(self, client: ConnectedClient, asked: wire.SubmitPrompt) -> None:
        self.step()  # what was submitted before may be over by now
        self._count += 1
        prompt = QueuedPrompt(self._count, asked, client, now_ms())
        first = self.queue[0].stage if self.queue else ""
        if len(self.queue) >= QUEUE_MAX:
            return self._end(prompt, "refused", "full")
        if not prompt.anyway and (why := self._no_prompt(prompt.data)):
            return self._end(prompt, "refused", why)
        if prompt.waits:
            self.queue.append(prompt)
        elif first in ("", "taken") or (prompt.anyway and first == "queued"):
            self.queue.insert(0, prompt)
        elif prompt.anyway:
            self.queue.insert(1, prompt)
        else:
            return self._end(prompt, "refused", "queue")
        self._tell(prompt)
        self.step()
        self.session.look()

    def cancel(self, client: ConnectedClient, number: int) -> None:
        """Remove one that waits. One whose text is typed already cannot be taken back."""
        found = next((one for one in self.queue if one.number == number), None)
        if found and found.stage == "queued":
            self.queue.remove(found)
            self._end(found, "cancelled")
            answer = {"number": number, "stage": "cancelled"}
        else:
            answer = {"number": number, "stage": found.stage if found else "gone", "why": "too late"}
        self.session.clients.tell_prompted(client, wire.Prompted(dumps(answer).encode()))
        self.session.look()

    def left(self, client: ConnectedClient) -> None:
        """A client is gone. What it has sent stays, but there is no one to tell."""
        for prompt in self.queue:
            if prompt.client is client:
                prompt.client = None

    def listed(self) -> list[dict[str, Any]]:
        return [
            {
                "number": one.number,
                "stage": one.stage,
                "waits_for": one.obstacle or None,
                "text": one.data.decode(errors="replace")[:200],
            }
            for one in self.queue
        ]

    # One step...

    def step(self) -> None:
        """Do what the state allows now, and come back when there may be more to do."""
        if self._stepping:  # a look that we asked for
            return
        self._stepping = True
        try:
            while self.queue and self._step(self.queue[0]):
                pass
        finally:
            self._stepping = False
        if self.queue and self.queue[0].stage in ("queued", "typing", "entered"):
            pause = (
                states.LOOK_LONGEST if self.queue[0].waits and self.queue[0].stage == "queued" else states.LOOK_PAUSE
            )
            self.session.loop.at("prompt", time.monotonic() + pause / 1000, self.step)
        else:
            self.session.loop.cancel("prompt")

    def _step(self, prompt: QueuedPrompt) -> bool:
        """Whether another step can follow at once."""
        if self.session.code is not None:
            return self._over(prompt, "dead")
        state = self.session.state()
        if prompt.stage == "queued":
            return self._start(prompt, state)
        if prompt.stage == "typing":
            return self._press(prompt, state)
        if prompt.stage == "entered":
            return self._entered(prompt, state)
        return self._follow(prompt, state)

    def _start(self, prompt: QueuedPrompt, state: dict[str, Any]) -> bool:
        """Type it, if the program can take it."""
        why = "" if prompt.anyway else self._obstacle(prompt, state)
        prompt.obstacle = why
        if not why:
            self._type(prompt)
            return False
        if prompt.waits:
            return False
        if why in ("settling", "clearing", "stopped") and now_ms() - prompt.since < states.SETTLE_MAX:
            return False
        return self._over(prompt, "refused", why, state)

    def _obstacle(self, prompt: QueuedPrompt, state: dict[str, Any]) -> str:
        """Why it cannot be typed now."""
        watch = self.session.watch
        why = refusal(state, prompt.data, enter=True)
        if why and (prompt.waits or why != states.UNKNOWN):
            return why
        watch.pulse.take(now_ms())
        if watch.pulse.stopped or why:
            return "stopped" if watch.pulse.stopped else why
        if prompt.waits and state["name"] != states.IDLE:
            return str(state["name"])
        detector = watch.agent.detector
        if detector is None:
            return ""
        grid, mode = watch.view.grid(), state.get("mode")
        if not mode and (
            not prompt.data or judge.is_empty(detector, watch.view.lines(), (grid.x, grid.y)) is not False
        ):
            return ""  # without a box, only a report says that it is idle
        if prompt.how & wire.REPLACE and prompt.cleared < CLEAR_MAX:
            if state["name"] in (states.IDLE, "error"):
                prompt.cleared += 1
                self.session.type(CLEAR if prompt.cleared == 1 else b"\x7f" + CLEAR)
                prompt.since = now_ms()
            return "clearing"
        return "mode" if mode else "text"

    def _no_prompt(self, data: bytes) -> str:
        """Why the agent would never take this text for a prompt, or its box could not be read with it."""
        detector = self.session.watch.agent.detector
        if detector is None:
            return ""
        if data[:1] == b"!" and "!" in detector.box.modes:
            return "shell"
        return "menu" if judge.like_a_menu(detector, data) else ""

    def _type(self, prompt: QueuedPrompt) -> None:
        watch = self.session.watch
        data = prompt.data
        if not self.session.pty.canonical and watch.modes()["paste"]:
            data = as_paste(data)
        now = now_ms()
        watch.pulse.take(now)
        if data:
            self.session.type(data)
            watch.typed(now)
        prompt.stopped = watch.pulse.stopped_ms
        self._stage(prompt, "typing")

    def _press(self, prompt: QueuedPrompt, state: dict[str, Any]) -> bool:
        """Press Enter when the text is seen in the box; where there is none, when the program has drawn it."""
        watch, now = self.session.watch, now_ms()
        watch.pulse.take(now)
        waited = now - prompt.since - (watch.pulse.stopped_ms - prompt.stopped)
        if not prompt.anyway and state["name"] in states.WAITING:
            return self._unseen(prompt, state["name"], state)
        ready = not prompt.data or self._seen(prompt, waited)
        if not ready or watch.pulse.stopped:
            if waited > (states.SETTLE_MAX if prompt.anyway else prompt.patience):
                if not prompt.anyway:
                    return self._unseen(prompt, "unseen", state)
            else:
                return False
        at_rest = (
            (states.IDLE, "error") if watch.agent.box_seen else (states.IDLE, "error", states.UNKNOWN)
        )  # a text hides a shell's prompt
        if not prompt.anyway and (state["name"] not in at_rest or state.get("settling")):
            # It has begun to do something by itself, which may end in a dialog.
            return self._unseen(prompt, state["name"], state) if waited > prompt.patience else False
        if not prompt.anyway and state.get("mode"):  # the first character of the text was taken for a command
            return self._unseen(prompt, "mode", state)
        submits = self._submits(prompt)
        self.session.type(b"\r")
        watch.typed(now)
        if submits is not None and state["name"] not in states.WAITING:
            watch.entered(submits, now, prompt.patience)
            prompt.submission = watch.submission
        self._stage(prompt, "entered")
        return True

    def _unseen(self, prompt: QueuedPrompt, why: str, state: dict[str, Any]) -> bool:
        """It was typed, and the box does not show it, or a dialog came. One that is queued is tried again when it is
        next idle: Enter was not pressed, and if the text turns up in the box after all, the box is not empty."""
        prompt.tries += 1
        if not prompt.waits or prompt.tries >= TRIES:
            return self._over(prompt, "unseen", why, state)
        self._stage(prompt, "queued")
        return False

    def _seen(self, prompt: QueuedPrompt, waited: int) -> bool:
        watch, now = self.session.watch, now_ms()
        detector = watch.agent.detector
        if detector is None or (text := judge.content(detector, watch.view.lines())) is None and self._boxless():
            return waited >= states.SETTLED // 2 and (watch.quiet(now) >= states.SETTLED or waited >= states.SETTLE_MAX)
        return watch.quiet(now) >= states.SETTLED_AGENT and judge.holds(text, prompt.data)

    def _boxless(self) -> bool:
        """An agent that is known only by its reports, such as one whose screen has never shown a box."""
        return not self.session.watch.agent.box_seen

    def _submits(self, prompt: QueuedPrompt) -> bytes | None:
        """What Enter submits: the text, or what was in the box already; None for an Enter that submits nothing."""
        watch = self.session.watch
        if prompt.data or watch.agent.detector is None:
            return prompt.data
        grid = watch.view.grid()
        if judge.is_empty(watch.agent.detector, watch.view.lines(), (grid.x, grid.y)):
            return None
        return (judge.content(watch.agent.detector, watch.view.lines()) or "").encode()

    def _entered(self, prompt: QueuedPrompt, state: dict[str, Any]) -> bool:
        mine, watch = prompt.submission, self.session.watch
        if mine and mine.lost:
            return self._over(prompt, "unsubmitted", "in the box", state)
        if mine is None or mine.outcome or watch.submission is not mine:
            self._stage(prompt, "taken")
            return True
        if state["name"] == states.UNKNOWN and not state.get("settling"):
            return self._over(prompt, "unsubmitted", self._why_not(mine), state)
        return False

    def _why_not(self, mine: judge.Submission) -> str:
        watch = self.session.watch
        detector = watch.agent.detector
        text = judge.content(detector, watch.view.lines()) if detector else ""
        return "no box" if text is None else "in the box" if judge.holds(text, mine.data) else "no work"

    def _follow(self, prompt: QueuedPrompt, state: dict[str, Any]) -> bool:
        """Wait for the end of its turn. If it asks something, its sender is told, and the queue waits for the end."""
        if state.get("settling"):
            return False
        if state["name"] in (states.IDLE, "error"):
            return self._over(prompt, "over", "", state)
        if state["name"] in states.AT_REST or state["name"] == states.UNKNOWN:
            self._tell(prompt, state["name"], state)
            if state["name"] == states.UNKNOWN and state.get("hint") == states.IDLE:
                return self._over(prompt, "over", states.UNKNOWN, state)
        return False

    # Telling...

    def _stage(self, prompt: QueuedPrompt, stage: str) -> None:
        prompt.stage, prompt.since = stage, now_ms()
        self._tell(prompt)

    def _over(self, prompt: QueuedPrompt, stage: str, why: str = "", state: dict[str, Any] | None = None) -> bool:
        self.queue.remove(prompt)
        self._end(prompt, stage, why, state)
        self.session.look()
        return True

    def _end(self, prompt: QueuedPrompt, stage: str, why: str = "", state: dict[str, Any] | None = None) -> None:
        prompt.stage = stage
        self.session.log("info" if stage == "over" else "warn", "prompt", number=prompt.number, stage=stage, why=why)
        self._tell(prompt, why, state)

    def _tell(self, prompt: QueuedPrompt, why: str = "", state: dict[str, Any] | None = None) -> None:
        """Tell the sender, once."""
        if prompt.reported == (prompt.stage, why):
            return
        prompt.reported = (prompt.stage, why)
        if prompt.client is None:
            return
        body: dict[str, Any] = {"number": prompt.number, "stage": prompt.stage, "why": why or None}
        body["state"] = state or self.session.state()
        if mine := prompt.submission:
            body |= {"turn": mine.turn, "confirmed": mine.confirmed}
        self.session.clients.tell_prompted(prompt.client, wire.Prompted(dumps(repaired(body)).encode()))
