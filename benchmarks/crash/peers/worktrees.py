"""What people do today: a worktree and an agent for each task, then merge one after the other."""

from benchmarks.crash.peers import AGENTS, CHECK, Peer
from benchmarks.crash.tasks import Task, git

LINES = """\
set -u
mkdir -p ../trees ../said
agent() { AGENT; }
work() {
    git worktree add -q -b "$1" "../trees/$1" main
    (cd "../trees/$1" && agent "$2") > "../said/$1.out" 2>&1 &&
        touch "../said/$1.ok"
    (cd "../trees/$1" && git add -A && git commit -qm "$1: rest") || true
}
land() {
    [ -e "../said/$1.ok" ] || return
    begun=$(git rev-parse HEAD)
    git merge -q --no-edit "$1" || { git merge --abort; return; }
    [ "$(git rev-parse HEAD)" != "$begun" ] || return
    if CHECK; then touch "../said/$1.done"; else git reset -q --hard "$begun"; fi
    git worktree remove --force "../trees/$1"
}
"""


class Here(Peer):
    name = "script with worktrees"
    why = "a script of about twenty lines; four at a time, merged in order, each merge checked and taken back if red"
    tasks: tuple[Task, ...] = ()
    at_once = 4

    def version(self) -> str:
        return self.ask(self.place.agent, "--version").split()[0 if self.place.agent == "claude" else -1]

    def submit(self, tasks: tuple[Task, ...]) -> None:
        self.tasks = tasks
        self.run(tasks)

    def needs_a_person(self) -> bool:
        return self.process is not None and (self.process.poll() or 0) < 0

    def resume(self) -> None:
        """A person looks which are not merged, throws half of a merge and the old worktrees away, and starts again."""
        git(self.place.root, "reset", "-q", "--merge", check=False)
        done = self.reported()
        for task in self.tasks:
            if not done[task.id]:
                git(self.place.root, "worktree", "remove", "--force", f"../trees/{task.id}", check=False)
                git(self.place.root, "branch", "-qD", task.id, check=False)
        self.run(tuple(task for task in self.tasks if not done[task.id]))

    def run(self, tasks: tuple[Task, ...]) -> None:
        lines = [self.filled(LINES)]
        for number in range(0, len(tasks), self.at_once):
            group = tasks[number : number + self.at_once]
            lines += [f"work {task.id} '{task.prompt.replace(chr(39), '')}' &" for task in group]
            lines += ["wait", *(f"land {task.id}" for task in group)]
        self.process = self.start("bash", "-c", "\n".join(lines))

    def filled(self, lines: str) -> str:
        return lines.replace("CHECK", CHECK).replace("AGENT", AGENTS[self.place.agent])

    def reported(self) -> dict[str, bool]:
        said = self.place.root.parent / "said"
        return {task.id: (said / f"{task.id}.done").exists() for task in self.tasks}
