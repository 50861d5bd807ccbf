"""A FastAPI application with a route of its own, and docgraph at `/data`; both accept one JWT."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import jwt
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import RedirectResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from docgraph.asgi import create_app

KEY = os.environ["JWT_KEY"]
data = create_app(
    Path(__file__).with_name("docgraph.yml"),
    overrides={"/jwtAuthenticationMechanism/key": KEY},
)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """A mounted application gets no lifespan of the server: enter it here."""
    async with data.lifespan():
        yield


app = FastAPI(lifespan=lifespan)


async def find_caller(
    credentials: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())],
) -> dict[str, Any]:
    """Verify the token with the key and the claims that docgraph requires as well."""
    try:
        claims: dict[str, Any] = jwt.decode(
            credentials.credentials,
            KEY,
            algorithms=["HS256"],
            options={"require": ["exp", "sub"]},
        )
    except jwt.InvalidTokenError:
        raise HTTPException(401, "the token is not valid") from None
    return claims


@app.get("/me")
async def me(caller: Annotated[dict[str, Any], Depends(find_caller)]) -> dict[str, Any]:
    """The caller, as the token names them."""
    return {"name": caller["sub"], "roles": caller.get("roles", [])}


@app.get("/.well-known/oauth-protected-resource/data/{path:path}")
async def find_metadata(path: str) -> RedirectResponse:
    """Lead agents to the metadata of docgraph: these addresses begin at the root of the host."""
    return RedirectResponse(f"/data/.well-known/oauth-protected-resource/{path}")


app.mount("/data", data)
