"""JWT signature algorithms, and the keys that fit them.

The configuration chooses the one algorithm, never the token (RFC 8725 3.1): a key is prepared for
it once, and cannot be used for another.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt.algorithms import Algorithm as Primitive
from jwt.algorithms import get_default_algorithms
from jwt.exceptions import InvalidKeyError

from docgraph.auth.jwt.hashes import hash_bytes

RSA_BITS: Final = range(2048, 8193)
MAX_EXPONENT: Final = (1 << 32) - 1  # a greater one only costs time
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+")

Key = bytes | RSAPublicKey


class KeyRefused(ValueError):
    """A key that cannot or must not be used."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """`name` as tokens contain it, for example `HS256`."""

    name: str
    primitive: Primitive
    allow_weak_key: bool = False

    @classmethod
    def named(cls, option: str, *, allow_weak_key: bool = False) -> Algorithm:
        """Return the algorithm of an option: `HMAC256` means `HS256`, `RSA256` means `RS256`."""
        name = option.replace("HMAC", "HS").replace("RSA", "RS")
        return cls(name, get_default_algorithms()[name], allow_weak_key)

    @property
    def is_symmetric(self) -> bool:
        """Whether a verifier could sign as well."""
        return self.name.startswith("HS")

    @property
    def hash_bytes(self) -> int:
        """The length of the hash, which is the minimum length of a secret (RFC 7518 3.2)."""
        return hash_bytes(self.name)

    def verify(self, message: bytes, key: Key, signature: bytes) -> bool:
        """Return whether the signature is valid, in constant time where it matters."""
        return self.primitive.verify(message, key, signature)

    def load_secret(self, secret: bytes) -> bytes:
        """Check a secret for HMAC; a text that looks like a public key is rejected."""
        if len(secret) < self.hash_bytes and not self.allow_weak_key:
            raise KeyRefused(
                f"the secret has {len(secret)} bytes, {self.name} needs {self.hash_bytes}"
            )
        try:
            prepared: bytes = self.primitive.prepare_key(secret)
        except InvalidKeyError:
            raise KeyRefused(f"{self.name} needs a secret, not a key of another kind") from None
        return prepared

    def load_pem(self, pem: bytes) -> RSAPublicKey:
        """Load the public key of PEM text, alone or in a certificate."""
        if b"PRIVATE KEY-----" in pem:
            raise KeyRefused("this is a private key, which belongs to the issuer alone")
        try:
            if b"-----BEGIN CERTIFICATE-----" in pem:
                key: Any = x509.load_pem_x509_certificate(pem).public_key()
            else:
                key = load_pem_public_key(pem)
        except (ValueError, UnsupportedAlgorithm):
            raise KeyRefused("not the PEM text of a public key or certificate") from None
        return self._check_rsa(key)

    def load_jwk(self, jwk: Any) -> Key:
        """Load a key of a set; only its public part is read."""
        if not isinstance(jwk, dict):
            raise KeyRefused("not an object")
        self._check_purpose(jwk)
        if self.is_symmetric:
            return self.load_secret(_decode(jwk.get("k")))
        modulus, exponent = (int.from_bytes(_decode(jwk.get(name))) for name in ("n", "e"))
        if exponent > MAX_EXPONENT or modulus.bit_length() >= RSA_BITS.stop:
            raise KeyRefused("a key of unreasonable size")
        try:
            return self._check_rsa(RSAPublicNumbers(exponent, modulus).public_key())
        except ValueError:
            raise KeyRefused("not the numbers of an RSA key") from None

    def _check_purpose(self, jwk: dict[str, Any]) -> None:
        if jwk.get("kty") != ("oct" if self.is_symmetric else "RSA"):
            raise KeyRefused(f"a key of another kind than {self.name} needs")
        if jwk.get("use", "sig") != "sig" or jwk.get("alg", self.name) != self.name:
            raise KeyRefused(f"not meant for signatures of {self.name}")
        operations = jwk.get("key_ops", ["verify"])
        if not isinstance(operations, list) or "verify" not in operations:
            raise KeyRefused("not meant for verifying")

    def _check_rsa(self, key: Any) -> RSAPublicKey:
        if not isinstance(key, RSAPublicKey):
            raise KeyRefused(f"{self.name} needs an RSA key")
        if key.key_size not in RSA_BITS:
            raise KeyRefused(
                f"the key has {key.key_size} bits, {self.name} needs at least {RSA_BITS.start}"
            )
        return key


def _decode(value: Any) -> bytes:
    if not isinstance(value, str) or not _BASE64URL.fullmatch(value.rstrip("=")):
        raise KeyRefused("a part of the key is missing, or not base64url")
    bare = value.rstrip("=")
    try:
        return base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
    except ValueError:
        raise KeyRefused("a part of the key is not base64url") from None
