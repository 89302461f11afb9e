"""Claude Code's own background sessions: one for each task, each in a worktree of its own; a person merges them."""

import json
from typing import Any

from benchmarks.crash.peers import CHECK, Peer
from benchmarks.crash.tasks import Task, git

ENDED = {"idle", "done", "blocked"}
"""Its process waits for a next prompt, or the program's own summary of the session says so."""


class Here(Peer):
    name = "claude --bg"
    why = (
        "`claude --help`: `--bg` starts a session, `-w` gives it a worktree, `agents --json --all` lists them; merged"
        " as they end, each merge checked and taken back if red; after a crash `claude respawn --all`"
    )
    tasks: tuple[Task, ...] = ()
    sessions: dict[str, str]

    def version(self) -> str:
        return self.ask("claude", "--version").partition(" ")[0] if self.place.agent == "claude" else ""

    def submit(self, tasks: tuple[Task, ...]) -> None:
        self.tasks, self.sessions, self.merged, self.judged = tasks, {}, set[str](), set[str]()
        self._accept()
        for task in tasks:
            said = self.ask(*("claude", "--bg", "-w", task.id, "--permission-mode", "bypassPermissions", task.prompt))
            self.sessions[said.partition("\n")[0].rpartition(" ")[2]] = task.id

    def _accept(self) -> None:
        """What a person answers once: that the folder is trusted, that the key is to be used."""
        config = self.place.home / "claude"
        config.mkdir(exist_ok=True)
        facts = {
            "hasCompletedOnboarding": True,
            "bypassPermissionsModeAccepted": True,
            "projects": {str(self.place.root): {"hasTrustDialogAccepted": True}},
            "customApiKeyResponses": {"approved": [self.place.env["ANTHROPIC_API_KEY"][-20:]]},
        }
        (config / ".claude.json").write_text(json.dumps(facts))
        (config / "settings.json").write_text('{"skipDangerousModePermissionPrompt": true}')

    def _list(self) -> dict[str, set[str]]:
        """What is said of each task that is listed."""
        try:
            rows: list[dict[str, Any]] = json.loads(self.ask("claude", "agents", "--json", "--all", spared=True))
        except ValueError:
            return {}
        said = {row["id"]: {row.get("state", ""), row.get("status", "")} for row in rows if "id" in row}
        return {task: said[session] for session, task in self.sessions.items() if session in said}

    def over(self) -> bool:
        states = self._list()
        for task, words in states.items():
            if words & ENDED and task not in self.judged:
                self.judged.add(task)
                self._merge(task)
        return len(self.judged) == len(self.tasks)

    def _merge(self, task: str) -> None:
        tree = self.place.root / ".claude" / "worktrees" / task
        git(tree, "add", "-A", check=False)
        git(tree, "commit", "-qm", f"{task}: rest", check=False)
        before = git(self.place.root, "rev-parse", "HEAD")
        git(self.place.root, "merge", "-q", "--no-edit", f"worktree-{task}", check=False)
        if git(self.place.root, "status", "--porcelain", "--untracked-files=no"):
            git(self.place.root, "merge", "--abort", check=False)
        elif git(self.place.root, "rev-parse", "HEAD") == before:
            return  # nothing was committed
        elif self.ask("sh", "-c", f"{CHECK} && echo green", spared=True):
            self.merged.add(task)
        else:
            git(self.place.root, "reset", "-q", "--hard", before)

    def needs_a_person(self) -> bool:
        states = self._list()
        left = [task.id for task in self.tasks if task.id not in self.judged]
        return any(states.get(task, {"failed"}) & {"failed", "stopped"} for task in left)

    def resume(self) -> None:
        self.ask("claude", "respawn", "--all")

    def reported(self) -> dict[str, bool]:
        return {task.id: task.id in self.merged for task in self.tasks}

    def stop(self) -> None:
        for session in self.sessions:
            self.ask("claude", "stop", session)
