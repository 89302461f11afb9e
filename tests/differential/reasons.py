"""Differences that are meant, each with its reason; and words by which the program itself tells of one."""

TOLD: tuple[str, ...] = (
    *("not used here", "ignored, because this project is not trusted", "not called here", "not run here"),
    *("is not offered here", "cannot be changed in a session", "set up differently here", "not known here"),
    *("No such option", "cannot be", "is not offered", "not supported"),
)

GIT = "git runs programs that the configuration of a repository names, so it is asked about"
RM = "deleting is asked about, also where edits are allowed"
WEB = "our modes let web_fetch read public pages without a question; private addresses are refused"
SUGGESTED = "what is suggested is what our rules can say: exactly this call, or a mode"
EARLY = "the history is written before a hook is called; Claude Code may write it later"
STOPS = "fails closed: `continue: false` stops the call too, and the turn ends as interrupted"
NAMES = "the model is offered our tools by our names; hosts see Claude's"
WAITS = "subagents that the model does not put in the background are waited for"
UNMEASURED = "the time of a tool without its hooks and questions is not measured, so it is not told"
THINKING = "no thinking is asked for; Claude Code asks for it all the same"
OPUSPLAN = "refused: a model that changes with the mode"
OWN_WORDS = "the same failure in our words"
CONTEXT = "Claude Code asks the model itself to count what fills the context"
DEAD = "a server that does not answer has 10 s before the first turn; Claude Code waits longer"
PLAN = "a file outside of the workspace is asked about in every mode"

UNTIMED = "this time is not measured, so it is not told"
THEIRS_ALONE = "tells of a part of Claude Code that is not here"
NOT_REPLAYED = "what the program itself puts into the conversation, as of a task that ended, is not written as a user's"
ASKS = "told in addition, whenever permission is asked for"
CHOSEN = "told when an effort was chosen; otherwise the service decides"
FEWER = "fewer fields: what is not known here is left out"
LISTED = "lists the skills that were asked for; Claude Code lists all, and offers these to the model"
CLOSED = "fails closed: a hook that cannot be asked blocks"

TYPES = "types: *"
BY_TYPE: dict[str, str] = {
    **dict.fromkeys(("*first_content_frame_ms", "*request_sent_wall_ms", "*time_to_request_ms"), UNTIMED),
    "*.fast_mode_disabled_reason": THEIRS_ALONE,
    **dict.fromkeys(("user.isSynthetic", "user.origin"), NOT_REPLAYED),
    "Notification*": ASKS,
    "*.effort": CHOSEN,
    **dict.fromkeys(("get_context_usage: fields", "initialize: fields", "get_settings: fields"), FEWER),
}

REASONS: dict[tuple[str, str], str] = {
    **{(TYPES, fact): why for fact, why in BY_TYPE.items()},
    ("option skills", "swim"): LISTED,
    ("hook PreCompact", "calls of the model"): "Claude Code calls the model twice for a summary",
    ("hook entry: http", "made"): CLOSED,
    ("main agent unknown by flag", "*"): "an agent that neither a program nor a definition has as its name is refused",
    (
        "flag --allow-dangerously-skip-permissions",
        "*",
    ): "Claude Code refuses it to root, who ran this; here it allows nothing by itself",
    ("flag --disallowedTools", "refused"): "a call of a tool that is not offered counts as a denied one",
    ("flag --json-schema", "*"): "an answer that does not fit the schema fails the run",
    ("flag --resume", "*"): "on an error the result is empty and its subtype error, as our own specification has it",
    ("setting permissions.ask", "reached"): "the same refusal in our words",
    ("hook PreCompact", "text"): "the result of a command says what it did",
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
