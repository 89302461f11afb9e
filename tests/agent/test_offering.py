"""The models that our own agent offers a person."""

from pathlib import Path

from treadle.agent.native import NativeAgent
from treadle.agent.transcript import Transcript, TurnBegan
from treadle.session import SessionSpec


async def test_the_model_in_use_those_of_earlier_sessions_and_of_the_settings_are_offered(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("reply=[{text='Seen.', times='always'}]")
    kept = Transcript.create(cwd=str(tmp_path), model="vendor:old")
    kept.append(TurnBegan(turn="t", prompt="hello"), sync=True)
    kept.close()
    env = {"ANTHROPIC_API_KEY": "key", "TREADLE_MODEL": "vendor:usual"}
    model = f"scripted:{tmp_path}/s.toml"
    session = await NativeAgent(env).open(SessionSpec(cwd=str(tmp_path), model=model))
    try:
        menu = await session.menu()
    finally:
        await session.close()
    names = [one.id for one in menu.offered]
    assert menu.current == model and names[:3] == [model, "vendor:old", "vendor:usual"]
    assert [name.partition(":")[0] for name in names[3:]] == ["anthropic"], "of the others no key is set"
