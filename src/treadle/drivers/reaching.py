"""The hosts that a driven agent reaches beside those in its list: what a person allows while it works.

The program and its commands are one to us, so who wants to reach a host is not known: it may be a command of the model,
or the program itself, for a service of its own.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from treadle.agent.tools.hosts import HostQuestions, host_granted, host_question
from treadle.events import Event, Warned
from treadle.policy.network import is_host, refusal, shown
from treadle.sessions.session import BaseSession

log = logging.getLogger(__name__)


class HostGate:
    """Asked by the proxy about each host that is not in `hosts`. During a turn a person is asked, if there is one."""

    def __init__(self, who: str, hosts: tuple[str, ...]) -> None:
        self._who = who
        self._hosts = hosts
        self._granted: set[str] = set()
        self._questions = HostQuestions(None)
        self._emit: Callable[[Event], None] | None = None
        self.refused: dict[str, str] = {}
        """Each host that was not reached, with what allows it."""

    async def reach(self, host: str, port: int) -> bool:
        name = shown(host, port)
        if name in self._granted:
            return True
        if await self._questions.reach(host, port):
            self.refused.pop(name, None)
            return True
        if self._emit is None:
            # Programs look for updates and the like when they start: that is no one's question.
            log.info("%s was refused %s outside of a turn", self._who, name)
        elif name not in self.refused:
            self._emit(Warned(message=refusal(self._hosts, name), code="network"))
        self.refused[name] = refusal(self._hosts, name)
        return False

    @contextmanager
    def turn(self, emit: Callable[[Event], None], session: BaseSession | None) -> Iterator[None]:
        """Within this, refusals are reported, and asked about where `session` has a person."""

        async def ask(host: str, port: int) -> bool:
            if session is None or not is_host(host):
                return False
            answer = await session.ask(host_question(self._who, host, port, call=None, deadline=session.deadline()))
            if answer.decision == "allow" and answer.scope != "once":
                self._granted.add(shown(host, port))
                emit(host_granted(host, port))
            return answer.decision == "allow" and answer.changed_args is None

        self.refused.clear()
        self._emit, self._questions = emit, HostQuestions(ask)
        try:
            yield
        finally:
            self._questions.close()
            self._emit, self._questions = None, HostQuestions(None)
