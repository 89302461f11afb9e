"""`--include-hook-events`: a line when a command of a hook begins, and one when it has ended."""

from treadle.agent.hook_runs import HookStep
from treadle.doors.oneshot.adaptable import Adaptable
from treadle.doors.oneshot.hooks import HostHooks
from treadle.doors.oneshot.run import OneShot
from treadle.session import Session
from treadle.wire.oneshot.system_lines import hook_response, hook_started


def write_hook_lines(session: Session, hooks: HostHooks | None, runner: OneShot) -> None:
    """Of the hooks of --settings and of settings files; those of the host it runs itself."""

    def write(step: HookStep) -> None:
        about = (step.id, step.name, step.event, session.id)
        if step.done:
            how = {"stdout": step.stdout, "stderr": step.stderr}
            runner.tell(hook_response(*about, **how, exit_code=step.exit_code))
        else:
            runner.tell(hook_started(*about))

    if hooks is not None:
        hooks.watch = write
    if isinstance(session, Adaptable):
        session.watch_hooks(write)
