"""pi."""

from treadle.drivers.card import Card, WireVariables, dropped, emulated, levels

CARDS = (
    Card(
        name="pi",
        title="pi",
        driver="treadle.drivers.pi.driver:PiAgent",
        how="its RPC mode, one process per session, with an extension of ours that asks before each tool",
        program="pi",
        arguments=("--mode", "rpc"),
        install="npm install -g @earendil-works/pi-coding-agent",
        recorded=("0.74.2",),
        environment=(
            *("PI_*", "ANTHROPIC_API_KEY", "ANTHROPIC_OAUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY"),
            *("OPENROUTER_API_KEY", "MISTRAL_API_KEY", "XAI_API_KEY", "CEREBRAS_API_KEY", "DEEPSEEK_API_KEY"),
        ),
        sets={"PI_SKIP_VERSION_CHECK": "1"},
        writes=("~/.pi",),
        adapters=("pi-acp",),
        settings=("~/.pi/agent/models.json",),
        wire=WireVariables(
            keys=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"),
            base="TREADLE_PI_SETTINGS",
            unless=(
                *("ANTHROPIC_OAUTH_TOKEN", "GEMINI_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY", "XAI_API_KEY"),
                *("CEREBRAS_API_KEY", "DEEPSEEK_API_KEY", "PI_CODING_AGENT_DIR"),
            ),
            form="pi",
        ),
        capabilities=levels(
            native="streaming thinking tools results steer resume fork usage cost iterations model switch_model images "
            "toolset unsaved effort sandbox",
            emulated="permissions changed_input interrupt mode rules file_changes system_prompt structured_output "
            "add_dirs",
        ),
        losses={
            "Asked": emulated("pi itself never asks; our extension does before each tool"),
            "FileChanged": emulated(
                "from the arguments of the tools that write; what a command writes is not reported"
            ),
            "CommandRun.exit_code": emulated("0 when the tool succeeded, unknown otherwise"),
            "ContextPruned": dropped("it is not reported"),
            "TaskChanged": dropped("it has no background tasks"),
        },
        notes=(
            "Every tool call is judged by our rules before it runs.",
            "A command may still run for a moment after its own abort; we end what an interrupted turn leaves.",
        ),
    ),
)
