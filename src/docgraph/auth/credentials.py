"""Parse and render HTTP credentials, challenges and confirmations (Basic, Bearer, Digest, keys).

`Authorization` is parsed in one way (RFC 9110 11.6.2): the field occurs once, the scheme has any
case, one or more spaces follow it. Two such fields, a tab after the scheme or any other deviation
make the credentials unreadable. Text is UTF-8; header fields are decoded as latin-1, so that it is
recoded here.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from secrets import token_hex
from typing import Final, Literal, NamedTuple

from docgraph.exchange import Headers
from docgraph.exchange.headers import UNREAD

DigestAlgorithm = Literal["MD5", "SHA-256"]

_WORD: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_CREDENTIALS: Final = re.compile(rf"({_WORD})(?: +(.*))?", re.DOTALL)
_API_KEY: Final = re.compile(r"dgk_([0-9a-f]{16})_([0-9a-f]{64})[0-9a-f]{8}")
_BEARER: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_PARAMETER: Final = re.compile(
    rf"({_WORD})[ \t]*=[ \t]*"
    r'(?:"((?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[^\x00-\x1f\x7f])*)"|'
    rf"({_WORD}))"
)
_SEPARATOR: Final = re.compile(r"[ \t]*(?:,[ \t]*)+|[ \t]*\Z")
_ESCAPED: Final = re.compile(r"\\(.)")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_COUNT: Final = re.compile(r"[0-9a-f]{8}")


class MalformedCredentials(ValueError):
    """The text after the scheme is not what the scheme prescribes."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A scheme in lower case, and the text after it."""

    scheme: str
    text: str = field(repr=False)

    @property
    def is_api_key(self) -> bool:
        """Whether this is an API key, be it a wrong one."""
        return self.scheme == "bearer" and self.text.startswith("dgk_")


def read_credentials(headers: Headers) -> Credentials | None:
    """Return the credentials of a request; None without any, and for unreadable ones.

    They are read once; the fields keep them.
    """
    credentials: Credentials | None = headers.credentials
    if credentials is UNREAD:
        values = headers.get_list("authorization")
        match = _CREDENTIALS.fullmatch(values[0].strip(" \t")) if len(values) == 1 else None
        credentials = Credentials(match[1].lower(), match[2] or "") if match else None
        headers.credentials = credentials
    return credentials


def read_claimed_user(headers: Headers) -> str | None:
    """Return the user whom credentials name, before they are verified; empty for an API key."""
    credentials = read_credentials(headers)
    try:
        match credentials:
            case Credentials("basic", text):
                return BasicCredentials.parse(text).user
            case Credentials("digest", text):
                return DigestCredentials.parse(text).username
            case Credentials("bearer", text) if credentials.is_api_key:
                return ""  # it names a key, which is no user
    except MalformedCredentials:
        pass  # no user, like credentials of any other kind
    return None


@dataclass(frozen=True, slots=True)
class BasicCredentials:
    """User and password (RFC 7617), separated by the first colon: only a password can have one."""

    user: str
    password: str = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> BasicCredentials:
        """Parse the text after `Basic `."""
        try:
            pair = base64.b64decode(text, validate=True).decode()
        except ValueError:  # of base64 and of UTF-8 alike
            raise MalformedCredentials("not the base64 of UTF-8 text") from None
        user, colon, password = pair.partition(":")
        if not colon:
            raise MalformedCredentials("no colon between user and password")
        if _CONTROL.search(pair):
            raise MalformedCredentials("a control character in user or password")
        return cls(user, password)

    def render(self) -> str:
        """Return the value of `Authorization`."""
        pair = f"{self.user}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"


def render_basic_challenge(realm: str) -> str:
    """Return a value of `WWW-Authenticate`."""
    return f'Basic realm={_quote(realm)}, charset="UTF-8"'


@dataclass(frozen=True, slots=True)
class BearerToken:
    """One token of any kind (RFC 6750)."""

    token: str = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> BearerToken:
        """Parse the text after `Bearer `."""
        if not _BEARER.fullmatch(text):
            raise MalformedCredentials("not one token")
        return cls(text)

    def render(self) -> str:
        """Return the value of `Authorization`."""
        return f"Bearer {self.token}"


@dataclass(frozen=True, slots=True)
class ApiKeyText:
    """An API key; the checksum rejects mistyped ones without a lookup, and protects nothing."""

    id: str
    secret: str = field(default_factory=partial(token_hex, 32), repr=False)

    @classmethod
    def parse(cls, text: str) -> ApiKeyText:
        """Parse the text of a key."""
        match = _API_KEY.fullmatch(text)
        if match is None or cls(match[1], match[2]).render() != text:
            raise MalformedCredentials("not an API key")
        return cls(match[1], match[2])

    def render(self) -> str:
        """Return the text of the key, which nothing stores."""
        text = f"dgk_{self.id}_{self.secret}"
        return f"{text}{zlib.crc32(text.encode()):08x}"


def render_bearer_challenge(realm: str, *, refused: bool = False) -> str:
    """Return a value of `WWW-Authenticate`; `refused`: a token was sent and rejected."""
    error = ', error="invalid_token"' if refused else ""
    return f"Bearer realm={_quote(realm)}{error}"


@dataclass(frozen=True, slots=True)
class DigestChallenge:
    """The parameters to compute a digest with (RFC 7616)."""

    realm: str
    domain: str
    nonce: str
    opaque: str
    algorithm: DigestAlgorithm = "MD5"
    stale: bool = False

    def render(self) -> str:
        """Return a value of `WWW-Authenticate`; RFC 7616 3.3 defines which parts are quoted."""
        return (
            f"Digest realm={_quote(self.realm)}, domain={_quote(self.domain)}, "
            f"nonce={_quote(self.nonce)}, opaque={_quote(self.opaque)}, "
            f"{'stale=true, ' if self.stale else ''}"
            f'algorithm={self.algorithm}, qop="auth", charset=UTF-8'
        )


@dataclass(frozen=True, slots=True)
class DigestCredentials:
    """The response to a challenge. Only `qop=auth` is supported: others have no nonce count."""

    username: str
    realm: str
    nonce: str
    uri: str
    response: str = field(repr=False)
    cnonce: str
    opaque: str
    count: int
    algorithm: str = "MD5"

    @classmethod
    def parse(cls, text: str) -> DigestCredentials:
        """Parse the text after `Digest `."""
        given = _parse_parameters(text)
        _check_digest(given)
        values = {name: parameter.value for name, parameter in given.items()}
        user = _recode(values["username"])
        if _CONTROL.search(user):
            raise MalformedCredentials("a control character in 'username'")
        return cls(
            username=user,
            realm=_recode(values["realm"]),
            nonce=values["nonce"],
            uri=values["uri"],
            response=values["response"],
            cnonce=values["cnonce"],
            opaque=values["opaque"],
            count=int(values["nc"], 16),
            algorithm=values.get("algorithm", "MD5"),
        )

    @property
    def nc(self) -> str:
        """The nonce count as it is sent and hashed."""
        return f"{self.count:08x}"

    def render(self) -> str:
        """Return the value of `Authorization`."""
        quoted = {"username": _quote(self.username), "realm": _quote(self.realm)}
        for name in ("nonce", "uri", "response", "cnonce", "opaque"):
            quoted[name] = _escape(getattr(self, name))
        pairs = ", ".join(f"{name}={value}" for name, value in quoted.items())
        return f"Digest {pairs}, algorithm={self.algorithm}, qop=auth, nc={self.nc}"


_DIGEST_REQUIRED: Final = "username realm nonce uri response cnonce opaque qop nc".split()


def _check_digest(given: Mapping[str, _Parameter]) -> None:
    missing = [name for name in _DIGEST_REQUIRED if name not in given]
    if missing:
        raise MalformedCredentials(f"'{missing[0]}' is missing")
    if given["qop"].value != "auth":
        raise MalformedCredentials("'qop' is not auth")
    if given["nc"].quoted or not _COUNT.fullmatch(given["nc"].value):
        raise MalformedCredentials("'nc' is not eight bare digits of lower-case hexadecimal")
    if given.get("userhash", _NO_USERHASH).value.lower() != "false":
        raise MalformedCredentials("'userhash' was not offered")


@dataclass(frozen=True, slots=True)
class AuthenticationInfo:
    """The server's proof that it knows the secret, and the nonce to use next."""

    rspauth: str
    cnonce: str
    nc: str
    nextnonce: str | None = None

    def render(self) -> str:
        following = f", nextnonce={_quote(self.nextnonce)}" if self.nextnonce else ""
        return (
            f"rspauth={_quote(self.rspauth)}, cnonce={_escape(self.cnonce)}, "
            f"nc={self.nc}, qop=auth{following}"
        )


class _Parameter(NamedTuple):
    value: str
    quoted: bool


_NO_USERHASH: Final = _Parameter("false", quoted=False)


def _parse_parameters(text: str) -> dict[str, _Parameter]:
    """Parse `name=token` and `name="text"`, separated by commas; rejects a repeated name."""
    parameters: dict[str, _Parameter] = {}
    position = _skip_separator(text, 0) if text[:1] in {",", " ", "\t"} else 0
    while position < len(text):
        match = _PARAMETER.match(text, position)
        if match is None:
            raise MalformedCredentials("not a list of parameters")
        name, quoted, bare = match[1].lower(), match[2], match[3]
        if name in parameters:
            raise MalformedCredentials(f"'{name}' comes twice")
        parameters[name] = (
            _Parameter(bare, quoted=False)
            if quoted is None
            else _Parameter(_ESCAPED.sub(r"\1", quoted), quoted=True)
        )
        position = _skip_separator(text, match.end())
    return parameters


def _skip_separator(text: str, position: int) -> int:
    match = _SEPARATOR.match(text, position)
    if match is None:
        raise MalformedCredentials("no comma between parameters")
    return match.end()


def _recode(value: str) -> str:
    try:
        return value.encode("latin-1").decode()
    except ValueError:
        raise MalformedCredentials("not UTF-8") from None


def _quote(text: str) -> str:
    """Return text in quotes, as UTF-8 in the latin-1 form that header values have."""
    return _escape(text.encode().decode("latin-1"))


def _escape(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
