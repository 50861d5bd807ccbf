"""The ASGI application that other servers serve (`asgi_servers.py`)."""

import json
import os

from docgraph.asgi import create_app

app = create_app(
    overrides=json.loads(os.environ["ASGI_OVERRIDES"]), instance=os.environ.get("ASGI_INSTANCE")
)
