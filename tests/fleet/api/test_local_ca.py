"""A certificate by this machine's own authority: a browser that trusts the authority trusts the server, and no more."""

import asyncio
import os
import ssl
from pathlib import Path

import httpx2
import pytest
from cryptography import x509

from tests.fleet.api.conftest import StartWeb
from treadle.errors import TreadleError
from treadle.fleet.api.local_ca import ensure
from treadle.fleet.api.serve import Listening


async def test_who_trusts_the_authority_trusts_the_server_and_its_page_explains_it(
    serving: StartWeb, tmp_path: Path
) -> None:
    options = {"host": "127.0.0.1", "local_ca": True, "names": ("fleet.example",)}
    authority = ensure({"127.0.0.1", "::1", "localhost", "fleet.example"})
    web = await serving(terminals=str(tmp_path), listening=options, authority=authority)
    assert web.address.startswith("https://fleet.example:")
    address = f"https://127.0.0.1:{web.listening.port}"
    trusting = ssl.create_default_context(cadata=authority.authority)
    async with httpx2.AsyncClient(base_url=address, verify=trusting, timeout=60, trust_env=False) as phone:
        shown = await phone.get("/ca")
        assert authority.fingerprint in shown.text and "iPhone" in shown.text
        assert (await phone.get("/ca.crt")).content == authority.authority
    async with httpx2.AsyncClient(base_url=address, timeout=60, trust_env=False) as stranger:
        with pytest.raises(httpx2.ConnectError):
            await stranger.get("/ca")


def test_the_authority_stays_while_the_names_do_and_is_good_for_no_other() -> None:
    first = ensure(["192.168.1.5", "fleet.example"])
    again = ensure(["192.168.1.5"])
    assert again.fingerprint == first.fingerprint
    assert os.stat(again.key).st_mode & 0o077 == 0
    kept = x509.load_der_x509_certificate(first.authority)
    limits = kept.extensions.get_extension_for_class(x509.NameConstraints)
    assert limits.critical and {str(each.value) for each in limits.value.permitted_subtrees or ()} == {
        "192.168.1.5/32",
        "fleet.example",
    }
    assert ensure(["other.example"]).fingerprint != first.fingerprint


async def test_a_server_without_one_says_so(serving: StartWeb, tmp_path: Path) -> None:
    web = await serving(terminals=str(tmp_path))
    for path in ("/ca", "/ca.crt"):
        response = await web.http.get(path)
        assert response.status_code == 404 and "--local-ca" in response.text
    with pytest.raises(TreadleError, match="--local-ca"):
        await asyncio.to_thread(Listening, host="0.0.0.0", port=0)
