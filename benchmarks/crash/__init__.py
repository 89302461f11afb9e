"""A crash test for orchestrators of coding agents: `make crash-test [PEERS="serial treadle"] [WHOLE=1]`.

Each orchestrator gets the same repository, the same tasks, the same agent program (Claude Code) with the same scripted
model behind it, and the same schedule of faults. One judge, which knows no orchestrator, looks at what is there
afterwards: at the branch, at the processes and at the person's checkout.

- `tasks` is the repository, the tasks and what the scripted model answers to each.
- `faults` is the schedule: kills by role, a model that refuses or cuts off, an agent that hangs, a person who commits.
- `judge` counts by effect: landed, lost, done twice, red commits, false "done", what is left over.
- `peers` has one file for each orchestrator: it installs, submits, waits and reads results, nothing else.

To add an orchestrator, add a file there with a subclass of `Peer`.
"""
