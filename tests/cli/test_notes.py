from pathlib import Path

from tests.installed import treadle


def test_a_person_is_told_what_an_untrusted_project_did_not_get(tmp_path: Path) -> None:
    (tmp_path / ".treadle").mkdir()
    (tmp_path / ".treadle" / "config.toml").write_text('nonsense = 1\n[[hooks.pre_tool]]\ncommand = "exit 2"\n')
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"evil": {"command": "evil"}}}')
    (tmp_path / "script.toml").write_text('[[reply]]\ntext = "hello"\n')
    done = treadle("-p", "hi", "--model", "scripted:script.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "hello\n")
    said = done.stderr.splitlines()
    assert any("there is no setting nonsense" in line for line in said)
    assert any("not trusted" in line and line.endswith("config.toml: hooks") for line in said)
    assert any("not trusted" in line and line.endswith(".mcp.json: mcpServers.evil") for line in said)
