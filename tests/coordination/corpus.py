"""What tool calls write, as many programs make them."""

from typing import Any

PATCH = "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: src/a/b.ts\n@@\n-x\n+y\n*** End Patch\nEOF"
WRITING_CALLS: list[tuple[str, str, Any]] = [
    ("claude", "Write", {"file_path": "src/a/b.ts", "content": "x"}),
    ("claude", "Bash", {"command": "echo x > src/a/b.ts"}),
    ("codex", "Bash", {"command": PATCH}),
    ("codex", "apply_patch", {"command": PATCH}),
    ("gemini", "replace", {"file_path": "src/a/b.ts"}),
    ("copilot", "Write", {"path": "src/a/b.ts"}),
    ("opencode", "edit", {"filePath": "src/a/b.ts"}),
    ("cursor", "Write", {"file_path": "src/a/b.ts"}),
    ("claude", "mcp__memory-bank__write_file", {"path": "src/a/b.ts"}),
    ("claude", "mcp__ide__multi_edit", {"edits": [{"path": "src/a/b.ts", "text": "x"}]}),
    ("claude", "mcp__ide__push", {"files": [{"path": "src/a/b.ts"}]}),
    ("claude", "mcp__ide__reformat", {"pathInProject": "src/a/b.ts"}),
    ("gemini", "run_shell_command", {"command": "echo x > b.ts", "dir_path": "src/a"}),
    ("qwen", "run_shell_command", {"command": "echo x > b.ts", "directory": "src/a"}),
    ("claude", "mcp__x__write_file", {"directory": "src/a", "filename": "b.ts"}),
    ("codex", "shell", {"command": ["bash", "-lc", "cd src/a && echo x > b.ts"]}),
    ("codex", "write_stdin", {"session_id": 1, "chars": "echo x > src/a/b.ts\n"}),
    ("copilot", "create", '{"path": "src/a/b.ts"}'),
    ("claude", "mcp__x__find_and_fix", {"path": "src/a/b.ts"}),
    ("claude", "mcp__x__edit", {"file": "src/a/b.ts\n"}),
    ("claude", "mcp__x__edit", {"uri": "FILE://localhostTOP/src/a/b%2Ets"}),
    ("claude", "mcp__git__apply", {"patch": "--- a/src/a/b.ts\n+++ b/src/a/b.ts\n@@ -1 +1 @@\n-a\n+b\n"}),
    ("claude", "mcp__x__write", {"args": '{"path": "src/a/b.ts"}'}),
    ("claude", "mcp__x__write_files", {"files": {"src/a/b.ts": "x"}}),
    ("claude", "mcp__x__run", {"script": "echo x > src/a/b.ts"}),
]
"""Calls that change src/a/b.ts. A program's hook refuses them, and so does the guard of a session that drives it."""
