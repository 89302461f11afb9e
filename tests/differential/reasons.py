"""Differences that are meant, each with its reason; and words by which the program itself tells of one."""

TOLD: tuple[str, ...] = (
    *("not used here", "ignored, because this project is not trusted", "not called here", "not run here"),
    *("is not supported", "cannot be changed in a session", "set up differently here", "not known here"),
    *("No such option", "cannot be", "is not offered", "not supported"),
)

GIT = "git needs approval, because a repository's configuration can make it run programs"
RM = "deleting needs approval, also in `acceptEdits`"
WEB = "`web_fetch` reads public pages without a question and refuses private addresses"
SUGGESTED = "suggestions are rules for exactly this call, or a mode"
EARLY = "the history is written before a hook is called"
STOPS = "`continue: false` also stops the call, and the turn ends as interrupted"
NAMES = "the model sees our tools by our names, hosts by Claude's"
WAITS = "subagents run in the foreground unless the model puts them in the background"
UNMEASURED = "the time of a tool without its hooks and questions is not measured, so it is not told"
THINKING = "thinking is switched off; Claude Code requests it all the same"
OPUSPLAN = "`opusplan` is refused"
OWN_WORDS = "the same failure in our words"
CONTEXT = "Claude Code asks the model to count the context"
DEAD = "the first turn waits 10 s for MCP servers; Claude Code waits longer"
PLAN = "a file outside the workspace needs approval in every mode"

UNTIMED = "this time is not measured"
THEIRS_ALONE = "about a part of Claude Code that is not here"
NOT_REPLAYED = "records of the program itself, as of a task that ended, are not written as a user's"
ASKS = "an additional notification of each request for permission"
FEWER = "unknown fields are left out"
LISTED = "only the requested skills are listed; Claude Code lists all"
CLOSED = "a hook that cannot be reached blocks"

TYPES = "types: *"
BY_TYPE: dict[str, str] = {
    **dict.fromkeys(("*first_content_frame_ms", "*request_sent_wall_ms", "*time_to_request_ms"), UNTIMED),
    "*.fast_mode_disabled_reason": THEIRS_ALONE,
    **dict.fromkeys(("user.isSynthetic", "user.origin"), NOT_REPLAYED),
    "Notification*": ASKS,
    **dict.fromkeys(("get_context_usage: fields", "initialize: fields", "get_settings: fields"), FEWER),
}

REASONS: dict[tuple[str, str], str] = {
    **{(TYPES, fact): why for fact, why in BY_TYPE.items()},
    ("option skills", "swim"): LISTED,
    ("hook PreCompact", "calls of the model"): "Claude Code calls the model twice for a summary",
    ("hook entry: http", "made"): CLOSED,
    ("main agent unknown by flag", "*"): "an unknown agent is refused",
    (
        "flag --allow-dangerously-skip-permissions",
        "*",
    ): "it allows nothing by itself; Claude Code refuses it to root",
    ("flag --disallowedTools", "refused"): "a call of a tool that is not offered counts as denied",
    ("flag --json-schema", "*"): "an answer that does not fit the schema fails the run",
    ("flag --resume", "*"): "on an error the result is empty and its subtype `error`",
    ("setting permissions.ask", "reached"): "the same refusal in our words",
    ("hook PreCompact", "text"): "the result of a command describes its effect",
    ("default mode: git status", "*"): GIT,
    ("default mode: git log", "*"): GIT,
    ("acceptEdits: rm", "*"): RM,
    ("plan: Read outside", "*"): PLAN,
    **{(f"{mode}: WebFetch", "*"): WEB for mode in ("default", "plan")},
    ("*", "suggests"): SUGGESTED,
    ("*", "transcript exists"): EARLY,
    **{
        ("hook PreToolUse stops", fact): STOPS for fact in ("is_error", "made", "subtype", "text", "calls of the model")
    },
    ("*", "input.duration_ms"): UNMEASURED,
    **{(f"hook {event}", "calls of the model"): WAITS for event in ("SubagentStart", "SubagentStop")},
    ("option model opusplan", "*"): OPUSPLAN,
    ("option tools", "offered"): NAMES,
    ("option agents with tools", "only"): NAMES,
    ("option thinking disabled", "*"): THINKING,
    ("control requests", "models"): CONTEXT,
    ("fault: an error of the service", "text"): OWN_WORDS,
    ("option mcp_servers, one that never answers", "state"): DEAD,
}
