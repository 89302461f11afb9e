"""The models that our own agent offers a person."""

from pathlib import Path

from treadle.agent.native import NativeAgent
from treadle.agent.offered_models import MOST, menu_of, own_models
from treadle.agent.transcript import Transcript, TurnBegan
from treadle.session import SessionSpec
from treadle.settings.config import Settings


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


def test_what_the_settings_name_is_offered_once_and_what_is_empty_never(tmp_path: Path) -> None:
    settings = Settings(model="vendor:mine", models={"aliases": {"quick": "vendor:small"}})
    assert own_models(settings, {}) == ("vendor:mine", "quick")
    assert own_models(settings, {"TREADLE_MODEL": "quick"}) == ("quick",), "the variable goes first"
    assert own_models(Settings(), {}) == ()
    assert own_models(Settings(), {"OPENAI_API_KEY": ""}) == ()
    menu = menu_of("", str(tmp_path), settings, {})
    assert [(one.id, one.name) for one in menu.offered] == [("vendor:mine", "vendor:mine"), ("quick", "quick")]
    assert menu_of("quick", str(tmp_path), settings, {}).offered[0].id == "quick"
    many = Settings(models={"aliases": {f"m{number}": "vendor:x" for number in range(MOST + 1)}})
    assert len(own_models(many, {})) == len(menu_of("one", str(tmp_path), many, {}).offered) == MOST
