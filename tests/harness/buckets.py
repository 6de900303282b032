"""A server that keeps objects in memory and speaks enough of S3, Google Cloud Storage and Azure to be their bucket."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import unquote
from xml.sax.saxutils import unescape

from aiohttp import web


class Buckets:
    """Objects by path, the bucket first; ``is_away`` makes every request fail as a storage in trouble does."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.is_away = False
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        """Serve one request."""
        if self.is_away:
            return web.Response(status=503)
        path = unquote(request.path).removeprefix("/account").strip("/")
        if request.method == "POST":
            return self._delete_many(request, path, await request.text())
        if request.method == "PUT":
            self.objects[path] = await request.read()
            return web.Response(status=201 if "x-ms-version" in request.headers else 200, headers={"ETag": '"1"'})
        if path not in self.objects:
            return web.Response(status=404)
        if request.method == "DELETE":
            del self.objects[path]
            return web.Response(status=204)
        modified = "Tue, 01 Dec 2026 00:00:00 GMT"
        return web.Response(body=self.objects[path], headers={"ETag": '"1"', "Last-Modified": modified})

    def _delete_many(self, request: web.Request, bucket: str, body: str) -> web.Response:
        """Deletions in one request: XML with keys for S3, a batch of requests for Azure."""
        if request.query.get("comp") == "batch":
            parts = []
            for number, named in enumerate(re.findall(r"DELETE (\S+) HTTP", body)):
                gone = self.objects.pop(unquote(named).removeprefix("/account").strip("/"), None)
                status = "404 Not Found" if gone is None else "202 Accepted"
                head = f"--b\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n"
                parts.append(f"{head}HTTP/1.1 {status}\r\nx-ms-version: 1\r\n\r\n\r\n")
            kind = {"Content-Type": "multipart/mixed; boundary=b"}
            return web.Response(status=202, body="".join([*parts, "--b--\r\n"]).encode(), headers=kind)
        keys = [unescape(key) for key in re.findall("<Key>(.*?)</Key>", body)]
        for key in keys:
            self.objects.pop(f"{bucket}/{key}", None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        return web.Response(text=f"<DeleteResult>{deleted}</DeleteResult>", content_type="application/xml")


@asynccontextmanager
async def serving_buckets() -> AsyncIterator[Buckets]:
    """Serve on a free port of 127.0.0.1."""
    buckets = Buckets()
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", buckets.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        buckets.url = f"http://{host}:{port}"
        yield buckets
    finally:
        await runner.cleanup()
