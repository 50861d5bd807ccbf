"""Serve the page of the ticket desk at `/desk`."""

from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import ClassVar

from docgraph import Answer, Body, Exchange, PluginConfig, Service

PAGE = Path(__file__).parents[1] / "page.html"


class DeskPage(Service):
    """`GET /desk` is the page; it logs users in, so it needs no login itself."""

    name: ClassVar[str] = "deskPage"
    description: ClassVar[str] = "the page of the ticket desk"
    uri: ClassVar[str] = "/desk"
    exact: ClassVar[bool] = True
    secured: ClassVar[bool] = False

    def __init__(self, config: PluginConfig) -> None:
        self._page = PAGE.read_bytes()
        script = self._page.partition(b"<script>")[2].partition(b"</script>")[0]
        allowed = b64encode(sha256(script).digest()).decode()
        # Only the script of the page runs, whatever a ticket contains.
        self._policy = (
            f"default-src 'none'; script-src 'sha256-{allowed}'; style-src 'unsafe-inline'; "
            "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )

    async def handle(self, exchange: Exchange) -> Answer:
        headers = [("Content-Security-Policy", self._policy), ("Cache-Control", "no-cache")]
        return Body(content=self._page, media_type="text/html", headers=headers)
