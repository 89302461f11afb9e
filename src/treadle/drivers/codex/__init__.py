"""Codex."""

from treadle.drivers.card import Card, WireVariables, dropped, emulated, levels

CARDS = (
    Card(
        name="codex",
        title="Codex CLI",
        driver="treadle.drivers.codex.driver:CodexAgent",
        how="codex app-server, one server per session",
        program="codex",
        arguments=("app-server",),
        install="npm install -g @openai/codex",
        recorded=("0.166.0",),
        environment=("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_*", "CODEX_HOME", "CODEX_API_KEY"),
        writes=("$CODEX_HOME|~/.codex",),
        adapters=("codex-acp",),
        settings=("$CODEX_HOME/config.toml|~/.codex/config.toml",),
        hosts=("api.openai.com", "auth.openai.com", "chatgpt.com"),
        wire=WireVariables(
            keys=("OPENAI_API_KEY", "CODEX_API_KEY"),
            base="OPENAI_BASE_URL",
            usual="https://api.openai.com/v1",
            form="codex",
        ),
        transcripts=(
            "$CODEX_HOME/sessions/*/*/*/rollout-*-{id}.jsonl",
            "~/.codex/sessions/*/*/*/rollout-*-{id}.jsonl",
        ),
        capabilities=levels(
            native="streaming thinking tools results permissions questions steer resume fork usage iterations model "
            "switch_model file_changes servers images system_prompt add_dirs unsaved effort sandbox",
            emulated="interrupt mode rules structured_output",
        ),
        losses={
            "Usage.cost_usd": dropped("it reports no prices, so the cost is unknown"),
            "ThinkingDelta": emulated("only summaries of the reasoning, if the model gives any"),
            "Answered.text": emulated("a refusal carries no words; those of the person are added to the turn"),
            "ToolStarted": emulated("commands that fail in its sandbox appear only in the raw events"),
            "TaskChanged": dropped("it reports no background tasks"),
            "ContextPruned": dropped("it is not reported"),
        },
        notes=(
            "It leaves the command of an interrupted turn running; we end that command.",
            "Commands that it takes for harmless, such as ls and cat, run in its sandbox without a question, so our "
            "rules do not reach them.",
            "A CODEX_HOME under the temporary directory breaks its sandbox.",
        ),
    ),
)
