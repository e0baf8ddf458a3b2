"""The wire to an agent: lines in and out, and an answer to what cannot be read, of which the SDK says nothing.

JSON-RPC 2.0, section 5.1: -32700 is no JSON, -32600 is no request. Where the id can be read it stands in the answer: else its
sender would wait for ever.
"""

from __future__ import annotations

import json
import os
import sys
from typing import BinaryIO

import anyio
from anyio import to_thread
from mcp.types import JSONRPCNotification, jsonrpc_message_adapter

LONGEST = 64 * 1024 * 1024
"""Bytes of a request: the longest text that is read, with every character escaped."""
NO_JSON, NO_REQUEST = -32700, -32600
_WRONG = {
    NO_JSON: "this is no JSON that can be read: send one JSON-RPC request a line",
    NO_REQUEST: 'this is no JSON-RPC request: send one object a line, with "jsonrpc": "2.0", an "id" and a "method"',
}
_TOO_LONG = (
    f"the request is longer than {LONGEST >> 20} MiB: send the log's first and last megabytes, or use diagnose_path"
)


def refused(line: str) -> str | None:
    """The answer to a line that is no message of JSON-RPC; None for one that is, and for an empty one."""
    if not line.strip():
        return None
    ident, code = None, NO_REQUEST
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError as error:
        code = NO_JSON if "json_invalid" in str(error) else NO_REQUEST
    else:
        # a request whose id is null, a fraction, or not there passes for a notification
        if not isinstance(message, JSONRPCNotification) or message.method.startswith("notifications/"):
            return None
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        code = NO_JSON
    else:
        ident = told.get("id") if isinstance(told, dict) else None
    return _answer(code, _WRONG[code], ident)


def _answer(code: int, what: str, ident: object = None) -> str:
    known = ident if isinstance(ident, (str, int)) and not isinstance(ident, bool) else None
    return json.dumps({"jsonrpc": "2.0", "id": known, "error": {"code": code, "message": what}})


class Wire:
    """Standard input and output as the SDK's stdio transport takes them: an iterator of lines, and a writer."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._one = anyio.Lock()
        self.broken: OSError | None = None
        """Why nothing can be sent any more: then nothing is read, either."""

    def __aiter__(self) -> Wire:
        return self

    async def __anext__(self) -> str:
        while line := await to_thread.run_sync(self._source.readline, LONGEST):
            if len(line) == LONGEST and not line.endswith(b"\n"):
                await to_thread.run_sync(self._skip)
                answer: str | None = _answer(NO_REQUEST, _TOO_LONG)
            else:
                text = line.decode("utf-8", "replace")
                answer = refused(text)
                if answer is None and text.strip() and self.broken is None:
                    return text
            if answer is not None:
                await self.write(answer + "\n")
            if self.broken:
                break
        raise StopAsyncIteration

    def _skip(self) -> None:
        """Read to the end of the line."""
        while (rest := self._source.readline(LONGEST)) and not rest.endswith(b"\n"):
            pass

    async def write(self, text: str) -> None:
        """Send whole lines."""
        async with self._one:
            await to_thread.run_sync(self._send, text.encode("utf-8", "replace"))

    async def flush(self) -> None:
        """Nothing waits."""

    def _send(self, data: bytes) -> None:
        try:
            while data and self.broken is None:
                data = data[self._sink.write(data) :]
        except OSError as error:
            self.broken = error


def taken() -> Wire:
    """The process's own wire. What else reads standard input from now on finds it empty; what prints, prints to errors."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # errors are closed
        os.dup2(nowhere, 1)
    os.close(nowhere)
    return Wire(source, sink)
