"""The Python interface for programs that use agents: one turn, a conversation, their own tools and hooks.

`treadle/__init__.py` lists the public names and loads them on first use; those of this room are in `conversation`.

Words:
    conversation  an open session: `turn` gives the events of one turn, `say` its result
    result        the end of a turn: text, outcome, usage, changed files, and with `output_type` a typed value
    tool          a typed function of the program that the agent can call (`@treadle.tool`)
    options       the keyword arguments of `query`, `run` and `open`, typed, so that a type checker refuses wrong ones

Flow: options become a SessionSpec; `agents.find_agent` gives the agent; the session's events are yielded as they come
(`query`), or folded into a Result by `sessions.totals` (`run`, `Conversation`). Tools and hooks travel in the spec as
`session.OwnProgram` and are called in the program's own process.

Promises:
    Nothing is decided here that a command could not do: the same rooms below do the work.
    Without `on_ask`, what would be asked is refused; if `on_ask` raises, the question is denied and the turn ends.
    A session that was opened is closed when its `async with` ends, however it ends.
    A typed answer that does not fit is asked for again, twice; then the result has no value and says why.

Only `treadle/__init__.py` and programs of others import it; it imports `agents.py`, `sessions` and what is below. The
Python functions of fleets and goals are in `fleet/library.py` and `goals/commands.py`.
"""
