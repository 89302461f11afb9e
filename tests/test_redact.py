import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treadle.redact import MARK, SHAPES, Redactor, is_secret_name

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow+/=\nabc\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9"
SECRETS = [
    "sk-proj-abcdefghijklmnop1234",
    "sk-ant-api03-AAAABBBBCCCCDDDD-eeee_ffff",
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2_" * 6,
    "AKIAIOSFODNN7EXAMPLE",
    "AIza" + "x" * 35,
    "xoxb-1234567890-abcdef",
    "hf_" + "a" * 34,
    "123456789:AA" + "Hk3_" * 8,
    "SG." + "a1B2" * 5 + "." + "c3D4" * 10,
    "GOCSPX-" + "a1B2" * 7,
    "dop_v1_" + "0a" * 32,
    "shpat_" + "0a" * 16,
    "gsk_" + "a1B2" * 13,
    "AGE-SECRET-KEY-1" + "Q" * 58,
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDcAnAry0001abc",
    JWT,
    PEM,
]
CONTEXTS = [
    ("Authorization: Bearer abc.def-123", "Authorization: Bearer [redacted]"),
    ("x-api-key: abcdef123456", "x-api-key: [redacted]"),
    ("AccountName=a;AccountKey=" + "Ab1+" * 22 + "==;X=1", "AccountName=a;AccountKey=[redacted];X=1"),
    ("https://x.blob/y?sv=1&sig=" + "aB1%" * 12, "https://x.blob/y?sv=1&sig=[redacted]"),
    ("https://hooks.slack.com/services/T0/B0/abcdefghijklmnop", "https://hooks.slack.com/services/[redacted]"),
    ("https://discord.com/api/webhooks/12345/" + "a1B2" * 17, "https://discord.com/api/webhooks/12345/[redacted]"),
    ("export OPENAI_API_KEY=whatever123", "export OPENAI_API_KEY=[redacted]"),
    ("DB_PASSWORD='hunter2hunter2' next", "DB_PASSWORD='[redacted]' next"),
    ('{"access_token": "abc def ghi", "n": 1}', '{"access_token": "[redacted]", "n": 1}'),
]
INNOCENT = [
    "max_tokens: 4096, input_tokens=123456",
    "token = get_token(request)",
    "PRIMARY_KEY=whatever",
    "API_KEY=$SECRET_FROM_ELSEWHERE",
    "task-force sk-short ghp_short bearer of news",
    "the password is missing",
    "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9  a file",
    'integrity="sha384-oqVuAfXRKap7fdgcCY5uykM6+R9GqQ8K/uxy9rx7HNQlGYl1kPzQho1wx4JwY8wC"',
    "sha512-" + "aB1+" * 21 + "aQ==",
    "12:30:45 Signature=short sig=x",
    "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
]
LONG = "long" * 1500
KNOWN = [LONG, "correct horse battery", 'quo"te\\d', "line-one-secret\nline-two-secret"]


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(KNOWN)


@pytest.mark.parametrize("secret", SECRETS)
def test_a_key_is_known_by_its_shape(redactor: Redactor, secret: str) -> None:
    assert redactor.text(f"before {secret} after") == f"before {MARK} after"
    assert redactor.text(f'{{"x":"{secret}"}}') == f'{{"x":"{MARK}"}}'


@pytest.mark.parametrize(("text", "expected"), CONTEXTS)
def test_a_secret_is_known_by_its_name_which_stays_readable(redactor: Redactor, text: str, expected: str) -> None:
    assert redactor.text(text) == expected


@pytest.mark.parametrize("text", INNOCENT)
def test_ordinary_text_is_left_alone(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == text


def test_known_values_are_found_plain_in_json_and_line_by_line(redactor: Redactor) -> None:
    assert redactor.text("a correct horse battery b") == f"a {MARK} b"
    assert redactor.text('{"k":"quo\\"te\\\\d"}') == f'{{"k":"{MARK}"}}'
    assert "secret" not in redactor.text("line-one-secret\\nline-two-secret and line-two-secret")


def test_an_unfinished_private_key_is_taken_out_to_the_end(redactor: Redactor) -> None:
    assert redactor.text("x -----BEGIN PRIVATE KEY-----\nabc\ndef") == f"x {MARK}"


def test_values_of_secret_variables_are_known() -> None:
    redactor = Redactor.of_environment({"MY_API_KEY": "abcdef", "PLAIN": "ghijkl", "X_TOKEN": "short"})
    assert redactor.text("abcdef ghijkl short") == f"{MARK} ghijkl short"
    assert [
        name for name in ("A_TOKEN", "gh_token", "TOKENS", "HOME", "AWS_SECRET_ACCESS_KEY") if is_secret_name(name)
    ] == [
        "A_TOKEN",
        "gh_token",
        "AWS_SECRET_ACCESS_KEY",
    ]


def test_a_json_value_is_redacted_through_and_through(redactor: Redactor) -> None:
    value = {"a": [1, None, {"b": SECRETS[0]}], SECRETS[0]: True}
    assert redactor.tree(value) == {"a": [1, None, {"b": MARK}], MARK: True}


pieces = st.lists(
    st.one_of(
        st.sampled_from([*SECRETS, *KNOWN, *(text for text, _ in CONTEXTS), *INNOCENT]),
        st.sampled_from(
            ["\n", " ", "-----", "-----BEGIN ", "sk-", "eyJ", "TOKEN=", "bearer ", '"secret": "', "x" * 5000, "_"]
        ),
        st.text("ab -\n_=.", max_size=8),
    ),
    max_size=8,
)


@given(pieces.map("".join), st.lists(st.integers(1, 60), min_size=1))
@example("-----BEGIN PRIVATE KEY-----abc-----END PRIVATE KEY-----", [1])
@example("x" * 9000 + SECRETS[0] + "y" * 9000, [7])
@example(f"{SECRETS[0]} {'word ' * 800}" * 6, [59])
@example(f"{LONG} {LONG}x{LONG}{'-' * 9000}", [60])
@settings(max_examples=200)
def test_how_a_text_is_cut_into_chunks_makes_no_difference(text: str, sizes: list[int]) -> None:
    redactor = Redactor(KNOWN)
    stream = redactor.stream()
    out, at, number = "", 0, 0
    while at < len(text):
        size = sizes[number % len(sizes)]
        out += stream.feed(text[at : at + size])
        at, number = at + size, number + 1
    assert out + stream.end() == redactor.text(text)


@given(
    st.sampled_from(SHAPES).flatmap(
        lambda shape: st.tuples(
            st.from_regex(shape[0], fullmatch=True, alphabet=st.characters(codec="ascii")), st.just(shape[1])
        )
    )
)
@settings(max_examples=150)
def test_a_shape_is_only_looked_for_beside_a_word_that_it_always_has(case: tuple[str, tuple[str, ...]]) -> None:
    found, words = case
    assert any(word in found.lower() for word in words) if words else re.search("[A-Za-z0-9+/]{64}", found)


def test_small_chunks_of_a_long_line_are_looked_at_about_twice() -> None:
    class Counting(Redactor):
        looked = 0

        def found(self, text: str, start: int = 0) -> Iterator[re.Match[str]]:
            self.looked += len(text)
            return super().found(text, start)

    redactor = Counting()
    stream = redactor.stream()
    for _ in range(40_000):
        stream.feed("word ")
    stream.end()
    assert redactor.looked < 3 * 200_000


@given(pieces, st.sampled_from([secret for secret in SECRETS if secret != PEM]))
def test_a_secret_never_comes_through_and_redacting_twice_is_redacting_once(around: list[str], secret: str) -> None:
    redactor = Redactor()
    once = redactor.text(f"{' '.join(around)} {secret} {' '.join(around)}")
    assert secret not in once
    assert redactor.text(once) == once


@given(
    st.lists(st.one_of(st.text(), st.sampled_from([*SECRETS, *(text for text, _ in CONTEXTS)])), max_size=4),
    st.sampled_from(['"', "\n", "\\", "x", ""]),
)
def test_what_is_surely_clean_as_json_has_no_secret_in_any_text(parts: list[str], between: str) -> None:
    redactor = Redactor(['hunter2"secret'])
    tree = {"a": between.join(parts), "b": [between.join(reversed(parts))]}
    if redactor.surely_clean(json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass")):
        assert redactor.tree(tree) == tree


PEM_LINES = [
    "-----BEGIN RSA PRIVATE KEY-----",
    "MIIEpAIBAAKCAQEA",
    "Proc-Type: 4,ENCRYPTED",
    "-----END RSA PRIVATE KEY-----",
]


def test_in_a_text_that_others_compose_a_key_is_removed_and_hides_nothing_else() -> None:
    key = "\n".join(f"+{line}" for line in PEM_LINES)
    assert Redactor().lines(f"a\n{key}\nz") == (f"a\n+{MARK}\n+-----END RSA PRIVATE KEY-----\nz", 3)
    unended = "A  x -----BEGIN PRIVATE KEY-----\nA  evil.txt\ndiff --git a/evil.txt b/evil.txt\n+evil()"
    assert Redactor().lines(unended) == (unended.replace("-----BEGIN PRIVATE KEY-----", MARK), 1)
    assert Redactor().lines("nothing\nto hide") == ("nothing\nto hide", 0)
    one = "K = '-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----'"
    assert Redactor().lines(f"{one}\nMIIE") == (f"K = '{MARK}'\nMIIE", 1)


def test_what_must_be_looked_at_is_not_surely_clean() -> None:
    redactor = Redactor(["hunter2-secret"])
    line = b"aB1+" * 15 + b"cD/2"
    assert not redactor.surely_clean(b"x " + line + b" y") and redactor.surely_clean(b"x " + line[1:] + b" y")
    for text in (b"hunter2-secret", b"a ----- b", b"my key: x", b'{"a":"the token\\": x"}', b"Bearer x"):
        assert not redactor.surely_clean(text), text
    assert redactor.surely_clean(b"a key and a token") and redactor.surely_clean(b"")
    assert not Redactor(["tab\tin it"]).surely_clean(b"x"), "JSON writes it in another way"


def test_pieces_are_redacted_together_and_trees_keep_their_other_values() -> None:
    redactor = Redactor(["correct-horse"])
    pieces = redactor.pieces(["it is corr", "ect-horse", " ok"])
    assert len(pieces) == 3 and "".join(pieces) == f"it is {MARK} ok" and redactor.pieces([]) == []
    assert redactor.tree({1: ("correct-horse", 2)}) == {1: [MARK, 2]}
    assert redactor.text("x" * 64) in redactor._clean and redactor.text("x" * 65) not in redactor._clean


@pytest.mark.parametrize("hostile", ["TOKEN", "a", "eyJ", "-", '"', "A_"])
def test_a_million_characters_take_linear_time(hostile: str) -> None:
    Redactor().text(hostile * (1_000_000 // len(hostile)))
