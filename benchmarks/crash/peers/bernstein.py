"""Bernstein: a plan whose steps run at once, each in a worktree, merged by it after its own gates."""

import json
import socket
from typing import Any

from benchmarks.crash.peers import CHECK, Peer
from benchmarks.crash.tasks import Task

SEED = f"""\
goal: The tasks of the plan
max_agents: 4
internal_llm_provider: none
quality_gates:
  enabled: true
  lint: false
  tests: true
  test_command: {CHECK}
"""


class Here(Peer):
    name = "Bernstein"
    why = (
        "`bernstein run --help`: `run PLAN --auto-approve --wait`, steps of one stage run in parallel, with the tests"
        " as a quality gate; after a crash the same command again, which resumes the saved session"
    )
    port = 0

    def version(self) -> str:
        self.program = self.found("bernstein")
        return self.ask(self.program, "--version").split()[-1] if self.program else ""

    def submit(self, tasks: tuple[Task, ...]) -> None:
        self.tasks = tasks
        self.place.env["BERNSTEIN_ALLOW_MERGE_TO_DEFAULT_BRANCH"] = "1"  # its own words for: main is where work lands
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        steps = [
            {
                "title": f"[{task.id}] {task.asked}",
                "description": task.prompt,
                "role": "backend",
                "completion_signals": [{"type": "test_passes", "value": CHECK}],
            }
            for task in tasks
        ]
        folder = self.place.root.parent
        self.plan = folder / "plan.yaml"
        self.plan.write_text(
            json.dumps({"name": "Shop", "cli": self.place.agent, "stages": [{"name": "all", "steps": steps}]})
        )
        self.seed = folder / "bernstein.yaml"
        self.seed.write_text(SEED)
        with open(self.place.root / ".git" / "info" / "exclude", "a") as file:
            file.write(".sdd/\n")  # what `bernstein init` puts into .gitignore
        self.run()

    def run(self) -> None:
        words = ("run", str(self.plan), "--seed", str(self.seed), "--cli", self.place.agent, "--port", str(self.port))
        self.process = self.start(self.program, *words, "--auto-approve", "--quiet", "--wait", "500")

    def needs_a_person(self) -> bool:
        return self.process is not None and (self.process.poll() or 0) < 0

    def resume(self) -> None:
        self.run()

    def reported(self) -> dict[str, bool]:
        try:
            said: dict[str, Any] = json.loads(self.ask(self.program, "status", "--json", spared=True))
        except ValueError:
            return {}
        rows = said.get("tasks", {}).get("items", [])
        done = {row["title"][1:4] for row in rows if row.get("status") in ("done", "closed")}
        return {task.id: task.id in done for task in self.tasks}

    def stop(self) -> None:
        self.ask(self.program, "stop", "--force")
