"""The native agent: ask the model, run the tools that it asks for, repeat until it answers.

Words:
    provider    a model service behind one method, which streams one reply (`providers`)
    tool        something the model can call; it declares what it will touch (`access`) before it may run (`run`)
    toolbox     the tools of one session: our own, those of MCP servers, those of the program that opened it
    hook        a command, a service or a function that sees a call before or after it runs, and may block it
    transcript  the session on disk: append-only records; what the model sees is derived from them
    task        work in the background of a session: a subagent or a process

Flow: `native` opens a session from a SessionSpec and the settings (`configuration`). `session` starts a turn with the
prompt; `loop` sends the conversation to the provider and gets text and calls back. Each call must pass `permissions`
(hooks in Claude Code's form, rules, guards, mode, the person) and then our own hooks before the tool runs. Its result
goes back to the model. Every step is an event in the session's log, and what was said is a record in the transcript.

Promises, and who keeps each:
    A tool that fails is a result for the model to read; a model that fails ends the turn.      loop
    A turn keeps within its limits: calls, time, tokens, money; going in circles ends it.       loop
    History is never rewritten: pruning, compaction and rewinding are records too.              transcript, context
    A call runs only if no rule, hook or guard denies it.                                       permissions
    A file tool opens the path that was judged, and never overwrites what changed meanwhile.    tools/files
    A command's process tree is gone when the tool returns, unless it is a background task.     tools/bash
    A broken MCP server costs only its own tools.                                               mcp
    A detached group survives its starter, and its state is on disk.                            detached

`agents.py`, `doors`, `drivers` (for shared parts such as hooks), `fleet`, `conform` and `cli` import it; it imports
`sandboxed`, `sessions`, `workspace`, `settings` and what is below. Outside agents are in `drivers`. Claims reach it as
guards in the SessionSpec, never by import.
"""
