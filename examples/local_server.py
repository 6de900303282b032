"""Where the examples find their server, and one sentence for when they do not."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable

import httpx
from durable_workflow import Client
from durable_workflow.errors import Unauthorized

URL = os.environ.get("DURABLE_WORKFLOW_SERVER_URL", "http://127.0.0.1:8080")
WORKER_URL = os.environ.get("DURABLE_WORKFLOW_WORKER_URL", URL)  # another one where the planes are apart
TOKEN = os.environ.get("DURABLE_WORKFLOW_AUTH_TOKEN", "dev-token")


async def reach(url: str) -> None:
    """End the process with a sentence when nobody at ``url`` lets us in."""
    try:
        async with Client(url, token=TOKEN) as client:
            await client.get_cluster_info()
    except httpx.TransportError as error:
        sys.exit(
            f"No server answers at {url} ({error}). Start one with `make dev`, or name another with "
            "DURABLE_WORKFLOW_SERVER_URL."
        )
    except Unauthorized:
        sys.exit(f"The server at {url} does not take the token; name its token with DURABLE_WORKFLOW_AUTH_TOKEN.")


def run(example: Callable[[Client, Client], Awaitable[None]]) -> None:
    """Run an example with a client for applications and one for workers."""

    async def main() -> None:
        for url in dict.fromkeys((URL, WORKER_URL)):
            await reach(url)
        async with Client(URL, token=TOKEN) as client, Client(WORKER_URL, token=TOKEN) as worker_client:
            await example(client, worker_client)

    asyncio.run(main())
