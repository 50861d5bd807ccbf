"""Logout: end a session by `DELETE` on the token, or by the logout service (decision 32)."""

from __future__ import annotations

from docgraph.auth.tokens.revocation import Revocations
from docgraph.exchange import Account
from docgraph.plugins.kinds import TokenManager
from docgraph.store import Store


async def end_session(
    store: Store, manager: TokenManager | None, revocations: Revocations | None, account: Account
) -> None:
    """Revoke the account's token, and the foreign JWT that the caller sent.

    Completes even if the caller disconnects.
    """

    async def end() -> None:
        if manager is not None:
            await manager.revoke(account)
        jti, exp = account.properties.get("jti"), account.properties.get("exp")
        if revocations is not None and account.kind == "jwt" and isinstance(jti, str):
            await revocations.revoke(jti, exp if isinstance(exp, int | float) else None)

    await store.writes.finish("logout", end)
