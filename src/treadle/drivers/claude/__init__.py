"""Claude Code."""

from treadle.drivers.card import Card, WireVariables, dropped, emulated, levels

CARDS = (
    Card(
        name="claude",
        title="Claude Code",
        driver="treadle.drivers.claude.driver:ClaudeAgent",
        how="stream-json with control records, one process per session",
        program="claude",
        install="npm install -g @anthropic-ai/claude-code",
        recorded=("2.1.325",),
        environment=(
            *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_*", "CLAUDE_CODE_OAUTH_TOKEN"),
            *("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"),
            *("CLAUDE_CODE_MAX_RETRIES", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER"),
        ),
        sets={"DISABLE_AUTOUPDATER": "1"},
        writes=("$CLAUDE_CONFIG_DIR|~/.claude",),
        adapters=("claude-agent-acp", "claude-code-acp"),
        settings=("$CLAUDE_CONFIG_DIR/settings.json|~/.claude/settings.json",),
        hosts=("api.anthropic.com", "platform.claude.com", "claude.ai"),
        wire=WireVariables(
            keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
            base="ANTHROPIC_BASE_URL",
            usual="https://api.anthropic.com",
            unless=("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"),
            instead=("CLAUDE_CODE_OAUTH_TOKEN",),
        ),
        transcripts=("$CLAUDE_CONFIG_DIR/projects/{cwd}/{id}.jsonl", "~/.claude/projects/{cwd}/{id}.jsonl"),
        capabilities=levels(
            native="streaming thinking tools results permissions changed_input questions interrupt resume fork usage "
            "cost iterations tasks commands model switch_model mode rules hooks own_tools subagents skills steer "
            "servers servers_alone sources bare plugins images session_id unsaved toolset system_prompt add_dirs "
            "effort sandbox",
            emulated="file_changes structured_output",
        ),
        losses={
            "ToolOutput": dropped("it gives a tool's output when the tool has ended"),
            "FileChanged": emulated("from the result of the tools that write; what a command writes is not reported"),
            "CommandRun.exit_code": emulated("read from the text of the result"),
            "Usage": emulated("one for each model and turn, not one for each call"),
            "Usage.duration_ms": dropped("it is reported for the whole turn only"),
            "ContextPruned": dropped("it is not reported"),
            "TaskGroupChanged": dropped("it has no groups of tasks"),
        },
        notes=(
            "Every tool call is judged by our rules before it runs, also those that Claude Code would not ask about.",
            "It reads its own settings, hooks and MCP servers as it always does.",
        ),
    ),
)
