"""The JWT matrix (reliability 2.7.1) and decision 31, row by row."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, cast

import pytest

from docgraph.auth.mechanisms.jwt import JwtMechanism
from docgraph.auth.mechanisms.sections import JwtAuthenticationMechanism
from docgraph.auth.tokens.revocation import Revocations
from docgraph.exchange import Account, Exchange, Headers, Request
from docgraph.plugins.kinds import ABSENT, Accepted, Rejected
from docgraph.runtime import Blocking
from tests.unit.auth.forge import (
    OMIT,
    RSA_KEY,
    SECRET,
    Omit,
    decode,
    encode,
    make_jwk,
    make_token,
    public_der,
    public_pem,
)

pytestmark = pytest.mark.anyio

C1 = {"key": SECRET, "issuer": "us", "audience": "api"}
C2 = {"algorithm": "RS256", "key": public_pem().decode(), "issuer": "us", "audience": "api"}
C3 = {"key": SECRET}
C4 = {"key": SECRET, "issuer": "us", "audience": ("api", "shop")}

NO_CLAIMS: list[Any] = [[], "text", 1, None, b"", b"{", b"not json", b"{}x"]


class Revoked(Revocations):
    """The provider `token-revocations`."""

    def __init__(self) -> None:
        self.revoked: set[str | None] = set()
        self.asked: list[Any] = []

    def is_revoked(self, jti: str | None, user: str | None, issued_at: float | None) -> bool:
        self.asked.append((jti, user, issued_at))
        return jti in self.revoked or user in self.revoked


@pytest.fixture
async def build() -> AsyncIterator[Any]:
    blocking, built = Blocking(), []

    async def build_mechanism(revocations: Revoked | None = None, **options: Any) -> JwtMechanism:
        mechanism = JwtMechanism(
            JwtAuthenticationMechanism(enabled=True, **options),
            blocking,
            token_revocations=cast(Revocations | None, revocations),
        )
        built.append(mechanism)
        await mechanism.provision()
        mechanism.validate()
        return mechanism

    yield build_mechanism
    for one in built:
        await one.close()
    await blocking.close()


def make_exchange(*values: str) -> Exchange:
    headers = Headers([(b"authorization", value.encode("latin-1")) for value in values])
    return Exchange(Request("GET", b"/", headers=headers), "1")


async def send(mechanism: JwtMechanism, token: str) -> Any:
    return await mechanism.authenticate(make_exchange(f"Bearer {token}"))


def now() -> int:
    return int(time.time())


def claims(**changes: Any) -> dict[str, Any]:
    """Good claims with some changed; OMIT leaves one out."""
    good = {"sub": "ada", "roles": ["user"], "iss": "us", "aud": "api", "exp": now() + 600}
    return {name: value for name, value in (good | changes).items() if value is not OMIT}


def hs(header: dict[str, Any] | None = None, **changes: Any) -> str:
    return make_token(claims(**changes), header=header)


def rs(header: dict[str, Any] | None = None, algorithm: str = "RS256", **changes: Any) -> str:
    return make_token(claims(**changes), RSA_KEY, algorithm, header=header)


def flip(token: str, place: int) -> str:
    """One bit of the signature changed."""
    head, _, signature = token.rpartition(".")
    data = bytearray(decode(signature))
    data[place] ^= 1
    return f"{head}.{encode(bytes(data))}"


def respell(token: str) -> str:
    """The last character changed in bits that are not decoded."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return token[:-1] + alphabet[alphabet.index(token[-1]) ^ 1]


def swap(token: str, segment: int, value: dict[str, Any] | str) -> str:
    """Another header (0), payload (1) or signature (2) under the old signature."""
    parts = token.split(".")
    parts[segment] = value if isinstance(value, str) else encode(value)
    return ".".join(parts)


def unsigned(alg: str) -> str:
    return f"{encode({'alg': alg, 'typ': 'JWT'})}.{encode(claims())}."


def raw(payload: Any) -> str:
    return make_token(payload)


def timed(text: str) -> str:
    """Claims whose `exp` is spelled as no JSON library would."""
    head = json.dumps(claims(exp=OMIT))[:-1]
    return raw(f'{head}, "exp": {text}}}'.encode())


ACCEPTED = [
    ("J01", C1, hs),
    ("J02", C2, rs),
    ("J03", C1, lambda: hs(aud=["other", "api"])),
    ("J03", C4, lambda: hs(aud="shop")),
    ("J03", C4, lambda: hs(aud=["shop", "x"])),
    ("J04", C3, lambda: hs(iss=OMIT, aud=OMIT)),
    ("J04", C3, lambda: hs(iss=["x"], aud=7)),
    ("J27 key in the header is not looked at", C2, lambda: rs({"jwk": make_jwk(), "jku": "x"})),
    ("J31 name of the key is not looked at", C1, lambda: hs({"kid": "../../dev/null"})),
    ("J35 typ at+jwt", C1, lambda: hs({"typ": "application/at+JWT"})),
    ("J35 without typ", C1, lambda: hs({"typ": OMIT})),
    ("J36 within the leeway", C1, lambda: hs(exp=now() - 20)),
    ("J38 fraction", C1, lambda: hs(exp=now() + 60.5)),
    ("J39 within the leeway", C1, lambda: hs(nbf=now() + 20)),
    ("J40 within the leeway", C1, lambda: hs(iat=now() + 20)),
]

REFUSED = [
    *(
        (f"J05-08 {alg}", C1, lambda alg=alg: unsigned(alg))
        for alg in "none None NONE nOnE".split()
    ),
    *(
        (f"J05-08 {alg} signed", C1, lambda alg=alg: hs({"alg": alg}))
        for alg in "none None NONE nOnE".split()
    ),
    ("J09", C1, lambda: hs({"alg": OMIT})),
    *(
        (f"J10 {alg!r}", C1, lambda alg=alg: hs({"alg": alg}))
        for alg in (None, 256, ["HS256"], {"HS256": 1}, True, "", "hs256", "HMAC256")
    ),
    ("J11", C1, lambda: make_token(claims(), algorithm="HS384")),
    ("J12", C1, lambda: make_token(claims(), algorithm="HS512")),
    ("J12 says HS256", C1, lambda: make_token(claims(), header={"alg": "HS512"})),
    ("J13", C2, lambda: make_token(claims(), public_pem())),
    ("J13 says RS256", C2, lambda: make_token(claims(), public_pem(), header={"alg": "RS256"})),
    ("J14", C2, lambda: make_token(claims(), public_pem().rstrip())),
    ("J15", C2, lambda: make_token(claims(), public_der())),
    *(
        (f"J16 {alg}", C2, lambda alg=alg: rs({"alg": alg}))
        for alg in ("ES256", "PS256", "EdDSA", "RS384")
    ),
    ("J16 PS256 says RS256", C2, lambda: rs({"alg": "RS256"}, algorithm="PS256")),
    ("J16 RS512 says RS256", C2, lambda: rs({"alg": "RS256"}, algorithm="RS512")),
    ("J17", C1, lambda: hs().rpartition(".")[0] + "."),
    ("J17 RSA", C2, lambda: rs().rpartition(".")[0] + "."),
    ("J18", C1, lambda: hs().rpartition(".")[0]),
    ("J18 one", C1, lambda: hs().partition(".")[0]),
    ("J19 four", C1, lambda: hs() + ".x"),
    ("J19 five", C1, lambda: hs() + ".x.y"),
    ("J19 empty", C1, lambda: hs() + "."),
    ("J19 dots", C1, lambda: ".."),
    *((f"J20 bit {n}", C1, lambda n=n: flip(hs(), n)) for n in (0, 15, 31, -1)),
    *((f"J20 RSA bit {n}", C2, lambda n=n: flip(rs(), n)) for n in (0, 127, 255)),
    ("J20 respelled", C1, lambda: respell(hs())),
    ("J21", C1, lambda: swap(hs(), 1, claims(sub="root"))),
    ("J22", C1, lambda: swap(hs(), 0, {"alg": "HS256", "typ": "JWT", "x": 1})),
    ("J23", C1, lambda: swap(hs(), 2, hs(sub="bob").rpartition(".")[2])),
    ("J24", C1, lambda: make_token(claims(), "x" * 64)),
    ("J24 prefix", C1, lambda: make_token(claims(), SECRET[:32])),
    ("J25", C1, lambda: make_token(claims(), "")),
    ("J25 RSA", C2, lambda: make_token(claims(), "", header={"alg": "RS256"})),
    ("J27", C1, lambda: make_token(claims(), b"k", header={"jwk": {"kty": "oct", "k": "aw"}})),
    ("J30", C2, lambda: make_token(claims(), "x", header={"alg": "RS256", "x5c": ["x"]})),
    ("J32 not text", C1, lambda: hs({"kid": {"$ne": None}})),
    ("J33", C1, lambda: hs({"crit": ["x"], "x": 1})),
    ("J33 exp", C1, lambda: hs({"crit": ["exp"], "exp": 1})),
    ("J33 empty", C1, lambda: hs({"crit": []})),
    ("J33 text", C1, lambda: hs({"crit": "b64"})),
    ("J34", C1, lambda: hs({"b64": False})),
    ("J34 crit", C1, lambda: hs({"b64": False, "crit": ["b64"]})),
    ("J34 true", C1, lambda: hs({"b64": True, "crit": ["b64"]})),
    *(
        (f"J35 typ {typ!r}", C1, lambda typ=typ: hs({"typ": typ}))
        for typ in ("JOSE", "dpop+jwt", "logout+jwt", "", None, 1, ["JWT"])
    ),
    *(
        (f"J35 cty {cty!r}", C1, lambda cty=cty: hs({"cty": cty}))
        for cty in ("JWT", "application/jwt", None, 1)
    ),
    ("J35 nested", C1, lambda: make_token(hs().encode(), header={"cty": "JWT"})),
    ("J35 zip", C1, lambda: hs({"zip": "DEF"})),
    ("J36", C1, lambda: hs(exp=now() - 40)),
    ("J36 long ago", C1, lambda: hs(exp=0)),
    ("J37", C1, lambda: hs(exp=OMIT)),
    *(
        (f"J38 {exp!r}", C1, lambda exp=exp: hs(exp=exp))
        for exp in (str(2**31), "1e12", None, -1, True, False, [2**31], {"a": 1}, 2**80, 10**12)
    ),
    *(
        (f"J38 {text}", C1, lambda text=text: timed(text))
        for text in ("NaN", "Infinity", "1e400", "1e30", "9" * 400, "0x7fffffff", "2147483648.")
    ),
    ("J39", C1, lambda: hs(nbf=now() + 60)),
    ("J39 text", C1, lambda: hs(nbf="0")),
    ("J39 bool", C1, lambda: hs(nbf=True)),
    ("J40", C1, lambda: hs(iat=now() + 60)),
    ("J40 text", C1, lambda: hs(iat="0")),
    ("J40 null", C1, lambda: hs(iat=None)),
    *(
        (f"J41 {iss!r}", C1, lambda iss=iss: hs(iss=iss))
        for iss in ("them", OMIT, ["us"], "u", "us2", "US", None, 1, {"us": 1}, "")
    ),
    *(
        (f"J42 {aud!r}", C1, lambda aud=aud: hs(aud=aud))
        for aud in ("x", OMIT, "", [], "ap", "apis", "API", ["x"], None, 1, {"api": 1}, ["api", 1])
    ),
    *(
        (f"J43 {sub!r}", C1, lambda sub=sub: hs(sub=sub))
        for sub in (OMIT, "", 1, {"$ne": 1}, ["ada"], None, True, "a\nb", "a\x00b")
    ),
    *(
        (f"J44 {roles!r}", C1, lambda roles=roles: hs(roles=roles))
        for roles in ("admin", {"admin": 1}, 1, True, [["admin"]], [{"a": 1}], ["user", 1], [None])
    ),
    ("J45 many roles", C1, lambda: hs(roles=["r"] * 100_000)),
    ("J45 long role", C1, lambda: hs(roles=["r" * 1_000_000])),
    *(
        (f"J47 {size}", C1, lambda size=size: hs(x="x" * size))
        for size in (8 << 10, 64 << 10, 1 << 20)
    ),
    ("J47 rubbish", C1, lambda: "a" * (1 << 20)),
    ("J48 array", C1, lambda: raw([claims()])),
    *((f"J48 {payload!r}", C1, partial(raw, payload)) for payload in NO_CLAIMS),
    ("J49 space", C1, lambda: hs()[:10] + " " + hs()[10:]),
    ("J49 padding", C1, lambda: hs() + "="),
    ("J49 padding inside", C1, lambda: hs().replace(".", "=.")),
    ("J49 other alphabet", C1, lambda: swap(hs(), 2, "+/+/" + hs().rpartition(".")[2][4:])),
    ("J49 odd length", C1, lambda: swap(hs(), 2, "A" * 41)),
    ("J49 not ASCII", C1, lambda: hs()[:-1] + "é"),
    ("J50", C1, lambda: raw(b'{"sub": "\xff"}')),
    ("J50 header", C1, lambda: make_token(claims(), raw_header=b'{"alg": "HS256", "x": "\xff"}')),
    ("J51", C1, lambda: raw(json.dumps(claims())[:-1].encode() + b', "x":' + b"[" * 10_000)),
    ("J51 small", C1, lambda: hs(x=json.loads("[" * 900 + "]" * 900))),
    ("J51 cut", C1, lambda: raw(b'{"x":' + b"[" * 3000 + b"]" * 3000 + b"}")),
]


@pytest.mark.parametrize(
    ("options", "make"), [row[1:] for row in ACCEPTED], ids=[r[0] for r in ACCEPTED]
)
async def test_good_tokens_are_accepted(
    build: Callable[..., Any], options: dict[str, Any], make: Callable[..., Any]
) -> None:
    """Decision 31; the controls of the matrix."""
    outcome = await send(await build(**options), make())
    assert isinstance(outcome, Accepted)
    assert (outcome.account.name, outcome.account.roles) == ("ada", ("user",))


@pytest.mark.parametrize(
    ("options", "make"), [row[1:] for row in REFUSED], ids=[r[0] for r in REFUSED]
)
async def test_bad_tokens_are_refused_at_once(
    build: Callable[..., Any], options: dict[str, str], make: Callable[..., Any]
) -> None:
    """Decision 31; J05 to J51: refused, never an error, within 50 ms."""
    mechanism, token = await build(**options), make()
    started = time.process_time()
    outcome = await send(mechanism, token)
    assert isinstance(outcome, Rejected)
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("values", "accepted"),
    [
        (lambda token: [f"bearer {token}"], True),
        (lambda token: [f"BEARER   {token}"], True),
        (lambda token: [f"Bearer\t{token}"], False),
        (lambda token: [f"Bearer \t{token}"], False),
        (lambda token: [f"Bearer {token} {token}"], False),
        (lambda token: [f"Bearer {token},{token}"], False),
        (lambda token: [f"Bearer {token}", f"Bearer {token}"], False),
        (lambda token: [f"Bearer {token}", "Basic YTpi"], False),
        (lambda token: [f"Bearer{token}"], False),
        (lambda token: [f"Token {token}"], False),
        (lambda token: [token], False),
        (lambda token: ["Bearer"], False),
        (lambda token: [f'Bearer "{token}"'], False),
    ],
)
async def test_there_is_one_reading_of_the_header(
    build: Callable[..., Any], values: Callable[..., Any], accepted: bool
) -> None:
    """J52."""
    outcome = await (await build(**C1)).authenticate(make_exchange(*values(hs())))
    assert isinstance(outcome, Accepted) is accepted


async def test_no_token_is_absent(build: Callable[..., Any]) -> None:
    assert await (await build(**C1)).authenticate(make_exchange()) is ABSENT
    assert await (await build(**C1)).authenticate(make_exchange("Basic YTpi")) is ABSENT


async def test_account_carries_the_claims(build: Callable[..., Any]) -> None:
    """`@user` shows the claims of a token (decision 19)."""
    outcome = await send(await build(**C3), hs(team={"name": "blue"}))
    account = outcome.account
    assert account.kind == "jwt"
    assert account.properties["sub"] == "ada"
    assert account.properties["team"] == {"name": "blue"}


@pytest.mark.parametrize(
    ("options", "changes", "roles"),
    [
        ({}, {"roles": OMIT}, ()),
        ({}, {"roles": None}, ()),
        ({}, {"roles": []}, ()),
        ({}, {"roles": ["b", "a", "b"]}, ("b", "a")),
        ({}, {"roles": ["$authenticated", "$unauthenticated", "a"]}, ("a",)),
        ({"roles_claim": "groups"}, {"groups": ["g"]}, ("g",)),
        ({"fixed_roles": ("fixed",)}, {"roles": ["admin"]}, ("fixed",)),
        ({"fixed_roles": ("fixed",)}, {"roles": 7}, ("fixed",)),
        ({"fixed_roles": ()}, {"roles": ["a"]}, ("a",)),
    ],
)
async def test_roles_come_from_the_claim_or_are_fixed(
    build: Callable[..., Any],
    options: dict[str, Any],
    changes: dict[str, Any],
    roles: tuple[str, ...],
) -> None:
    """Decision 31: `rolesClaim` yields when `fixedRoles` is set; J44."""
    outcome = await send(await build(**C3, **options), hs(**changes))
    assert outcome.account.roles == roles


async def test_user_comes_from_the_configured_claim(build: Callable[..., Any]) -> None:
    mechanism = await build(**C3, username_claim="email")
    assert (await send(mechanism, hs(email="a@b.c"))).account.name == "a@b.c"
    assert await send(mechanism, hs()) == Rejected("bad-claims")


async def test_tokens_without_end_are_accepted_where_that_is_allowed(
    build: Callable[..., Any],
) -> None:
    """J37: `require-exp`."""
    mechanism = await build(**C3, require_exp=False)
    assert isinstance(await send(mechanism, hs(exp=OMIT)), Accepted)
    assert await send(mechanism, hs(exp="never")) == Rejected("bad-claims")


async def test_the_log_names_a_missing_end(build: Callable[..., Any]) -> None:
    """Decision 71."""
    assert await send(await build(**C3), hs(exp=OMIT)) == Rejected("missing-exp")


async def test_leeway_is_configurable(build: Callable[..., Any]) -> None:
    token = hs(exp=now() - 5)
    assert await send(await build(**C3, leeway=0), token) == Rejected("expired-token")
    assert isinstance(await send(await build(**C3, leeway=60), token), Accepted)


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512", "HMAC256", "HMAC384", "HMAC512"])
async def test_hmac_has_two_spellings(build: Callable[..., Any], algorithm: str) -> None:
    name = algorithm.replace("HMAC", "HS")
    mechanism = await build(key=SECRET, algorithm=algorithm)
    assert isinstance(await send(mechanism, make_token(claims(), algorithm=name)), Accepted)


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "RSA256", "RSA384", "RSA512"])
async def test_rsa_has_two_spellings(build: Callable[..., Any], algorithm: str) -> None:
    name = algorithm.replace("RSA", "RS")
    mechanism = await build(key=public_pem().decode(), algorithm=algorithm)
    assert isinstance(await send(mechanism, rs(algorithm=name)), Accepted)


@pytest.mark.parametrize("padded", [True, False])
async def test_whole_token_may_be_base64_once_more(build: Callable[..., Any], padded: bool) -> None:
    """Decision 31: `base64Encoded`."""
    mechanism = await build(**C1, base64_encoded=True)
    wrapped = base64.b64encode(hs().encode()).decode()
    assert isinstance(await send(mechanism, wrapped if padded else wrapped.rstrip("=")), Accepted)


@pytest.mark.parametrize(
    "make", [hs, lambda: "x", lambda: "====", lambda: encode(b"\xff\xff"), lambda: "A" * (1 << 20)]
)
async def test_what_is_not_base64_of_a_token_is_refused(
    build: Callable[..., Any], make: Callable[..., Any]
) -> None:
    """W19: never an error."""
    assert isinstance(await send(await build(**C1, base64_encoded=True), make()), Rejected)


async def test_hundred_weak_secrets_do_not_fit(build: Callable[..., Any]) -> None:
    """J26, from the other side: none of them is accepted."""
    mechanism = await build(**C1)
    weak = ["secret", "password", "docgraph", "changeme", *(f"{n:032d}" for n in range(96))]
    for secret in weak:
        assert await send(mechanism, make_token(claims(), secret)) == Rejected("bad-signature")


async def test_challenge_tells_a_refused_token_from_a_missing_one(
    build: Callable[..., Any],
) -> None:
    """RFC 6750 3.1; decision 28."""
    mechanism, exchange = await build(**C1), make_exchange("Bearer x")
    assert mechanism.challenge(make_exchange()) == ('Bearer realm="docgraph"',)
    await mechanism.authenticate(exchange)
    assert mechanism.challenge(exchange) == ('Bearer realm="docgraph", error="invalid_token"',)


async def test_remembered_token_ends_with_its_time(
    build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism, token = await build(**C3, leeway=0), hs(exp=now() + 60)
    assert isinstance(await send(mechanism, token), Accepted)
    monkeypatch.setattr(mechanism._verifier, "_clock", lambda: now() + 61)
    assert await send(mechanism, token) == Rejected("expired-token")
    assert await send(mechanism, token) == Rejected("expired-token")


async def test_remembered_token_ends_with_its_revocation(build: Callable[..., Any]) -> None:
    """Decision 32: asked at each use, in memory."""
    revoked = Revoked()
    mechanism, token = await build(revoked, **C3), hs(jti="7", iat=1000)
    assert isinstance(await send(mechanism, token), Accepted)
    assert isinstance(await send(mechanism, token), Accepted)
    revoked.revoked.add("7")
    assert await send(mechanism, token) == Rejected("revoked-token")
    assert revoked.asked == [("7", None, 1000)] * 3


@pytest.mark.parametrize("jti", [OMIT, 7, None, ["7"]])
@pytest.mark.parametrize(
    ("options", "claims", "is_ours"),
    [
        ({}, {}, False),
        ({"shares_users": True}, {}, True),
        ({}, {"docgraph": {"kind": "database", "at": 1}}, True),
        ({}, {"docgraph": "a text"}, False),
    ],
    ids=["foreign", "shares-users", "own", "no claim of ours"],
)
async def test_revocation_by_user_is_for_tokens_of_our_users(
    build: Callable[..., Any],
    jti: Omit | int | list[str] | None,
    options: dict[str, Any],
    claims: dict[str, Any],
    is_ours: bool,
) -> None:
    """Decision 32: of this service, or of an issuer that is declared to share its users."""
    revoked = Revoked()
    mechanism = await build(revoked, **C3, **options)
    revoked.revoked.add("ada")
    outcome = await send(mechanism, hs(jti=jti, **claims))
    assert isinstance(outcome, Rejected) == is_ours
    assert revoked.asked == [(None, "ada" if is_ours else None, None)]


async def test_verified_tokens_are_checked_once_and_whether_they_have_ended_every_time(
    build: Callable[..., Any],
) -> None:
    revoked = Revoked()
    mechanism, token = await build(revoked, **C3), hs(jti="one")
    checks = []
    verify = mechanism._verifier._check

    def check(text: str) -> Any:
        checks.append(text)
        return verify(text)

    mechanism._verifier._check = check
    revoked.revoked.add("two")  # the end of another one changes nothing
    said = json.loads(decode(token.split(".")[1]))
    accepted = Accepted(Account("ada", ("user",), said, "jwt"))
    assert [await send(mechanism, token) for _ in range(2)] == [accepted] * 2
    revoked.revoked.add("one")
    assert await send(mechanism, token) == Rejected("revoked-token")
    assert len(checks) == 1


async def test_memory_of_verified_tokens_is_bounded(
    build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from docgraph.auth.mechanisms import jwt

    monkeypatch.setattr(jwt, "REMEMBERED", 3)
    mechanism = await build(**C3)
    for number in range(10):
        await send(mechanism, hs(sub=f"user{number}"))
    assert len(mechanism._verifier._remembered._entries) == 3


async def test_refused_tokens_are_not_remembered(build: Callable[..., Any]) -> None:
    mechanism = await build(**C3)
    await send(mechanism, make_token(claims(), "x" * 64))
    assert len(mechanism._verifier._remembered._entries) == 0


class RotatingKeys:
    """Keys that are rotated while a token is verified with those of before."""

    def __init__(self, key: bytes, next_key: bytes) -> None:
        self.version, self.key, self.next_key = 1, key, next_key
        self.found, self.rotated = asyncio.Event(), asyncio.Event()

    def keep_fresh(self) -> None:
        """Nothing to read again."""

    def rotate(self) -> None:
        self.version, self.key = 2, self.next_key
        self.rotated.set()

    async def find(self, kid: Any) -> tuple[bytes, ...]:
        key = self.key
        self.found.set()
        await self.rotated.wait()
        return (key,)


async def test_a_token_verified_with_rotated_keys_is_not_remembered(
    build: Callable[..., Any],
) -> None:
    mechanism, token = await build(**C3), hs()
    verifier = mechanism._verifier
    new_secret = "n" * 64
    keys = RotatingKeys((await verifier._keys.find(None))[0], new_secret.encode())
    verifier._keys, verifier._version = keys, keys.version
    first = asyncio.create_task(send(mechanism, token))
    await keys.found.wait()
    keys.rotate()
    # Another request notices the new keys first.
    assert isinstance(await send(mechanism, make_token(claims(), new_secret)), Accepted)
    assert isinstance(await first, Accepted)
    assert await send(mechanism, token) == Rejected("bad-signature")


@pytest.mark.parametrize(
    "payload",
    [
        b'{"sub":"ada","sub":"bob",%s}',
        b'{"sub":"ada","sub":"ada",%s}',
        b'{"sub":"ada","\\u0073ub":"bob",%s}',
        b'{"sub":"ada", "x": {"y": 1, "y" : 2},%s}',
        b'{"sub":"ada","x":[{"y":":","y":1}],%s}',
        b'{"roles":[],"sub":"ada",%s,"roles":["admin"]}',
        b'{"sub":"ada",%s,"exp":99999999999}',
    ],
)
async def test_a_member_that_stands_twice_is_refused(
    build: Callable[..., Any], payload: bytes
) -> None:
    """Others may read the other one (RFC 7519 4)."""
    mechanism = await build(**C3)
    rest = json.dumps({name: claims()[name] for name in ("iss", "aud", "exp")})[1:-1].encode()
    token = make_token(payload % rest)
    assert await send(mechanism, token) == Rejected("malformed")
    right = json.dumps({**claims(), "x": {"y": ":", "z": [{"y": 1}, {"y": 2}]}}).encode()
    assert isinstance(await send(mechanism, make_token(right)), Accepted)


@pytest.mark.parametrize(
    "header",
    [
        b'{"alg":"HS256","alg":"none","typ":"JWT"}',
        b'{"alg":"none","alg":"HS256"}',
        b'{"alg":"HS256","kid":"a","kid":"b"}',
        b'{"alg":"HS256","x":{"a":1,"a":1}}',
    ],
)
async def test_a_member_that_stands_twice_in_the_header_is_refused(
    build: Callable[..., Any], header: bytes
) -> None:
    mechanism = await build(**C3)
    token = make_token(claims(), raw_header=header)
    assert await send(mechanism, token) == Rejected("malformed")
    once = make_token(claims(), raw_header=b'{"alg":"HS256"}')
    assert isinstance(await send(mechanism, once), Accepted)
