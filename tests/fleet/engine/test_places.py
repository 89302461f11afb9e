"""The file that says which fleet this machine belongs to: who may read it, and what it may do with it."""

import os
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from treadle.errors import Busy, NotFound
from treadle.fleet.engine import places
from treadle.fleet.engine.places import Fleet

OURS = Fleet(url="nats://127.0.0.1:4222", users={"admin": "a", "submit": "s", "worker:n2": "w"})


def test_what_is_saved_is_read_and_only_its_owner_may_read_it(state_home: Path) -> None:
    with pytest.raises(NotFound, match="is in no fleet"):
        places.load()
    places.save(OURS)
    assert places.load() == OURS
    path = Path(places.root(), "fleet.json")
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_each_role_logs_in_as_itself_and_one_without_a_password_as_no_one() -> None:
    assert (OURS.address("submit").user, OURS.address("submit").password) == ("submit", "s")
    assert OURS.address("worker:n2").user == "worker_n2"
    assert (OURS.address("watch").user, OURS.address("watch").password) == ("", "")


def test_a_machine_that_only_works_for_another_one_has_no_admin() -> None:
    assert not OURS.joined and OURS.widest() == "admin"
    joined = replace(OURS, users={"worker:n2": "w", "watch": "x"})
    assert joined.joined and joined.widest() == "watch"
    assert not Fleet(url="tls://elsewhere").joined, "a server that asks for no password"


def test_the_key_of_sessions_is_made_once_and_kept(state_home: Path) -> None:
    places.save(OURS)
    key = places.session_key()
    assert key and places.session_key() == key and places.load() == replace(OURS, session_key=key)


def test_on_a_server_of_others_the_same_login_gives_the_same_key_and_nothing_is_stored(
    state_home: Path, tmp_path: Path
) -> None:
    by_password = Fleet(url="tls://me:pass@one:4222,tls://me:pass@two:4222", private=False)
    places.save(by_password)
    assert places.session_key() == places.from_secret("pass") and places.load() == by_password
    (tmp_path / "me.creds").write_text("signed\n")
    places.save(Fleet(url="tls://one", private=False, creds=os.fspath(tmp_path / "me.creds")))
    assert places.session_key() == places.from_secret("signed")


def test_what_is_changed_by_one_waits_for_the_other(state_home: Path) -> None:
    places.save(OURS)
    with places.changing() as held, pytest.raises(Busy):
        type(held)(os.path.join(places.root(), "users.lock"), 0).__enter__()
    with pytest.raises(NotFound) as refused:
        os.unlink(os.path.join(places.root(), "fleet.json"))
        places.load()
    assert refused.value.hint == "`treadle fleet up` makes one"


def test_the_widest_role_is_the_first_that_there_is() -> None:
    assert [replace(OURS, users={role: "x"}).widest() for role in ("admin", "submit", "watch", "worker:n")] == [
        "admin",
        "submit",
        "watch",
        "admin",
    ]
    address = replace(OURS, ca="ca.pem", creds="me.creds").address("admin")
    assert (address.url, address.ca, address.creds) == (OURS.url, "ca.pem", "me.creds")
