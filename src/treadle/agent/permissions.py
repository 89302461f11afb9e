"""What a native session may do: its mode and rules, what a person has allowed since, and asking that person."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Literal

import msgspec

from treadle.agent import toolbox
from treadle.agent.configuration import Configuration
from treadle.agent.hooks import use_of
from treadle.agent.tools.base import AnyTool, Resolve, host_granted, host_question
from treadle.errors import TreadleError
from treadle.events import Asked, Event, Warned
from treadle.io.paths import DISK, config_file, state_dir
from treadle.policy.network import is_host, named, shown
from treadle.policy.rules import Profile, as_rules
from treadle.sandboxed.confining import Confining
from treadle.session import Access, Answer, Decision, HookVerdict, Mode, Rules
from treadle.sessions.session import new_id

NO_VERDICT = HookVerdict()


class Permissions:
    def __init__(
        self,
        configuration: Configuration,
        *,
        ask: Callable[[Asked], Awaitable[Answer]] | None,
        deadline: Callable[[], float | None],
        emit: Callable[[Event], None],
        readable: Callable[[], Iterable[str]],
        confining: Confining,
        parent: Permissions | None = None,
        event: Callable[[str, dict[str, Any]], Awaitable[HookVerdict]] | None = None,
    ) -> None:
        """`ask` puts a question to a person, None when there is no one; `event` asks hooks before that. `readable` are
        further directories that may be read, such as those of skills. What is allowed for the rest of a session is also
        allowed in its `parent`."""
        self.mode = configuration.spec.mode
        self.configuration = configuration
        self._ask = ask
        self._deadline = deadline
        self._emit = emit
        self._readable = readable
        self._confining = confining
        self._parent = parent
        self._event = event
        if parent is not None:
            confining.granted = parent._confining.granted
        self.guard = self._build(configuration, parent.remembered if parent is not None else ())
        confining.obey(self.guard.rules, self.mode)

    def _build(
        self, configuration: Configuration, remembered: Iterable[tuple[str, str]] = (), rules: Rules | None = None
    ) -> Profile:
        guard = Profile(
            configuration.spec.cwd,
            rules or configuration.rules,
            self.mode,
            configuration.add_dirs,
            configuration.spec.guards.judge,
            self._readable(),
            lambda: self._confining.offline,
            confined=lambda: self._confining.wanted,
            private=(state_dir(), config_file()),
            disk=DISK,
            looks_freely=configuration.spec.looks_freely,
            unreachable=self._confining.unreachable,
            configured=self._configured,
        )
        guard.remembered.update(remembered)
        return guard

    def _configured(self, directory: str) -> str:
        """Why git runs a program there. In the sandbox it has a private configuration, which names none."""
        from treadle.io.sandbox import methods
        from treadle.workspace.user_repository import run_when_looking

        private = self._confining.wanted and methods.available().method == "bubblewrap"
        return "" if private else run_when_looking(directory)

    def rebuild(self, configuration: Configuration | None = None) -> None:
        """Build the guard again, after something that it is made from has changed."""
        configuration = configuration or self.configuration
        self.guard = self._build(configuration, self.remembered)
        self.configuration = configuration
        self._confining.obey(self.guard.rules, self.mode)

    def set_mode(self, mode: Mode) -> None:
        self.mode = mode
        self.rebuild()

    @property
    def rules(self) -> Rules:
        return self.configuration.rules

    @property
    def remembered(self) -> set[tuple[str, str]]:
        """What a person has allowed for the rest of this session: (tool, target)."""
        return self.guard.remembered

    def refused(self, url: str) -> str:
        """Why this address may not be fetched; empty when it may."""
        decision = self.guard(Access(tool="web_fetch", kind="network", url=url))
        return "" if decision.verdict == "allow" else decision.reason

    def reaching(self, call: str) -> Callable[[str, int], Awaitable[bool]] | None:
        """Asks whether a command may reach a host that is not in the list; None when that is not to be asked."""
        return partial(self._reach, call) if self._ask is not None and self._confining.asks else None

    async def _reach(self, call: str, host: str, port: int) -> bool:
        name = shown(host, port)
        if self._ask is None or not is_host(host):
            return False
        if name in self._confining.granted:
            return True
        answer = await self._ask(host_question("a command", host, port, call=call, deadline=self._deadline()))
        if answer.decision == "allow" and answer.scope != "once":
            self._grant(host, port)
        return answer.decision == "allow" and answer.changed_args is None

    async def keep(self, call: str, refused: TreadleError) -> bool:
        """Ask whether files that a command wrote and the gate has taken out come back. False where no one is there, or
        where a rule or another's claim forbids to write one of them."""
        paths = self._confining.taken_out(refused)
        access = Access(tool="Write", kind="write", paths=tuple(paths))
        if not paths or self._ask is None or self.guard(access).verdict == "deny":
            return False
        answer = await self._ask(
            Asked(
                request=new_id("ask"),
                kind="permission",
                text=f"a command wrote {', '.join(paths)}, which other programs obey: keep what it wrote?",
                call=call,
                name=access.tool,
                args={"paths": paths},
                tool_kind="write",
                paths=access.paths,
                always=as_rules(access),
                deadline=self._deadline(),
            )
        )
        if answer.decision == "deny" or answer.changed_args is not None:
            return False
        if answer.scope == "always":
            self._allow_always(access)
        return await asyncio.to_thread(self._confining.give_back, paths)

    def _grant(self, host: str, port: int) -> None:
        if is_host(host):  # and not a pattern, which would cover more than the person has read
            self._confining.granted.add(shown(host, port))
            self._emit(host_granted(host, port))

    async def permit(
        self,
        call: str,
        tool: AnyTool,
        args: Any,
        access: Access,
        resolve: Resolve,
        verdict: HookVerdict = NO_VERDICT,
        plain: Any = None,
    ) -> tuple[Decision, Any]:
        """Decide whether the call may run, and with which arguments: the person who is asked may change them.

        `verdict` is that of the program's hook: it can skip the question or demand it, but allows nothing
        forbidden. `plain`: the arguments as the model wrote them, which is what the person who is asked sees.
        """
        plain = toolbox.plain(args) if plain is None else plain
        if access.url is not None:
            await self._confining.look_up()
        decision = self.guard(access)
        if verdict.decision == "deny":
            return Decision(verdict="deny", reason=verdict.reason or "a hook denied it", by="hook"), args
        if verdict.decision == "allow" and decision.verdict == "ask":
            return Decision(verdict="allow", reason=verdict.reason or "allowed by a hook", by="hook"), args
        if verdict.decision == "ask" and decision.verdict == "allow":
            decision = Decision(verdict="ask", reason=verdict.reason or "a hook wants a person to be asked", by="hook")
        if decision.verdict != "ask":
            if decision.by == "rule" and decision.verdict == "allow" and self.guard.rules.by_parts(access):
                message = f"allowed by the rules for its parts; Claude Code would ask: {access.command}"
                self._emit(Warned(message=message, code="rule_parts"))
            return decision, args
        if self._event is not None:
            asking = {"tool_name": tool.name, "tool_input": plain, "always": as_rules(access), "kind": access.kind}
            asking["use"] = use_of(tool.name, plain, access, call)
            hook = await self._event("PermissionRequest", asking)
            if hook.decision == "deny":
                return Decision(verdict="deny", reason=hook.reason or "a hook denied it", by="hook"), args
            if hook.decision == "allow" and not (self._ask is not None and self.configuration.entrypoint):
                return self._changed(
                    tool, args, hook.args, resolve, by="hook"
                )  # else the host's `can_use_tool` decides
        if self._ask is None:
            return msgspec.structs.replace(decision, verdict="deny", by="nobody"), args
        if self._event is not None:
            payload = {"message": f"permission is needed to use {tool.name}", "notification_type": "permission_prompt"}
            await self._event("Notification", payload)
        answer = await self._ask(
            Asked(
                request=new_id("ask"),
                kind="permission",
                text=decision.reason,
                call=call,
                name=tool.name,
                args=plain,
                tool_kind=access.kind,
                paths=access.paths,
                command=access.command,
                always=as_rules(access),
                confined=None if access.command is None else "" if access.outside else self._confining.in_words(),
                deadline=self._deadline(),
            )
        )
        if answer.decision == "deny":
            return Decision(
                verdict="deny",
                reason=answer.text or "User denied",
                by="deadline" if answer.by == "deadline" else "person",
            ), args
        if answer.changed_args is not None:
            return self._changed(tool, args, answer.changed_args, resolve, by="person")
        if answer.scope != "once":
            for permissions in (self, self._parent or self):
                permissions.guard.remember(access)
            if access.url is not None and self._confining.asks and self._confining.unreachable(access.url):
                self._grant(*named(access.url))
            if answer.scope == "always":
                self._allow_always(access)
        return Decision(verdict="allow", reason=f"allowed by {answer.by}", by="person"), args

    def _changed(
        self, tool: AnyTool, args: Any, changed: Any, resolve: Resolve, *, by: Literal["hook", "person"]
    ) -> tuple[Decision, Any]:
        """Allowed, perhaps with other arguments, which must not be forbidden ones."""
        allowed = Decision(verdict="allow", reason=f"allowed by a {by}", by=by)
        if changed is None:
            return allowed, args
        args = toolbox.decode(tool, msgspec.json.encode(changed).decode())
        again = self.guard(tool.access(args, resolve))
        return (again if again.verdict == "deny" else allowed), args

    def _allow_always(self, access: Access) -> None:
        """Keep it as a rule in the person's own settings, if a rule can express it and no other would still ask."""
        added = as_rules(access)
        rules = msgspec.structs.replace(self.rules, allow=self.rules.allow + added)
        if self._build(self.configuration, rules=rules)(access).verdict != "allow":
            self._emit(Warned(message="allowed for this session only: no allow rule can express it"))
            return
        try:
            from treadle.settings.edit import add_allow_rules

            path = add_allow_rules(added)
        except TreadleError as error:
            self._emit(Warned(message=f"allowed for this session only: {error}"))
        else:
            self._emit(Warned(message=f"allowed from now on: {', '.join(added)}; saved in {path}", code="rule_kept"))
