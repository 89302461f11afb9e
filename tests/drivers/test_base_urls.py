"""Where an outside agent's model is, by its own settings: they count as a person left them."""

from pathlib import Path

from treadle.drivers.confined import NamedHosts, in_environment, in_settings


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


def test_a_host_is_found_in_tables_and_not_too_deep_and_named_once(tmp_path: Path) -> None:
    def nested(depth: int) -> str:
        return '{"a": ' * depth + '{"baseURL": "https://deep.example"}' + "}" * depth

    one, two, deep, deeper = (tmp_path / name for name in ("1.json", "2.json", "3.json", "4.json"))
    one.write_text(
        '{"p": {"base_url": "https://a.example/x"}, "url": "https://no.example", "base_urls": "https://no.example"}'
    )
    two.write_text('{"baseUrl": "http://a.example:443", "q": {"BASE_URL": "https://a.example"}}')
    assert in_settings([str(one), str(two)], ()) == NamedHosts(("a.example",), ())
    deep.write_text(nested(9))
    deeper.write_text(nested(10))
    assert in_settings([str(deep)], ()) == NamedHosts(("deep.example",), ())
    assert in_settings([str(deeper)], ()) == NamedHosts((), ())


def test_a_host_that_a_person_lists_on_one_port_counts_on_that_one(tmp_path: Path) -> None:
    config = tmp_path / "c.json"
    config.write_text("{}")
    assert in_settings([str(config)], ()) == NamedHosts((), ())
    config.write_text('{"a_base_url": "https://x.example", "b_base_url": "https://x.example:444"}')
    assert in_settings([str(config)], ("x.example:443",)) == NamedHosts(("x.example",), ("x.example:444",))
    config.write_text("[" * 100_000)
    assert in_settings([str(config)], ()) == NamedHosts((), ())
    assert in_environment({"X_API_BASE": "https://x.example", "X_BASE_URL": "", "Y_BASE_URL": "https://x.example"}) == [
        "x.example"
    ]
