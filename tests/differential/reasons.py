"""Differences that are meant, each with its reason; and words by which the program itself tells of one."""

TOLD: tuple[str, ...] = ("not used here", "ignored, because this project is not trusted", "not called here")

GIT = "git runs programs that the configuration of a repository names, so it is asked about"
RM = "deleting is asked about, also where edits are allowed"
WEB = "our modes let web_fetch read public pages without a question; private addresses are refused"
SUGGESTED = "what is suggested is what our rules can say: exactly this call, or a mode"
EARLY = "the history is written before a hook is called; Claude Code may write it later"
STOPS = "fails closed: `continue: false` stops the call too, and the turn ends as interrupted"
NAMES = "the model is offered our tools by our names; hosts see Claude's"
WAITS = "subagents that the model does not put in the background are waited for"
MORE = "told in addition"
UNMEASURED = "the time of a tool without its hooks and questions is not measured, so it is not told"
THINKING = "no thinking is asked for; Claude Code asks for it all the same"
OPUSPLAN = "refused: a model that changes with the mode"
OWN_WORDS = "the same failure in our words"
CONTEXT = "Claude Code asks the model itself to count what fills the context"
DEAD = "a server that does not answer has 10 s before the first turn; Claude Code waits longer"
PLAN = "a file outside of the workspace is asked about in every mode"

REASONS: dict[tuple[str, str], str] = {
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
    ("hook SubagentStart", "input.permission_mode"): MORE,
    ("option model opusplan", "*"): OPUSPLAN,
    ("option tools", "offered"): NAMES,
    ("option agents with tools", "only"): NAMES,
    ("option thinking disabled", "*"): THINKING,
    ("control requests", "models"): CONTEXT,
    ("fault: an error of the service", "text"): OWN_WORDS,
    ("option mcp_servers, one that never answers", "*"): DEAD,
}
