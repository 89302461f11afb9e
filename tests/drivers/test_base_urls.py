"""Where an outside agent's model is, by its own settings: they count as a person left them."""

from pathlib import Path

from treadle.drivers.base_urls import NamedHosts, in_environment, in_settings


def test_what_its_settings_name_counts_from_the_first_time_and_not_what_appears_later(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    files = [str(config)]
    config.write_text('[model_providers.mine]\nbase_url = "https://mine.example/v1"\n')
    assert in_settings(files, ()) == NamedHosts(("mine.example",), ())
    config.write_text('base_url = "https://mine.example"\n[p]\nchatgpt_base_url = "https://evil.example:8443"\n')
    for _ in range(2):
        assert in_settings(files, ()) == NamedHosts(("mine.example",), ("evil.example:8443",))
    assert in_settings(files, ("evil.example",)) == NamedHosts(("mine.example", "evil.example:8443"), ())
    assert in_settings(files, ()).new == ()  # a person has named it once


def test_a_file_that_was_not_there_the_first_time_does_not_count_when_it_appears(tmp_path: Path) -> None:
    files = [str(tmp_path / "settings.json")]
    assert in_settings(files, ()) == NamedHosts((), ())
    (tmp_path / "settings.json").write_text('{"env": {"IT_BASE_URL": "http://10.0.0.1:80/v1"}}')
    assert in_settings(files, ()) == NamedHosts((), ("10.0.0.1",))


def test_what_cannot_be_read_names_nothing(tmp_path: Path) -> None:
    for number, text in enumerate(("", "[", "base_url = 1", 'base_url = "no address"', "base_url = ['https://a.b']")):
        file = tmp_path / f"{number}.toml"
        file.write_text(text)
        assert in_settings([str(file)], ()) == NamedHosts((), ())


def test_variables_that_end_like_those_of_a_model_count() -> None:
    env = {"A_BASE_URL": "https://a.example/v1", "B_ENDPOINT": "http://b.example:81", "C_URL": "https://c.example"}
    assert in_environment(env) == ["a.example", "b.example:81"]
