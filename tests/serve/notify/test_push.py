"""Web Push: what is sent can be read by its browser alone, and goes nowhere but to push services."""

import base64
import time

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.serve.conftest import Web
from tests.serve.receiver import receiving
from treadle.errors import ConfigError, LocalError
from treadle.serve.notify import notices
from treadle.serve.notify.notices import checked, encrypt, server_key, signed_header
from treadle.serve.tokens import PushKeys, PushSubscription, Tokens

SECRET = bytes(range(16))


def text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def data(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def public(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def browser(endpoint: str) -> tuple[ec.EllipticCurvePrivateKey, PushSubscription]:
    """A browser's own key, and the subscription that it gives away."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key, PushSubscription(endpoint=endpoint, keys=PushKeys(p256dh=text(public(key)), auth=text(SECRET)))


def read_by(key: ec.EllipticCurvePrivateKey, subscription: PushSubscription, body: bytes) -> bytes:
    """What a browser reads, step by step as RFC 8291 has it for the receiver."""
    salt, size, length = body[:16], int.from_bytes(body[16:20], "big"), body[20]
    sender, sealed = body[21 : 21 + length], body[21 + length :]
    assert size == 4096 and len(sealed) <= size
    shared = key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender))
    info = b"WebPush: info\x00" + public(key) + sender
    secret = HKDF(SHA256(), 32, data(subscription.keys.auth), info).derive(shared)
    content = HKDF(SHA256(), 16, salt, b"Content-Encoding: aes128gcm\x00").derive(secret)
    nonce = HKDF(SHA256(), 12, salt, b"Content-Encoding: nonce\x00").derive(secret)
    opened = AESGCM(content).decrypt(nonce, sealed, None)
    return opened.rstrip(b"\x00").removesuffix(b"\x02")


def test_the_browser_reads_what_was_sent_and_nobody_else_does() -> None:
    key, subscription = browser("https://fcm.googleapis.com/x")
    body = encrypt(subscription, b"who needs me?")
    assert read_by(key, subscription, body) == b"who needs me?" and b"needs" not in body
    other, _ = browser("https://fcm.googleapis.com/x")
    with pytest.raises(Exception):  # noqa: B017 - any kind of refusal is right
        read_by(other, subscription, body)


def test_the_example_of_the_standard_comes_out_byte_by_byte() -> None:
    """RFC 8291, section 5 and appendix A."""
    sender = ec.derive_private_key(
        int.from_bytes(data("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"), "big"), ec.SECP256R1()
    )
    keys = PushKeys(
        p256dh="BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        auth="BTBZMqHH6r4Tts7J_aSIgg",
    )
    subscription = PushSubscription(endpoint="https://fcm.googleapis.com/x", keys=keys)
    words = b"When I grow up, I want to be a watermelon"
    body = encrypt(subscription, words, salt=data("DGv6ra1nlYgDCS1FRnbzlw"), own=sender)
    assert text(body) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_"
        "yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )


def test_it_sends_nowhere_but_to_push_services() -> None:
    for good in ("https://fcm.googleapis.com/fcm/send/x", "https://web.push.apple.com/x"):
        checked(browser(good)[1])
    for bad in (
        "http://fcm.googleapis.com/x",
        "https://127.0.0.1:8222/",
        "https://fcm.googleapis.com.evil.example/",
        "https://evil.example/fcm.googleapis.com",
        "https://evilpush.apple.com@127.0.0.1/",
        "",
    ):
        with pytest.raises(ConfigError):
            checked(browser(bad)[1])
    _, good_keys = browser("https://fcm.googleapis.com/x")
    for wrong in (PushKeys(p256dh="AAAA", auth=text(SECRET)), PushKeys(p256dh=good_keys.keys.p256dh, auth="x")):
        with pytest.raises(ConfigError):
            checked(PushSubscription(endpoint=good_keys.endpoint, keys=wrong))


async def test_a_device_subscribes_gives_it_up_and_is_one_browser(alone: Web) -> None:
    shown = await alone.get("/push")
    assert len(data(shown["key"])) == 65 and shown["on"] is False
    assert (await alone.get("/push"))["key"] == shown["key"]
    _, subscription = browser("https://fcm.googleapis.com/send/x")
    body = {"endpoint": subscription.endpoint, "keys": {"p256dh": subscription.keys.p256dh, "auth": text(SECRET)}}
    first = alone.headers("watch")
    assert (await alone.http.put("/api/v1/push", json=body, headers=first)).status_code == 200
    assert (await alone.http.put("/api/v1/push", json=body)).status_code == 200
    told = [each for each in alone.server.site.tokens.read().devices if each.push is not None]
    assert [each.name for each in told] == ["test"], "a browser that signs in anew is not told twice"
    assert (await alone.get("/push"))["on"] is True
    assert (await alone.http.delete("/api/v1/push")).status_code == 200
    assert (await alone.get("/push"))["on"] is False
    refused = await alone.http.put("/api/v1/push", json={**body, "endpoint": "https://127.0.0.1/"})
    assert refused.status_code == 422


def test_the_keys_of_a_subscription_are_of_their_exact_length() -> None:
    _, good = browser("https://fcm.googleapis.com/x")
    assert checked(good) is good
    for keys, said in (
        (PushKeys(p256dh=good.keys.p256dh, auth=text(bytes(15))), "not of the right length"),
        (PushKeys(p256dh=text(bytes(64)), auth=good.keys.auth), "not of the right length"),
        (PushKeys(p256dh="é", auth=good.keys.auth), "cannot be read"),
    ):
        with pytest.raises(ConfigError, match=said):
            checked(PushSubscription(endpoint=good.endpoint, keys=keys))
    for host in ("a.push.services.mozilla.com", "db5p.notify.windows.com"):
        checked(browser(f"https://{host}/x")[1])
    with pytest.raises(ConfigError, match="this is not a push service"):
        checked(browser("https:///x")[1])


@pytest.mark.parametrize(
    ("address", "sender"),
    [("https://fleet.example", "https://fleet.example"), ("http://127.0.0.1:1", "mailto:treadle@localhost")],
)
def test_the_push_service_is_told_who_sends_for_half_a_day(address: str, sender: str) -> None:
    key = server_key(Tokens())
    header = signed_header(key, "https://push.example:8443/send/x?y", address)
    head, claims = (msgspec.json.decode(data(part)) for part in header.removeprefix("vapid t=").split(".")[:2])
    assert head == {"typ": "JWT", "alg": "ES256"} and claims["aud"] == "https://push.example:8443"
    assert claims["sub"] == sender and 0 < claims["exp"] - time.time() <= 12 * 3600
    assert header.endswith(f", k={text(public(key))}") and public(server_key(Tokens())) == public(key)


async def test_what_is_sent_says_how_long_it_is_news_and_a_service_that_fails_is_told(alone: Web) -> None:
    site = alone.server.site
    made, _ = site.tokens.make("phone", "answer")
    async with receiving() as service:
        site.tokens.set_push(made.id, browser(f"{service.url}/send")[1])
        (device,) = [each for each in site.tokens.read().devices if each.id == made.id]
        await notices.send(site, device, {"tag": "a" * 100}, seconds=5)
        await notices.send(site, device, {"tag": "a" * 100}, seconds=99.9)
        first, second = service.heard
        assert (first.headers["ttl"], second.headers["ttl"]) == ("60", "99")
        assert len(first.headers["topic"]) == 32 and first.headers["content-encoding"] == "aes128gcm"
        assert site.tokens.read().devices[-1].push is not None
        service.status = "500 Broken"
        with pytest.raises(LocalError, match="127.0.0.1 answered 500$"):
            await notices.send(site, device, {"tag": "x"}, seconds=5)
        service.status = "404 Not Found"
        await notices.send(site, device, {"tag": "x"}, seconds=5)
    assert site.tokens.read().devices[-1].push is None, "its browser has cancelled it"
