"""The registry of agents: the copy that ships, and a newer one in the form in which it is published."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.drivers.card import cards
from treadle.drivers.registry import COPY, OWN, published, refresh, registry
from treadle.errors import ConfigError

ODD: dict[str, Any] = {"name": "odd", "title": "Odd"}


def told(**distribution: Any) -> bytes:
    return json.dumps(
        {"agents": [{"id": "odd", "name": "Odd", "version": "1.2.3", "distribution": distribution}]}
    ).encode()


def test_the_copy_names_each_agent_once_and_pins_every_package() -> None:
    names = [each.name for each in COPY.agents]
    assert len({*names}) == len(names) >= 20 and {*OWN.values()} <= cards().keys()
    for each in COPY.agents:
        assert (each.source == "download") == (not each.package), each
        assert each.version[0].isdigit(), each


def test_a_newer_one_takes_the_place_of_the_copy_and_says_its_day() -> None:
    assert registry() is COPY
    refresh(told(npx={"package": "odd@1.2.3"}), "2030-01-01")
    assert registry().date == "2030-01-01" and registry().find("odd").package == "odd"
    with pytest.raises(ConfigError, match="the registry of 2030-01-01 lists no agent 'auggie'"):
        registry().find("auggie")


@pytest.mark.parametrize("text", [b"no json", b"[]", b'{"agents": 3}'])
def test_what_is_no_registry_is_refused_and_the_old_one_stays(text: bytes) -> None:
    with pytest.raises(ConfigError, match="this is not a registry of agents"):
        refresh(text, "2030-01-01")
    assert registry() is COPY


@given(st.recursive(st.none() | st.booleans() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_whatever_an_entry_is_the_others_are_read(odd: Any) -> None:
    text = json.dumps({"agents": [odd, {"id": "odd", "version": "1", "distribution": {"npx": {"package": "p@2"}}}]})
    assert published(text.encode())[-1].version == "2"


def test_the_copy_has_names_to_type_titles_to_read_and_an_order() -> None:
    packages = [each for each in COPY.agents if each.package]
    downloads = [each for each in COPY.agents if not each.package]
    for group in (packages, downloads):
        assert [each.name for each in group] == sorted(each.name for each in group)
    for each in COPY.agents:
        assert re.fullmatch(r"[a-z0-9-]+", each.name) and re.fullmatch(r"[0-9.]+", each.version), each
        assert each.title == "fast-agent" or each.title[:2] in ("pi", "si", "go") or each.title[0].isupper(), each
    with pytest.raises(ConfigError) as unknown:
        COPY.find("nobody")
    assert "auggie, claude-acp" in (unknown.value.hint or "") and "amp-acp" not in (unknown.value.hint or "")
    assert COPY.find("auggie").arguments == ("--acp",) and COPY.find("cline").package == "cline"


def test_what_is_no_list_of_agents_says_so() -> None:
    for text in (b"[]", b'{"agents": {}}'):
        with pytest.raises(ConfigError, match="has no list `agents`"):
            published(text)
    made = refresh(told(npx={"package": "@a/odd@9", "args": [7], "env": {"N": 1}}), "2030-01-01")
    assert made.agents[0].arguments == ("7",) and made.agents[0].sets == {"N": "1"} and registry() == made
