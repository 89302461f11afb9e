"""Agents that speak the Agent Client Protocol: any command, and those that are known by name."""

from functools import partial

from treadle.drivers.card import Card, Level, Loss, WireVariables, dropped, emulated, levels

_card = partial(
    Card,
    driver="treadle.drivers.acp.driver:AcpAgent",
    how="Agent Client Protocol on stdio, one process per session",
)


def _capabilities(**differing: Level) -> dict[str, Level]:
    base = levels(
        native="streaming thinking tools results interrupt commands mode model switch_model permissions resume usage "
        "cost file_changes rules servers images add_dirs sandbox",
        emulated="system_prompt structured_output",
    )
    return {**base, **differing}


_LOSSES: dict[str, Loss] = {
    "TaskChanged": dropped("the protocol has no background tasks"),
    "TaskGroupChanged": dropped("the protocol has no background tasks"),
    "ContextPruned": dropped("the protocol does not report it"),
    "ContextCompacted": dropped("the protocol does not report it"),
    "Retrying": dropped("the protocol does not report it"),
    "ModelRouted": dropped("the protocol does not report it"),
    "Answered.text": emulated("a refusal carries no words; those of the person come with the next prompt"),
    "TurnEnded.iterations": dropped("the protocol does not count model calls"),
    "ToolStarted": emulated("when a call may run, or half a second after it was announced and nothing was asked"),
}
_NOTES = (
    "It asks before it changes files or runs commands; it does not ask before it reads.",
    "A system prompt is put in front of the first prompt.",
)

KEYS = (
    *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY"),
    *("MISTRAL_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY", "GROQ_API_KEY", "TREADLE_API_KEY"),
)
"""The model behind a program that we do not know is unknown."""
HOMES = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "GEMINI_CLI_HOME", "KIMI_CODE_HOME", "PI_CODING_AGENT_DIR"),
    *("OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "CLAUDE_CODE_EXECUTABLE", "CODEX_PATH"),
)
"""Where agents keep their settings and sign-ins, and which program an adapter starts."""
CARDS = (
    _card(
        name="acp",
        title="Any agent over ACP",
        prefix=True,
        environment=(
            *(*KEYS, "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*", "OPENROUTER_*", "OLLAMA_*", "TREADLE_*"),
            *HOMES,
        ),
        capabilities=_capabilities(fork="native"),
        losses=_LOSSES,
        notes=(
            "What it can do is what it says itself; a session has what remains of this.",
            "What it asks about is up to the program; what it does not ask about is not judged.",
            "A key is passed on only when the settings name its variable, or a `[agents.NAME]` does.",
        ),
    ),
    _card(
        name="gemini",
        title="Gemini CLI",
        program="gemini",
        arguments=("--acp",),
        install="npm install -g @google/gemini-cli",
        recorded=("0.61.0",),
        environment=(
            *(
                "GEMINI_API_KEY",
                "GOOGLE_API_KEY",
                "GEMINI_MODEL",
                "GOOGLE_GEMINI_BASE_URL",
                "GOOGLE_GENAI_USE_VERTEXAI",
            ),
            *("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_APPLICATION_CREDENTIALS", "GEMINI_CLI_HOME"),
            *("GEMINI_CLI_TRUST_WORKSPACE", "GEMINI_CLI_SYSTEM_SETTINGS_PATH"),
        ),
        directory="--include-directories={path}",
        writes=("~/.gemini",),
        settings=("~/.gemini/settings.json",),
        wire=WireVariables(
            keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            base="GOOGLE_GEMINI_BASE_URL",
            usual="https://generativelanguage.googleapis.com",
            unless=("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_APPLICATION_CREDENTIALS"),
        ),
        hosts=("generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "oauth2.googleapis.com"),
        capabilities=_capabilities(resume="unsupported", cost="unsupported", usage="emulated", results="unsupported"),
        losses={
            **_LOSSES,
            "Usage.cache_read_tokens": dropped("it does not report them"),
            "Usage.cost_usd": dropped("it does not report it"),
            "ToolStarted.args": emulated("only the title of the call, which for a command is the command"),
            "CommandRun": dropped("it does not report the exit code"),
            "ToolEnded.result": dropped("it does not report what a command wrote"),
        },
        notes=(*_NOTES, "Its session/load destroys the session, so that it cannot be resumed."),
    ),
    _card(
        name="opencode",
        title="opencode",
        program="opencode",
        arguments=("acp",),
        install="npm install -g opencode-ai",
        recorded=("1.18.33",),
        environment=(
            *("OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG_DIR", "OPENCODE_API_KEY"),
            *("OPENCODE_DISABLE_*", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY"),
        ),
        sets={"OPENCODE_DISABLE_AUTOUPDATE": "1"},
        writes=("~/.config/opencode", "~/.local/share/opencode", "~/.local/state/opencode", "~/.cache/opencode"),
        settings=("$OPENCODE_CONFIG|~/.config/opencode/opencode.json", "~/.config/opencode/opencode.jsonc"),
        wire=WireVariables(
            keys=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"),
            base="OPENCODE_CONFIG_CONTENT",
            unless=("OPENCODE_API_KEY", "GEMINI_API_KEY"),
            form="opencode",
        ),
        capabilities=_capabilities(fork="native", usage="emulated", add_dirs="emulated"),
        losses={**_LOSSES, "Usage": emulated("only the last model call of a turn; the cost covers all of them")},
        notes=(
            *_NOTES,
            'It asks only about what its own settings call "ask": set `permission` there.',
            "Refusing a permission ends the turn.",
            "When its model service fails, it retries silently for a long time: set a time limit.",
        ),
    ),
    _card(
        name="qwen",
        title="Qwen Code",
        program="qwen",
        arguments=("--acp",),
        install="npm install -g @qwen-code/qwen-code",
        recorded=("0.24.4",),
        environment=(
            *("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "QWEN_MODEL", "DASHSCOPE_API_KEY"),
            *("BAILIAN_CODING_PLAN_API_KEY", "QWEN_CODE_*"),
        ),
        directory="--include-directories={path}",
        writes=("~/.qwen",),
        settings=("~/.qwen/settings.json",),
        wire=WireVariables(
            keys=("OPENAI_API_KEY",),
            base="OPENAI_BASE_URL",
            unless=("DASHSCOPE_API_KEY", "BAILIAN_CODING_PLAN_API_KEY"),
        ),
        capabilities=_capabilities(cost="unsupported"),
        losses={**_LOSSES, "Usage.cost_usd": dropped("it does not report it")},
        notes=(
            *_NOTES,
            "It starts in a mode in which a model grants permissions; we switch it to the mode in which it asks.",
        ),
    ),
    _card(
        name="copilot",
        title="GitHub Copilot CLI",
        program="copilot",
        arguments=("--acp",),
        install="npm install -g @github/copilot",
        recorded=("1.0.102",),
        environment=(
            *("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_MODEL", "COPILOT_HOME", "COPILOT_OFFLINE"),
            *("COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_*", "COPILOT_AUTO_UPDATE"),
        ),
        servers_file="--additional-mcp-config=@{file}",
        directory="--add-dir={path}",
        sets={"COPILOT_AUTO_UPDATE": "false"},
        writes=("$COPILOT_HOME|~/.copilot", "~/.cache/copilot"),
        wire=WireVariables(
            keys=("COPILOT_PROVIDER_API_KEY",),
            base="COPILOT_PROVIDER_BASE_URL",
            instead=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"),
        ),
        capabilities=_capabilities(cost="unsupported"),
        losses={**_LOSSES, "Usage.cost_usd": dropped("it does not report it")},
        notes=(*_NOTES, "Refusing a permission ends the turn.", "It masks the value of its key in its output."),
    ),
    _card(
        name="kimi",
        title="Kimi Code",
        program="kimi",
        arguments=("acp",),
        install="npm install -g @moonshot-ai/kimi-code",
        recorded=("2.1.0",),
        environment=(
            *("KIMI_API_KEY", "KIMI_MODEL_API_KEY", "KIMI_MODEL_NAME", "KIMI_MODEL_PROVIDER_TYPE"),
            *("KIMI_MODEL_BASE_URL", "KIMI_MODEL_MAX_CONTEXT_SIZE", "KIMI_DISABLE_TELEMETRY", "KIMI_CODE_HOME"),
        ),
        writes=("$KIMI_CODE_HOME|~/.kimi-code",),
        settings=("$KIMI_CODE_HOME/config.toml|~/.kimi-code/config.toml",),
        wire=WireVariables(keys=("KIMI_MODEL_API_KEY",), base="KIMI_MODEL_BASE_URL", instead=("KIMI_API_KEY",)),
        capabilities=_capabilities(fork="native", usage="unsupported", cost="unsupported"),
        losses={**_LOSSES, "Usage": dropped("it reports only how full the context is")},
        notes=_NOTES,
    ),
    *(
        _card(
            name=name,
            title=title,
            program=program,
            arguments=arguments,
            install=install,
            untested=f"it cannot be used without an account of its vendor: {seen}",
            environment=environment,
            writes=writes,
            capabilities=_capabilities(fork="native", cost="unsupported", usage="unsupported"),
            losses=_LOSSES,
            notes=(*_NOTES, "What it can do is what it says itself; a session has what remains of this."),
        )
        for name, title, program, arguments, install, environment, writes, seen in (
            (
                *("auggie", "Auggie CLI", "auggie", ("--acp",), "npm install -g @augmentcode/auggie"),
                *(("AUGMENT_SESSION_AUTH", "AUGMENT_API_TOKEN", "AUGMENT_*"), ("~/.augment",)),
                "0.36.0 was greeted",
            ),
            (
                *("cline", "Cline", "cline", ("--acp",), "npm install -g cline"),
                *(("CLINE_API_KEY", "CLINE_*"), ("~/.cline",)),
                "3.0.65 was greeted",
            ),
            (
                *("cursor", "Cursor", "cursor-agent", ("acp",), "it is a download of its vendor"),
                *(("CURSOR_API_KEY", "CURSOR_*"), ("~/.cursor",)),
                "the program was not to be had",
            ),
            (
                *("goose", "goose", "goose", ("acp",), "it is a download of its vendor"),
                *((*KEYS, "GOOSE_*"), ("~/.config/goose", "~/.local/share/goose", "~/.local/state/goose")),
                "the program was not to be had",
            ),
            (
                *("amp", "Amp", "amp-acp", (), "it is a download of its vendor"),
                *(("AMP_API_KEY", "AMP_*"), ("~/.config/amp", "~/.local/share/amp")),
                "the program was not to be had",
            ),
        )
    ),
)
