"""Which proxy is used for which host."""

from urllib.parse import urlsplit

import pytest

from treadle.io.http import proxy_for

PROXY = {"HTTP_PROXY": "http://plain:1", "https_proxy": "sealed:2"}


@pytest.mark.parametrize(
    ("url", "env", "proxy"),
    [
        ("https://a.example/v1", {}, None),
        ("http://a.example/v1", PROXY, "http://plain:1"),
        ("https://a.example/v1", PROXY, "http://sealed:2"),
        ("https://a.example/v1", {"ALL_PROXY": "any:3"}, "http://any:3"),
        ("https://a.example/v1", {**PROXY, "NO_PROXY": "b.example"}, "http://sealed:2"),
        ("https://a.example/v1", {**PROXY, "no_proxy": "b.example, a.example"}, None),
        ("https://x.a.example/v1", {**PROXY, "no_proxy": ".a.example"}, None),
        ("https://a.example/v1", {**PROXY, "NO_PROXY": "*"}, None),
        ("https://10.1.2.3/v1", {**PROXY, "NO_PROXY": "10.0.0.0/8"}, None),
        ("https://11.1.2.3/v1", {**PROXY, "NO_PROXY": "10.0.0.0/8,rubbish/9"}, "http://sealed:2"),
        ("https://10.1.2.3/v1", {**PROXY, "NO_PROXY": "10.9.9.9/8"}, None),
        ("https://[fd00::1]/v1", {**PROXY, "NO_PROXY": "fd00::/8"}, None),
    ],
)
def test_the_environment_says_which_proxy_leads_to_a_host(
    url: str, env: dict[str, str], proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    found = proxy_for(urlsplit(url))
    assert (found.geturl() if found else None) == proxy


def test_the_settings_of_the_system_are_asked_where_it_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("urllib.request.getproxies", lambda: {"https": "system:4"})
    url = urlsplit("https://a.example/")
    monkeypatch.setattr("sys.platform", "linux")
    assert proxy_for(url) is None
    monkeypatch.setattr("sys.platform", "darwin")
    found = proxy_for(url)
    assert found is not None and found.geturl() == "http://system:4"
