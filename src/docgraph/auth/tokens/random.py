"""`rndTokenManager`: random tokens, valid on the instance that issued them (decision 33).

A token is 192 random bits and a seal over them and the user, made with the secret of the instance.
Texts without the seal are rejected without reading the table: guesses and passwords cost no more
than a hash. The table stores the random part only.
"""

from __future__ import annotations

import base64
import hmac
import re
import time
from typing import ClassVar, Final

from docgraph.auth.tokens.issued import ID_BYTES, Issued, IssuedTokens, UserGone
from docgraph.auth.tokens.revocation import Revocations
from docgraph.auth.tokens.sections import RndTokenManager
from docgraph.auth.tokens.token import AuthToken
from docgraph.auth.tokens.token_headers import Realms
from docgraph.exchange import Account
from docgraph.exchange.errors import Unauthenticated
from docgraph.plugins.kinds import TokenManager
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Blocking, Generations, Instance
from docgraph.runtime.clock import elapsed

_SEAL_BYTES: Final = 18  # with the 24 random bytes a multiple of three: one spelling in base64
_FORM: Final = re.compile(rf"[A-Za-z0-9_-]{{{(ID_BYTES + _SEAL_BYTES) // 3 * 4}}}")


class Seal:
    """Builds the text of a token from its random part, and extracts the random part from a text."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def close(self, id: bytes, user: str) -> str:
        """Return the text of the token."""
        return base64.urlsafe_b64encode(id + self._sign(id, user)).decode()

    def open(self, text: str, user: str) -> bytes | None:
        """Return the random part; None for a text of another issuer or user."""
        if not _FORM.fullmatch(text):
            return None
        data = base64.urlsafe_b64decode(text)
        id, seal = data[:ID_BYTES], data[ID_BYTES:]
        return id if hmac.compare_digest(seal, self._sign(id, user)) else None

    def _sign(self, id: bytes, user: str) -> bytes:
        name = user.encode("utf-8", "surrogatepass")
        return hmac.digest(self._secret, id + name, "sha256")[:_SEAL_BYTES]


class RandomTokens(TokenManager):
    """One live token per login, with a fixed lifetime."""

    name: ClassVar[str] = "rndTokenManager"
    description: ClassVar[str] = "random tokens, known to this instance"
    renewable: ClassVar[bool] = False  # `renew-auth-token` is for JWTs; POST creates a new one
    Config = RndTokenManager

    def __init__(
        self,
        config: RndTokenManager,
        *,
        instance: Instance,
        blocking: Blocking,
        generations: Generations,
        registry: PluginRegistry,
        token_revocations: Revocations,
    ) -> None:
        self.config = config
        self._seal = Seal(instance.secret("rnd-tokens"))
        self._issued = IssuedTokens(
            instance.directory / "tokens.sqlite",
            config.ttl * 60,
            blocking=blocking,
            generations=generations,
            revocations=token_revocations,
            read_again=Realms(registry).read_again,
            clock=elapsed,
            wall=time.time,
        )

    async def provision(self) -> None:
        """Open the state that workers share."""
        await self._issued.open()

    async def close(self) -> None:
        """Close the shared state."""
        await self._issued.close()

    async def issue(self, account: Account, *, renew: bool = False) -> AuthToken:
        """Return the login's token; `renew` replaces it."""
        try:
            issued = await (self._issued.renew(account) if renew else self._issued.current(account))
        except UserGone:
            raise Unauthenticated("the user does not exist any more") from None
        return self._render(issued)

    async def verify(self, user: str, token: str) -> Account | None:
        """Return the account of the login that the token was issued for."""
        id = self._seal.open(token, user)
        issued = None if id is None else await self._issued.find(id)
        return issued.account if issued is not None and issued.account.name == user else None

    async def revoke(self, account: Account) -> None:
        """Revoke the login's token for all its users."""
        await self._issued.end(account)

    def _render(self, issued: Issued) -> AuthToken:
        text = self._seal.close(issued.id, issued.account.name)
        return AuthToken(text, self._issued.find_end(issued))
