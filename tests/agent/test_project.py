import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.io.paths import config_file
from treadle.session import Instructions
from treadle.settings import project


def knowledge(cwd: str) -> str:
    """All that an agent is told there."""
    return "\n\n".join(text for _, text in project.knowledge_parts(cwd))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "deep").mkdir()
    return tmp_path / "repo"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def own(name: str) -> Path:
    return Path(os.path.dirname(config_file()), name)


def test_knowledge_comes_from_the_user_then_from_the_top_down_to_here(repo: Path) -> None:
    write(repo.parent / "AGENTS.md", "outside of the repository")
    write(repo / "deep" / "AGENTS.md", "deep")
    write(repo / "CLAUDE.md", "claude")
    write(repo / "agents.md", "top")
    write(own("AGENTS.md"), "mine")
    said = knowledge(str(repo / "deep"))
    assert said.split() == [
        "mine",
        "top",
        "claude",
        "deep",
    ]
    assert dict(project.knowledge_parts(str(repo / "deep")))[f"{repo}/deep/AGENTS.md"] == "deep"
    assert knowledge(str(repo.parent)).endswith("outside of the repository")


@pytest.mark.parametrize(
    ("text", "imported"),
    [
        ("**@a.md** and @b.md#part.", "a b"),
        ("text\n\n    @a.md\n", ""),
        ("- x\n    - @a.md", "a"),
        ("<!-- @a.md\n -->\n@b.md <!-- @c.md -->", "b c"),
        ("```\n@a.md\n```\n@x.png", ""),
        ('(@a.md) "@b.md" @c\\ d.md', "c"),
        ("see @a.md, then @./b.md.", ""),
    ],
)
def test_a_memory_file_includes_what_claude_code_would(text: str, imported: str, repo: Path) -> None:
    for name in ("a.md", "b.md", "c.md", "c d.md", "x.png"):
        write(repo / name, f"word-{name[0]}")
    write(repo / "CLAUDE.md", text)
    assert " ".join(re.findall(r"word-(\w)", knowledge(str(repo)))) == imported


def test_files_are_included_four_levels_deep(repo: Path) -> None:
    write(repo / "CLAUDE.md", "word-0 @d1.md <!-- kept -->\n<!-- word-9\n-->\n```\n<!-- word-8 -->\n```\n")
    for number in range(1, 7):
        write(repo / f"d{number}.md", f"word-{number} @d{number + 1}.md")
    assert sorted(re.findall(r"word-(\d)", knowledge(str(repo)))) == ["0", "1", "2", "3", "4", "8"]


def test_what_directories_further_down_say_comes_with_their_files_once(repo: Path) -> None:
    for name in ("AGENTS.md", "CLAUDE.md"):
        write(repo / "deep" / name, f"of {name}")
    deeper = project.DeeperKnowledge(str(repo), Instructions())
    told = [deeper.about([str(repo / name)]) for name in ("a.py", "deep/a.py", "deep/b.py")]
    assert [[name for name in ("AGENTS.md", "CLAUDE.md") if f"of {name}" in each] for each in told] == [
        [],
        ["AGENTS.md", "CLAUDE.md"],
        [],
    ]


def test_a_link_out_of_the_repository_is_not_followed(repo: Path) -> None:
    (repo / "AGENTS.md").symlink_to("/etc/passwd")
    (repo / ".treadle").mkdir()
    write(repo.parent / "elsewhere" / "x" / "SKILL.md", "---\nname: x\n---\n")
    (repo / ".treadle" / "skills").symlink_to(repo.parent / "elsewhere")
    assert knowledge(str(repo)) == ""
    assert project.skills(str(repo)) == []


def test_skills_are_found_near_and_far_and_the_nearest_wins(repo: Path) -> None:
    write(repo / ".agents" / "skills" / "pdf" / "SKILL.md", "---\nname: pdf\ndescription: top\n---\nbody")
    write(
        repo / "deep" / ".treadle" / "skills" / "pdf" / "SKILL.md", "---\nname: pdf\ndescription: near\n---\nnear body"
    )
    write(repo / ".claude" / "skills" / "bare" / "SKILL.md", "no front matter")
    write(own("skills") / "mine" / "SKILL.md", "---\nname: mine\ndescription: >\n  two\n  lines\n---\n")
    found = project.skills(str(repo / "deep"))
    assert [(skill.name, skill.description) for skill in found] == [
        ("pdf", "near"),
        ("bare", "no front matter"),
        ("mine", "two lines"),
    ]
    assert project.offer(found).splitlines()[1] == "- pdf: near"
    assert project.load_skill(found[0]) == f"Files of this skill are in {repo}/deep/.treadle/skills/pdf\n\nnear body"
    assert project.offer([]) == ""


def test_of_claude_codes_commands_and_skills_the_persons_go_first(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = repo.parent / "theirs"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(theirs))
    for place, text in ((theirs, "person"), (repo / ".claude", "project")):
        write(place / "commands" / "look.md", text)
        write(place / "agents" / "a.md", f"---\nname: a\ndescription: {text}\n---\nx")
    [found], [agent] = project.skills(str(repo)), project.agents(str(repo))
    assert (found.description, agent.description) == ("person", "project")


def test_an_output_style_of_a_plugin_is_named_with_the_plugin(repo: Path) -> None:
    write(repo / "plug" / "output-styles" / "t.md", "---\nname: Terse\n---\nBe brief.")
    style = partial(project.output_style, cwd=str(repo), instructions=Instructions(plugins=(str(repo / "plug"),)))
    assert (style("plug:terse"), style("plug:t"), style("Terse")) == ("Be brief.", "Be brief.", None)


@given(st.text(max_size=200) | st.text("-:\n abc>'\"", max_size=60))
def test_front_matter_never_loses_the_body(text: str) -> None:
    values, body = project.front_matter(text)
    assert text.endswith(body)
    assert values == {} or text.lstrip("\ufeff").startswith("---")


def test_only_what_is_wanted_is_used(repo: Path) -> None:
    write(repo / "AGENTS.md", "of the project")
    write(own("AGENTS.md"), "mine")
    write(repo / ".claude" / "commands" / "fix.md", "Fix it.")
    write(own("commands") / "mine.md", "Mine.")
    write(repo / ".claude" / "skills" / "a" / "SKILL.md", "")
    write(repo / ".claude" / "skills" / "b" / "SKILL.md", "")

    def found(**asked: Any) -> tuple[list[str], list[str], list[str]]:
        wanted = Instructions(**asked)
        texts = [text for _, text in project.knowledge_parts(str(repo), wanted)]
        skills = project.skills(str(repo), wanted)
        commands = sorted(skill.name for skill in skills if skill.command)
        return texts, commands, [skill.name for skill in skills if not skill.command]

    assert found() == (["mine", "of the project"], ["fix", "mine"], ["a", "b"])
    assert found(sources=("user",)) == (["mine"], ["mine"], [])
    assert found(sources=("project",), skills=("b",)) == (["of the project"], ["fix"], ["b"])
    assert found(project=False) == ([], [], [])
    assert found(commands=False)[1] == []


def test_subagents_are_read_and_one_that_asks_for_what_there_is_not_is_named(repo: Path) -> None:
    header = (
        "---\nname: scout\ndescription: 'looks'\ntools: Grep, Bash\nmaxTurns: 4\ndisallowedTools: Bash\nmodel: m\n---\n"
    )
    write(repo / ".claude" / "agents" / "a.md", header + "Look around.\n")
    write(repo / ".treadle" / "agents" / "plain.md", "Do it.")
    write(repo / ".claude" / "agents" / "plain.md", "---\nname: plain\n---\nNot nearest.")
    bad = write(repo / ".claude" / "agents" / "z.md", "---\nname: z\npermissionMode: plan\nmaxTurns: many\n---\nx")
    broken: list[str] = []
    plain, scout = project.agents(str(repo), broken=broken)
    assert (plain.name, plain.prompt) == ("plain", "Do it.")
    assert (scout.name, scout.description, scout.prompt, scout.tools) == (
        "scout",
        "looks",
        "Look around.",
        ("grep", "bash"),
    )
    assert (scout.max_turns, scout.denied, scout.model) == (4, ("bash",), "m")
    assert len(broken) == 1 and broken[0].startswith(f"{bad} is not used: ")
    assert len(project.agents(str(repo))) == 2, "without a list for them, broken ones are passed over"


@pytest.mark.parametrize(
    "written",
    [
        "Grep, Bash # no more",
        "Grep Bash",
        '["Grep", Bash]',
        "Grep, Bash(touch:*)",
        "\n- Grep\n- Bash",
        "\n  # two\n  - 'Grep' # one\n  - Bash",
    ],
)
def test_the_tools_of_a_subagent_are_those_of_its_list_in_every_form_of_a_list(written: str, repo: Path) -> None:
    for key in ("tools", "disallowedTools"):
        write(repo / ".claude" / "agents" / f"{key}.md", f"---\nname: {key}\n{key}: {written}\n---\nLook.\n")
    denied, offered = project.agents(str(repo))
    assert (offered.tools, offered.denied, denied.tools, denied.denied) == (
        ("grep", "bash"),
        (),
        None,
        ("grep", "bash"),
    )


@pytest.mark.parametrize(
    ("written", "tools"), [("null", ("null",)), ("~", ("~",)), ("", None), ("'*'", None), ("[]", ())]
)
def test_a_subagent_whose_tools_are_null_has_none(written: str, tools: object, repo: Path) -> None:
    write(repo / ".claude" / "agents" / "a.md", f"---\nname: a\nmodel: null\ntools: {written}\n---\nLook.\n")
    [found] = project.agents(str(repo))
    assert (found.tools, found.model) == (tools, None)


@pytest.mark.parametrize("written", ["true", "True", '"true"', "true # people decide", "'true'\t# people"])
def test_a_skill_is_reserved_for_people_also_with_a_comment(written: str, repo: Path) -> None:
    header = f'description: of "#1" # note\ndisable-model-invocation: {written}\ndisallowed-tools: Bash'
    write(repo / ".claude" / "skills" / "a" / "SKILL.md", f"---\n{header}\n---\nx")
    [skill] = project.skills(str(repo))
    assert (skill.by_model, skill.description, skill.reading.forbids) == (False, 'of "#1"', ("disallowed-tools",))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('description: "a \\"b\\" \\u0063"', 'a "b" c'),
        ("description: 'it''s'", "it's"),
        ("description: |\n  a\n    b", "a\n  b"),
        ("description: a\n  b\n  c", "a b c"),
        ("description:\ta # b", "a"),
        ('"description" : a', "a"),
        ("x: &y a\ndescription: *y", "a"),
        ('description: Use it so: <example>user: "Do it"</example>', 'Use it so: <example>user: "Do it"</example>'),
        ("description: @a {b}", "@a {b}"),
        ("description: [a, b]", "body"),
        ("Description: a", "body"),
        ("description: ~", "body"),
        ("description: a:", "body"),
        ("description: " + "[" * 5000, "[" * 1024 + "\n[cut here: it is too long]"),
    ],
)
def test_a_header_is_read_as_yaml_or_as_people_write_it(written: str, read: str, repo: Path) -> None:
    write(repo / ".claude" / "skills" / "a" / "SKILL.md", f"---\n{written}\n---\n# body\n")
    [skill] = project.skills(str(repo))
    assert skill.description == read
    assert skill.reading.unknown == (
        ("front matter that is no YAML",)
        if written == "description: a:"
        else ("Description",)
        if written[0] == "D"
        else ("x",)
        if written[0] == "x"
        else ()
    )


def test_commands_are_for_the_model_too_unless_they_are_reserved_for_people(repo: Path) -> None:
    write(repo / ".claude" / "commands" / "look.md", "Look at $ARGUMENTS.")
    write(repo / ".claude" / "commands" / "deploy.md", "---\ndisable-model-invocation: true\n---\nDeploy.")
    deploy, look = project.skills(str(repo))
    assert (deploy.by_model, look.by_model, look.description) == (False, True, "Look at $ARGUMENTS.")
    assert project.load_skill(look, "this") == "Look at this."
