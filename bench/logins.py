"""Callers of W9 and W14: a user with a password in the database, and a token of another party."""

from __future__ import annotations

import base64
import time
from typing import Any

import bcrypt
import jwt
from pymongo import MongoClient

from bench.row_filters import KEY, ROLE, TEAM

USER, PASSWORD = "bench", "a password of the bench"
_A_DAY = 86_400

CONFIG = {
    "/dbRealmAuthenticator/cache-enabled": "true",
    "/jwtAuthenticationMechanism/enabled": "true",
    "/jwtAuthenticationMechanism/key": KEY,
}
"""What a server needs to know these callers."""


def store_user(uri: str) -> None:
    """Write the user, with few rounds of bcrypt: the login that is measured is a kept one."""
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    document = {"_id": USER, "password": hashed, "roles": [ROLE]}
    with MongoClient[dict[str, Any]](uri) as client:
        client["docgraph"]["users"].replace_one({"_id": USER}, document, upsert=True)


def build_headers(caller: str) -> dict[str, str]:
    """How the caller of a workload is known."""
    match caller:
        case "":
            return {}
        case "basic":
            pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        case "jwt":
            claims = {"sub": USER, "roles": [ROLE], "team": TEAM, "exp": int(time.time()) + _A_DAY}
            return {"Authorization": f"Bearer {jwt.encode(claims, KEY, algorithm='HS256')}"}
    raise ValueError(caller)
