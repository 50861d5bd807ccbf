"""Keys: which ones are taken, which refuse to start, and how a set of them rotates."""

import asyncio
import datetime
import itertools
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from docgraph.auth.mechanisms.jwt import JwtMechanism
from docgraph.auth.mechanisms.sections import JwtAuthenticationMechanism
from docgraph.auth.tokens import jwks
from docgraph.auth.tokens.jwks import PAUSE, Algorithm, KeyRefused, KeySet, parse_keys
from docgraph.exchange import Exchange, Headers, Request, StartupError
from docgraph.exchange.errors import Overloaded
from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.observe.events import BackgroundFailed, ConfigWarning
from docgraph.plugins.kinds import Accepted, Outcome, Rejected
from docgraph.runtime import Blocking
from tests.clock import Clock
from tests.expect import present
from tests.unit.auth.forge import RSA_KEY, SECRET, encode, make_jwk, make_token, public_pem

RS256, HS256 = Algorithm.named("RS256"), Algorithm.named("HS256")
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CLAIMS = {"sub": "ada", "exp": 4_000_000_000}


class Source:
    """Where a key set comes from, and how often it was asked for."""

    def __init__(self, *entries: dict[str, str]) -> None:
        self.fetched = 0
        self.error: Exception | None = None
        self.put(*entries)

    def put(self, *entries: dict[str, str]) -> None:
        self.data = json.dumps({"keys": entries}).encode()

    async def __call__(self) -> bytes:
        self.fetched += 1
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        return self.data


@contextmanager
def listen(respond: Callable[..., Any]) -> Iterator[tuple[str, list[Any]]]:
    """A server on loopback; `respond(path)` gives status, headers and body. Yields its address."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            status, headers, body = respond(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self._drip(body) if not isinstance(body, bytes) else self.wfile.write(body)

        def _drip(self, pieces: Any) -> None:
            with suppress(ConnectionError):
                for piece in pieces:
                    self.wfile.write(piece)
                    time.sleep(0.01)

        def log_message(self, *_: str) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def events() -> Iterator[list[Any]]:
    seen = []

    def listen(event: Event) -> None:
        if isinstance(event, ConfigWarning | BackgroundFailed):
            seen.append(event)

    subscribe(listen)
    yield seen
    unsubscribe(listen)


@pytest.fixture
async def build(tmp_path: Path) -> AsyncIterator[Any]:
    blocking, built = Blocking(), []

    async def build_mechanism(**options: Any) -> JwtMechanism:
        mechanism = JwtMechanism(
            JwtAuthenticationMechanism(enabled=True, **options),
            blocking,
            configuration_directory=tmp_path,
        )
        built.append(mechanism)
        await mechanism.provision()
        return mechanism

    yield build_mechanism
    for one in built:
        await one.close()
    await blocking.close()


async def send(mechanism: JwtMechanism, token: str) -> Outcome:
    headers = Headers.of(authorization=f"Bearer {token}")
    return await mechanism.authenticate(Exchange(Request("GET", b"/", headers=headers), "1"))


def sign(key: rsa.RSAPrivateKey = RSA_KEY, **header: Any) -> str:
    return make_token(CLAIMS, key, "RS256", header=header)


def private_pem(key: rsa.RSAPrivateKey = RSA_KEY) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def certificate_pem(key: rsa.RSAPrivateKey = RSA_KEY) -> str:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")])
    begin = datetime.datetime(2020, 1, 1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


# --- the key of the configuration -----------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("make", [lambda: public_pem().decode(), certificate_pem])
async def test_rsa_key_is_pem_text_of_a_public_key_or_a_certificate(
    build: Callable[..., Any], make: Callable[..., Any]
) -> None:
    """Decision 31."""
    assert isinstance(await send(await build(algorithm="RS256", key=make()), sign()), Accepted)


@pytest.fixture
def pem_file(tmp_path: Path) -> str:
    (tmp_path / "issuer.pem").write_text(certificate_pem())
    return "issuer.pem"


@pytest.mark.anyio
async def test_rsa_key_may_be_a_file_beside_the_configuration(
    build: Callable[..., Any], pem_file: str
) -> None:
    """Decision 31."""
    assert isinstance(await send(await build(algorithm="RS256", key=pem_file), sign()), Accepted)


@pytest.mark.anyio
async def test_a_replaced_file_of_one_key_is_read_again_whatever_tokens_name(
    build: Callable[..., Any], pem_file: str, tmp_path: Path
) -> None:
    mechanism, token = await build(algorithm="RS256", key=pem_file), sign(kid="any")
    assert isinstance(await send(mechanism, token), Accepted)
    mechanism._keys._fetched = mechanism._keys._attempted = float("-inf")  # long ago
    await asyncio.to_thread((tmp_path / pem_file).write_text, "half of a ke")
    assert isinstance(await send(mechanism, token), Accepted)
    await present(mechanism._keys._refresh)
    assert isinstance(await send(mechanism, token), Accepted)

    await asyncio.to_thread((tmp_path / pem_file).write_text, certificate_pem(OTHER_KEY))
    await mechanism._keys.load()
    assert await send(mechanism, token) == Rejected("bad-signature")
    assert isinstance(await send(mechanism, sign(OTHER_KEY, kid="other")), Accepted)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "x" * 31}, "the secret has 31 bytes, HS256 needs 32"),
        ({"key": "x" * 47, "algorithm": "HMAC384"}, "the secret has 47 bytes, HS384 needs 48"),
        ({"key": "ä" * 31, "algorithm": "HS512"}, "the secret has 62 bytes, HS512 needs 64"),
        ({"key": public_pem().decode()}, "needs a secret"),
        ({"key": "secret.pem", "algorithm": "RS256"}, "neither PEM text nor the path"),
        ({"key": "a\x00b", "algorithm": "RS256"}, "neither PEM text nor the path"),
        ({"key": private_pem(), "algorithm": "RS256"}, "this is a private key"),
        (
            {"key": "-----BEGIN PUBLIC KEY-----\nrubbish", "algorithm": "RS256"},
            "not the PEM text",
        ),
        ({}, "set either 'key' or 'jwks'"),
        ({"key": SECRET, "jwks": "keys.json"}, "set either 'key' or 'jwks'"),
    ],
)
async def test_keys_that_cannot_be_used_stop_the_start(
    build: Callable[..., Any], options: dict[str, Any], message: str
) -> None:
    """A07, decision 31: the option is named, its value is not."""
    with pytest.raises(StartupError) as error:
        await build(**options)
    assert error.value.message.startswith("/jwtAuthenticationMechanism/key: ")
    assert message in error.value.message
    assert "secret.pem" not in f"{error.value}{error.value.hint}"


@pytest.mark.anyio
async def test_weak_secret_is_taken_when_that_is_allowed(build: Callable[..., Any]) -> None:
    mechanism = await build(key="weak", allow_weak_key=True)
    assert isinstance(await send(mechanism, make_token(CLAIMS, "weak")), Accepted)


def test_rsa_keys_below_2048_bits_are_refused_even_so() -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505
    with pytest.raises(KeyRefused, match="1024 bits"):
        Algorithm.named("RS256", allow_weak_key=True).load_pem(public_pem(key))


def test_keys_of_other_families_are_refused() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    with pytest.raises(KeyRefused, match="needs an RSA key"):
        RS256.load_pem(public_pem(key))


# --- the keys of a set ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entry",
    [
        make_jwk(),
        make_jwk(use="sig", alg="RS256", kid="1"),
        make_jwk(key_ops=["verify"], unknown="field"),
        make_jwk(d="private", p="parts", q="are not looked at"),
    ],
)
def test_fitting_entries_are_taken(entry: dict[str, Any]) -> None:
    assert len(parse_keys(json.dumps({"keys": [entry]}).encode(), RS256).all) == 1


@pytest.mark.parametrize(
    "entry",
    [
        make_jwk(use="enc"),
        make_jwk(use=None),
        make_jwk(alg="RS512"),
        make_jwk(alg="PS256"),
        make_jwk(key_ops=["encrypt"]),
        make_jwk(key_ops="verify"),
        make_jwk(kty="oct", k=encode(b"k" * 32)),
        make_jwk(kty="EC"),
        make_jwk(kty=["RSA"]),
        make_jwk(n="!!"),
        make_jwk(n="A"),
        make_jwk(n=""),
        make_jwk(n=7),
        make_jwk(e="AA"),
        make_jwk(e=encode(b"\xff" * 9)),
        make_jwk(n=encode(b"\xff" * 64)),
        make_jwk(n=encode(b"\xff" * 4096)),
        {},
        [],
        None,
        "RSA",
    ],
)
def test_other_entries_are_left_out(entry: dict[str, Any] | list[Any] | str | None) -> None:
    """Only keys that fit the algorithm and are meant for signatures."""
    data = json.dumps({"keys": [entry, make_jwk()]}).encode()
    assert len(parse_keys(data, RS256).all) == 1


def test_secrets_of_a_set_are_as_long_as_their_hash() -> None:
    entries = [{"kty": "oct", "k": encode(b"k" * size)} for size in (31, 32)]
    assert parse_keys(json.dumps({"keys": entries}).encode(), HS256).all == (b"k" * 32,)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="broken"),
        pytest.param(b"\xff", id="not UTF-8"),
        pytest.param(b"[]", id="list"),
        pytest.param(b"{}", id="no keys"),
        pytest.param(b'{"keys": {}}', id="keys no list"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(json.dumps({"keys": [{}] * 65}).encode(), id="too many"),
    ],
)
def test_what_is_no_key_set_is_refused(data: bytes) -> None:
    with pytest.raises(KeyRefused):
        parse_keys(data, RS256)


@pytest.mark.anyio
async def test_key_is_found_by_its_name_and_all_without_one() -> None:
    keys = KeySet(Source(make_jwk(kid="a"), make_jwk(OTHER_KEY, kid="b")), RS256, max_age=300)
    await keys.load()
    assert len(await keys.find("a")) == 1
    assert await keys.find("a") != await keys.find("b")
    assert len(await keys.find(None)) == 2


@pytest.mark.anyio
async def test_unknown_name_fetches_the_set_again() -> None:
    """Rotation: the issuer signs with a key that we have not seen yet."""
    clock, source = Clock(), Source(make_jwk(kid="old"))
    keys = KeySet(source, RS256, max_age=300, clock=clock)
    await keys.load()
    source.put(make_jwk(kid="old"), make_jwk(OTHER_KEY, kid="new"))
    clock.now += PAUSE
    assert len(await keys.find("new")) == 1
    assert keys.version == 2


@pytest.mark.anyio
async def test_flood_of_unknown_names_fetches_once_per_pause() -> None:
    clock, source = Clock(), Source(make_jwk(kid="old"))
    keys = KeySet(source, RS256, max_age=300, clock=clock)
    await keys.load()
    for _ in range(5):
        clock.now += PAUSE
        found = await asyncio.gather(*(keys.find(f"x{n}") for n in range(200)))
        assert not any(found)
    assert source.fetched == 1 + 5
    assert keys.version == 1


@pytest.mark.anyio
async def test_old_set_is_fetched_again_while_it_is_used() -> None:
    """A key that the issuer took back ends within the age of a set."""
    clock, source = Clock(), Source(make_jwk(kid="a"))
    keys = KeySet(source, RS256, max_age=300, clock=clock)
    await keys.load()
    source.put(make_jwk(OTHER_KEY, kid="b"))
    clock.now += 301
    assert len(await keys.find("a")) == 1  # nobody waits for the new set
    await present(keys._refresh)
    assert not await keys.find("a")


@pytest.mark.anyio
async def test_set_that_cannot_be_fetched_leaves_the_old_one_in_force(
    events: list[BackgroundFailed],
) -> None:
    clock, source = Clock(), Source(make_jwk(kid="a"))
    keys = KeySet(source, RS256, max_age=300, clock=clock)
    await keys.load()
    source.error = OSError("no route to host")
    clock.now += 301
    assert not await keys.find("b")
    assert len(await keys.find("a")) == 1
    assert [type(one) for one in events] == [BackgroundFailed]


@pytest.mark.anyio
async def test_without_any_set_the_answer_is_not_a_refusal(events: list[BackgroundFailed]) -> None:
    """Nobody can say whether the token is good: 503, not 401."""
    clock, source = Clock(), Source(make_jwk(kid="a"))
    source.error = OSError("no route to host")
    keys = KeySet(source, RS256, max_age=300, clock=clock)
    for _ in range(3):
        with pytest.raises(Overloaded):
            await keys.find("a")
    assert source.fetched == 1
    source.error = None
    clock.now += PAUSE
    assert len(await keys.find("a")) == 1


@pytest.mark.anyio
async def test_fetch_under_way_ends_with_the_mechanism() -> None:
    async def never() -> bytes:
        await asyncio.Event().wait()
        return b""

    keys = KeySet(never, RS256, max_age=300)
    keys.keep_fresh()
    await asyncio.sleep(0)
    await keys.close()


# --- the mechanism with a set ---------------------------------------------------------------------


@pytest.fixture
def jwks_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [make_jwk(kid="a")]}))
    return path


@pytest.mark.anyio
async def test_set_in_a_file_beside_the_configuration(
    build: Callable[..., Any], jwks_file: Path
) -> None:
    mechanism = await build(algorithm="RS256", jwks="keys.json")
    assert isinstance(await send(mechanism, sign(kid="a")), Accepted)
    assert isinstance(await send(mechanism, sign()), Accepted)
    assert await send(mechanism, sign(kid="b")) == Rejected("unknown-key")
    assert await send(mechanism, sign(OTHER_KEY, kid="a")) == Rejected("bad-signature")


@pytest.mark.anyio
@pytest.mark.parametrize("kid", ["../../dev/null", "' OR 1=1 --", '{"$ne": null}', "", "a\x00"])
async def test_strange_names_of_keys_are_only_unknown(
    build: Callable[..., Any], jwks_file: Path, kid: str
) -> None:
    """J31, J32."""
    mechanism = await build(algorithm="RS256", jwks="keys.json")
    assert await send(mechanism, sign(kid=kid)) == Rejected("unknown-key")


@pytest.mark.anyio
async def test_remembered_tokens_end_with_their_key(
    build: Callable[..., Any], jwks_file: Path
) -> None:
    mechanism, token = await build(algorithm="RS256", jwks="keys.json"), sign(kid="a")
    assert isinstance(await send(mechanism, token), Accepted)
    await asyncio.to_thread(jwks_file.write_text, json.dumps({"keys": [make_jwk(OTHER_KEY)]}))
    await mechanism._keys.load()
    assert await send(mechanism, token) == Rejected("unknown-key")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        ("{", "not JSON"),
        ('{"keys": []}', "no key fits RS256"),
        ('{"keys": [{"kty": "EC"}]}', "no key fits RS256"),
    ],
)
async def test_file_without_usable_keys_stops_the_start(
    build: Callable[..., Any], tmp_path: Path, content: str | None, message: str
) -> None:
    if content is not None:
        await asyncio.to_thread((tmp_path / "set.json").write_text, content)
    with pytest.raises(StartupError, match=f"/jwtAuthenticationMechanism/jwks: .*{message}"):
        await build(algorithm="RS256", jwks="set.json")


@pytest.fixture
def issuer() -> Iterator[tuple[str, list[Any], list[dict[str, Any]]]]:
    """An issuer whose key set is at `/keys`."""
    keys = [make_jwk(kid="a")]

    def respond(path: str) -> tuple[int, dict[str, Any], bytes]:
        if path == "/keys":
            return 200, {}, json.dumps({"keys": keys}).encode()
        return 404, {}, b""

    with listen(respond) as (address, seen):
        yield address, seen, keys


@pytest.mark.anyio
async def test_set_at_an_address_is_fetched_and_rotates(
    build: Callable[..., Any], issuer: tuple[Any, ...]
) -> None:
    address, seen, keys = issuer
    mechanism = await build(algorithm="RS256", jwks=f"{address}/keys")
    assert isinstance(await send(mechanism, sign(kid="a")), Accepted)
    keys[:] = [make_jwk(OTHER_KEY, kid="b")]
    mechanism._keys._attempted -= PAUSE
    assert isinstance(await send(mechanism, sign(OTHER_KEY, kid="b")), Accepted)
    assert await send(mechanism, sign(kid="a")) == Rejected("unknown-key")
    assert seen == ["/keys", "/keys"]


@pytest.mark.anyio
@pytest.mark.parametrize("field", ["jku", "x5u"])
@pytest.mark.parametrize("options", [{"key": SECRET}, {"algorithm": "RS256", "jwks": "keys.json"}])
async def test_addresses_in_tokens_are_never_visited(
    build: Callable[..., Any],
    issuer: tuple[str, list[Any], list[dict[str, Any]]],
    jwks_file: Path,
    field: str,
    options: dict[str, str],
) -> None:
    """J28, J29: 0 connections."""
    address, seen, _ = issuer
    mechanism = await build(**options)
    for kid in ("a", "b"):
        token = sign(OTHER_KEY, kid=kid, **{field: f"{address}/keys"})
        assert isinstance(await send(mechanism, token), Rejected)
    assert seen == []


@pytest.mark.anyio
async def test_issuer_that_is_away_does_not_keep_the_server_from_starting(
    build: Callable[..., Any], events: list[Any]
) -> None:
    mechanism = await build(algorithm="RS256", jwks="http://127.0.0.1:9/keys")
    with pytest.raises(Overloaded):
        await send(mechanism, sign(kid="a"))
    assert isinstance(events[0], BackgroundFailed)


@pytest.mark.anyio
async def test_keys_that_travel_unprotected_are_warned_of(
    build: Callable[..., Any], events: list[ConfigWarning], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks, "fetch", lambda address: b'{"keys": []}')
    await build(algorithm="RS256", jwks="http://issuer.example/keys")
    await build(algorithm="RS256", jwks="https://issuer.example/keys")
    assert [one.path for one in events] == ["/jwtAuthenticationMechanism/jwks"]


@pytest.mark.parametrize(
    ("address", "plain"),
    [
        ("https://issuer.example/keys", False),
        ("http://127.0.0.1:80/keys", False),
        ("http://localhost/keys", False),
        ("http://issuer.example/keys", True),
    ],
)
def test_plain_addresses_are_told_from_protected_ones(address: str, plain: bool) -> None:
    assert jwks.is_address(address)
    assert jwks.is_plain_address(address) is plain


@pytest.mark.parametrize("path", ["keys.json", "/etc/keys.json", "file:///etc/passwd", "ftp://x/y"])
def test_everything_else_is_a_path(path: str) -> None:
    """No other protocol is spoken: `file:` is an odd name of a file, not an address."""
    assert not jwks.is_address(path)


@pytest.mark.parametrize(
    "respond",
    [
        lambda path: (404, {}, b""),
        lambda path: (500, {}, b"{}"),
        lambda path: (302, {"Location": "/other"}, b""),
        lambda path: (301, {"Location": "file:///etc/passwd"}, b""),
        lambda path: (200, {}, b"x" * (jwks.MAX_BYTES + 1)),
    ],
    ids=["404", "500", "302", "301", "too large"],
)
def test_answers_that_are_no_key_set_are_refused(respond: Callable[..., Any]) -> None:
    with listen(respond) as (address, seen):
        with pytest.raises((URLError, ValueError)):
            jwks.fetch(f"{address}/keys")
        assert seen == ["/keys"]


def test_dripping_answer_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is on the whole answer, not on each piece of it."""
    ticks = itertools.count()
    monkeypatch.setattr(jwks, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    pieces = itertools.repeat(b" ")
    with listen(lambda path: (200, {}, pieces)) as (address, _), pytest.raises(TimeoutError):
        jwks.fetch(f"{address}/keys")
