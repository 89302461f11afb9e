"""The tools of the server: what each takes, in words that a model understands."""

from typing import Any

from treadle.wire.common.schema import NON_EMPTY, TEXT, Schema, one_of, record

INSTRUCTIONS = (
    "These tools put a coding agent to work in a directory of this machine. `run` gives it a prompt and waits for its"
    " answer. For work that takes longer than your tool timeout use `start`, then `read` until it is done. When an"
    " agent asks for something (status `waiting`), `answer` it; ask your user unless they said what to do."
)

_NUMBER: Schema = {"type": "integer", "minimum": 0}
_RUN = {**NON_EMPTY, "description": "The id of a run, as `run` and `start` give it."}
_WORK: dict[str, Schema] = {
    "run": {**TEXT, "description": "Go on with this run: the agent remembers what was said in it."},
    "resume": {**TEXT, "description": "Go on with a saved session, by the session id of an earlier run."},
    "agent": {**TEXT, "description": "Another agent than the default: native, claude, codex, gemini, acp:COMMAND..."},
    "model": {**TEXT, "description": "The model, as this agent names it."},
    "directory": {**TEXT, "description": "Work in this directory below the server's own."},
    "mode": {
        **one_of("plan", "suggest", "auto-edit", "full-auto"),
        "description": "What it may do without asking. It can only be stricter than what the server was started with.",
    },
    "seconds": {**_NUMBER, "description": "Stop the work after so many seconds."},
}
_PROMPT = {**NON_EMPTY, "description": "What the agent is to do."}


def _tool(name: str, description: str, schema: Schema, *, reads: bool = False) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "inputSchema": {**schema, "additionalProperties": False},  # an answer that says more must not count as less
        "annotations": {"readOnlyHint": reads, "destructiveHint": not reads, "openWorldHint": not reads},
    }


TOOLS: dict[str, dict[str, Any]] = {
    tool["name"]: tool
    for tool in (
        _tool(
            "run",
            "Give an agent a prompt and wait for its answer. Tells progress. Returns early, with status `waiting`, when"
            " the agent asks something that no one could be asked about; `answer` it, then `read`.",
            record({"prompt": _PROMPT}, _WORK),
        ),
        _tool("start", "Give an agent a prompt and return at once.", record({"prompt": _PROMPT}, _WORK)),
        _tool(
            "status",
            "How a run is getting on, or all of them: what it does, what it asks, what it used.",
            record({}, {"run": _RUN}),
            reads=True,
        ),
        _tool(
            "read",
            "What a run has said and done since a point, and its result when it is done. Waits for news.",
            record(
                {"run": _RUN},
                {
                    "after": {**_NUMBER, "description": "The `next` of the last read; 0 is from the beginning."},
                    "wait_seconds": {**_NUMBER, "description": "Wait so long for news, at most 50. Default 20."},
                },
            ),
            reads=True,
        ),
        _tool(
            "answer",
            "Answer what an agent asks: a permission, a question or a plan.",
            record(
                {"run": _RUN, "decision": one_of("allow", "deny")},
                {
                    "request": {**TEXT, "description": "Which question, when several are open."},
                    "text": {**TEXT, "description": "The answer to a question, or why not."},
                    "scope": {**one_of("once", "session"), "description": "`session`: the same is not asked again."},
                },
            ),
        ),
        _tool("cancel", "Stop what a run is doing. It can go on with a new prompt.", record({"run": _RUN})),
    )
}
