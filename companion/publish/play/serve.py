"""A web server for one folder, on this machine only."""

from __future__ import annotations

import contextlib
import shutil
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

KINDS = {".js": "text/javascript", ".wasm": "application/wasm", ".css": "text/css"}


class Handler(SimpleHTTPRequestHandler):
    """Files of a folder, never from a browser's old copy; nothing is printed."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | KINDS  # a system may think otherwise

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def copyfile(self, source, outputfile) -> None:
        """Send a file; a page that was closed meanwhile needs none of it."""
        with contextlib.suppress(ConnectionError):
            shutil.copyfileobj(source, outputfile)

    def log_message(self, format: str, *arguments) -> None:
        """Say nothing."""


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server on loopback that is not yet running; port 0 takes any free one."""
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), partial(Handler, directory=str(folder)))
    except OSError as error:
        told = f"port {port} cannot be had ({error.strerror}); PORT=0 takes any free one"
        raise OSError(told) from None
