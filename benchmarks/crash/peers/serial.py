"""The plainest way: one task after the other in the checkout itself."""

from benchmarks.crash.peers.worktrees import Here as Worktrees
from benchmarks.crash.tasks import Task

LINES = """\
mkdir -p ../said
agent() { AGENT; }
work() {
    begun=$(git rev-parse HEAD)
    if agent "$2" > "../said/$1.out" 2>&1 && CHECK &&
        [ "$(git rev-parse HEAD)" != "$begun" ]
    then touch "../said/$1.done"; else git reset -q --hard "$begun"; fi
}
"""


class Here(Worktrees):
    name = "serial loop"
    why = "the agent for each task in turn; red work is taken back"

    def run(self, tasks: tuple[Task, ...]) -> None:
        lines = [self.filled(LINES)]
        lines += [f"work {task.id} '{task.prompt.replace(chr(39), '')}'" for task in tasks]
        self.process = self.start("bash", "-c", "\n".join(lines))
