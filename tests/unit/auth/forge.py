"""Makes tokens of every kind, right and wrong, without the library that verifies them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa


class Omit:
    """Stands for a field that is left out."""

    def __repr__(self) -> str:
        return "OMIT"


OMIT = Omit()
SECRET = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
HMACS = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}
HASHES = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}


def encode(data: bytes | Any) -> str:
    """base64url without padding; what is not bytes becomes JSON."""
    if not isinstance(data, bytes):
        data = json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def sign(message: bytes, algorithm: str, key: Any) -> bytes:
    if algorithm in HMACS:
        return hmac.digest(key.encode() if isinstance(key, str) else key, message, HMACS[algorithm])
    if algorithm.startswith("PS"):
        chosen = HASHES[algorithm[2:]]
        return bytes(key.sign(message, padding.PSS(padding.MGF1(chosen), 32), chosen))
    return bytes(key.sign(message, padding.PKCS1v15(), HASHES[algorithm[2:]]))


def make_token(
    payload: bytes | Any,
    key: Any = SECRET,
    algorithm: str = "HS256",
    *,
    header: dict[str, Any] | None = None,
    raw_header: bytes | None = None,
) -> str:
    """A token signed with `algorithm`, whatever its header says; OMIT leaves a field out."""
    fields = {"alg": algorithm, "typ": "JWT", **(header or {})}
    fields = {name: value for name, value in fields.items() if value is not OMIT}
    first = encode(raw_header if raw_header is not None else fields)
    message = f"{first}.{encode(payload)}"
    return f"{message}.{encode(sign(message.encode(), algorithm, key))}"


def public_pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey = RSA_KEY) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def public_der(key: rsa.RSAPrivateKey = RSA_KEY) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def make_jwk(key: rsa.RSAPrivateKey = RSA_KEY, **fields: Any) -> dict[str, Any]:
    """The public part as an entry of a key set."""
    numbers = key.public_key().public_numbers()
    length = (numbers.n.bit_length() + 7) // 8
    return {
        "kty": "RSA",
        "n": encode(numbers.n.to_bytes(length)),
        "e": encode(numbers.e.to_bytes(3)),
        **fields,
    }
