"""examples/slack_bot.py against a stand-in of Slack's API on loopback, over HTTP and in socket mode."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

BOT = Path(__file__).parents[1] / "examples" / "slack_bot.py"
SIGNING = "made-up-signing-secret"
TOKEN = "xo" + "xb-made-up"
LOG = (
    "step 1\n[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    "&lt;!channel&gt; @everyone &lt;https://evil.example|x&gt;"
)
PATIENCE = 60.0


@dataclass
class Slack:
    """What the bot asked of Slack, and what Slack answers."""

    url: str = ""
    calls: list[tuple[str, dict[str, Any], dict[str, str]]] = field(default_factory=list)
    replies: list[dict[str, Any]] = field(default_factory=list)
    """The messages of the thread."""
    file: bytes = b""
    gives_parts: bool = True
    """Whether a part of a file can be asked for."""
    goes_on: threading.Event = field(default_factory=threading.Event)
    """Files named `slow` come once it is set."""
    socket_url: str = ""
    member: bool = True

    def posts(self, count: int, method: str = "chat.postMessage") -> list[dict[str, Any]]:
        """The messages posted, once there are so many."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = [data for name, data, _ in self.calls if name == method]
            if len(found) >= count:
                return found
            time.sleep(0.05)
        raise AssertionError(f"{count} {method} wanted: {[name for name, _, _ in self.calls]}")


def _handler(slack: Slack) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            slack.calls.append((self.path.lstrip("/"), {}, dict(self.headers)))
            if self.path.endswith("slow"):
                slack.goes_on.wait(PATIENCE)
            asked = self.headers.get("Range")
            if asked is None or not slack.gives_parts:
                self._send(slack.file, "text/plain")
                return
            data, size = slack.file[int(asked.removeprefix("bytes=")) :], len(slack.file)
            self._send(data, "text/plain", f"bytes {size - len(data)}-{size - 1}/{size}")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            if "json" in self.headers.get("Content-Type", ""):
                data: dict[str, Any] = json.loads(body or "{}")
            else:
                data = dict(urllib.parse.parse_qsl(body))
            name = self.path.rpartition("/")[2]
            slack.calls.append((name, data, dict(self.headers)))
            self._send(json.dumps(self._answer(name)).encode(), "application/json")

        def _answer(self, name: str) -> dict[str, Any]:
            if name == "auth.test":
                return {"ok": True, "bot_id": "B1", "user_id": "U0BOT", "team_id": "T1", "team": "t", "user": "bot"}
            if name == "apps.connections.open":
                return {"ok": True, "url": slack.socket_url}
            if name == "conversations.replies":
                return {"ok": True, "messages": slack.replies}
            if name == "chat.postMessage":
                return {"ok": True, "ts": "99.9"} if slack.member else {"ok": False, "error": "not_in_channel"}
            return {"ok": True}

        def _send(self, data: bytes, kind: str, part: str | None = None) -> None:
            self.send_response(206 if part else 200)
            self.send_header("Content-Type", kind)
            if part:
                self.send_header("Content-Range", part)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            with contextlib.suppress(OSError):  # it may have heard enough
                self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


@pytest.fixture
def slack() -> Iterator[Slack]:
    state = Slack()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
    state.url = f"http://127.0.0.1:{server.server_port}/"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield state
    server.shutdown()
    server.server_close()


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def bot(slack: Slack, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith("SLACK_") and k.lower() not in ("http_proxy", "https_proxy")
    }
    full = {**kept, "SLACK_BOT_TOKEN": TOKEN, "SLACK_API_URL": slack.url, **environment}
    process = subprocess.Popen([sys.executable, str(BOT)], env=full, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


@dataclass
class Http:
    """Sends the bot what Slack would send, signed as Slack signs."""

    port: int

    def send(self, body: str, kind: str, secret: str = SIGNING) -> int:
        stamp = str(int(time.time()))
        signature = "v0=" + hmac.new(secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
        headers = {"Content-Type": kind, "X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": signature}
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}/slack/events", body.encode(), headers)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with urllib.request.urlopen(asked, timeout=10) as reply:
                    return int(reply.status)
            except urllib.error.HTTPError as error:
                return error.code
            except urllib.error.URLError:  # it is not up yet
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def mention(self, event_id: str = "E1", **event: Any) -> int:
        return self.send(json.dumps(mention(event_id, **event)), "application/json")

    def command(self, text: str, url: str) -> int:
        body = urllib.parse.urlencode(command(text, url))
        return self.send(body, "application/x-www-form-urlencoded")


def mention(event_id: str, **event: Any) -> dict[str, Any]:
    told = {"type": "app_mention", "user": "U7", "channel": "C1", "ts": "1.5", "text": "<@U0BOT> ", **event}
    return {
        "type": "event_callback", "event_id": event_id, "team_id": "T1", "api_app_id": "A1", "event": told,
        "authorizations": [{"team_id": "T1", "user_id": "U0BOT", "is_bot": True}],
    }  # fmt: skip


def command(text: str, url: str) -> dict[str, str]:
    return {
        "command": "/diagnose", "text": text, "user_id": "U7", "user_name": "kim", "channel_id": "C1", "team_id": "T1",
        "response_url": f"{url}respond", "trigger_id": "1", "api_app_id": "A1",
    }  # fmt: skip


def told(post: dict[str, Any]) -> str:
    """All text of a message; its blocks may come as JSON in a form field."""
    return str(post.get("text", "")) + json.dumps(post.get("blocks", ""), ensure_ascii=False)


def assert_cuda_oom(post: dict[str, Any], thread: str) -> None:
    assert post["channel"] == "C1"
    assert post["thread_ts"] == thread
    assert "ran out of GPU memory" in told(post)
    assert "<!channel>" not in post["text"]
    assert not any(kind in told(post) for kind in ('"broadcast"', '"link"', '"user"'))


def test_over_http(slack: Slack) -> None:
    port = free_port()
    http = Http(port)
    with bot(slack, SLACK_SIGNING_SECRET=SIGNING, PORT=str(port)):
        # a log in the mention itself
        assert http.mention(text=f"<@U0BOT> why?\n```{LOG}```") == 200
        assert_cuda_oom(slack.posts(1)[0], "1.5")

        # Slack says it again, and a bot speaks: no answer. Then a question below somebody's log
        assert http.mention(text=f"<@U0BOT>\n{LOG}") == 200
        assert http.mention("E2", text=f"<@U0BOT>\n{LOG}", bot_id="B9") == 200
        slack.replies = [
            {"ts": "1.1", "text": f"it died:\n```{LOG}```"},
            {"ts": "1.6", "text": "<@U0BOT> what is this?"},
        ]
        assert http.mention("E3", text="<@U0BOT> what is this?", ts="1.6", thread_ts="1.1") == 200
        assert_cuda_oom(slack.posts(2)[1], "1.1")
        assert len(slack.posts(2)) == 2

        # an attached file; the token goes to Slack alone
        slack.file = LOG.encode()
        assert http.mention("E4", files=[{"url_private": slack.url + "files/job.out"}]) == 200
        assert_cuda_oom(slack.posts(3)[2], "1.5")
        (headers,) = [headers for name, _, headers in slack.calls if name == "files/job.out"]
        assert headers["Authorization"] == f"Bearer {TOKEN}"
        stranger = slack.url.replace("127.0.0.1", "localhost") + "files/stolen"
        assert http.mention("E5", files=[{"url_private": stranger}]) == 200
        assert "Paste the log" in told(slack.posts(4)[3])
        assert not any(name == "files/stolen" for name, _, _ in slack.calls)

        # files of several jobs: a line each
        several = [
            {"url_private": slack.url + f"files/{name}", "name": name} for name in ("slurm-4711.out", "slurm-4712.out")
        ]
        assert http.mention("E7", files=several) == 200
        listed = slack.posts(5)[4]
        assert listed["text"].startswith("2 jobs, of which 2 failed")
        assert "4712: rank 3 ran out of GPU memory (cuda-oom)" in told(listed)
        assert "everyone" not in told(listed)

        # nothing to read
        assert http.mention("E6", text="<@U0BOT> hello") == 200
        assert "Paste the log" in told(slack.posts(6)[5])

        # the command: a line in the channel, the answer below it
        assert http.command(LOG, slack.url) == 200
        opened, answer = slack.posts(8)[6:]
        assert "thread_ts" not in opened
        assert opened["text"].startswith("<@U7> asked about a log: ✗ rank 3")
        assert_cuda_oom(answer, "99.9")
        assert http.command("", slack.url) == 200
        assert "Paste the log" in told(slack.posts(1, "respond")[0])
        assert http.command("/etc/passwd", slack.url) == 200  # text, never a path
        assert "root:" not in told(slack.posts(10)[9])

        # where it is no member, the asker alone sees the answer
        slack.member = False
        assert http.command(LOG, slack.url) == 200
        assert "ran out of GPU memory" in told(slack.posts(2, "respond")[1])

        # a request that Slack did not sign
        seen = len(slack.calls)
        forged = json.dumps(mention("E9", text=f"<@U0BOT>\n{LOG}"))
        assert http.send(forged, "application/json", secret="somebody else's") == 401
        assert len(slack.calls) == seen


QUIET = b"2026-11-20 12:00:01 loader opened a shard of the data set without any trouble\n"
OOM = b"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
LEFT_OUT = re.compile(r"job\.out: 6\.\d MB between its start and its end were not read")


def quiet(megabytes: int) -> bytes:
    return QUIET * (megabytes * 1024 * 1024 // len(QUIET))


def test_of_a_large_attachment_the_head_and_the_end_are_read(slack: Slack) -> None:
    """Whether Slack gives a part of a file or not. What was left out is said, no line behind it has a number, no health is claimed."""
    port = free_port()
    http = Http(port)
    file = {"url_private": slack.url + "files/job.out", "name": "job.out"}
    midst = quiet(7) + b"[rank1]: KeyError: 'weight'\n" + quiet(9)
    with bot(slack, SLACK_SIGNING_SECRET=SIGNING, PORT=str(port)):
        slack.file = midst + OOM
        assert http.mention("E1", files=[file]) == 200
        slack.posts(1)
        slack.gives_parts = False
        assert http.mention("E2", files=[file]) == 200
        for post in slack.posts(2):
            assert_cuda_oom(post, "1.5")
            assert LEFT_OUT.search(told(post))
            assert "KeyError" not in told(post)
            assert "job.out:" not in told(post).replace("job.out: ", "")
            assert "medium confidence" in told(post)
        assert len({told(post) for post in slack.posts(2)}) == 1

        slack.file = OOM + midst
        assert http.mention("E3", files=[file]) == 200
        assert "job.out:1" in told(slack.posts(3)[2])
        slack.file = midst + b"iteration 100/ 5000 | elapsed time per iteration (ms): 812.4 | lm loss: 2.31E+00 |\n"
        assert http.mention("E4", files=[file]) == 200
        assert slack.posts(4)[3]["text"].startswith("?")


def test_slow_files_hold_up_no_paste(slack: Slack) -> None:
    port = free_port()
    http = Http(port)
    slack.file = LOG.encode()
    file = {"url_private": slack.url + "files/slow", "name": "job.out"}
    with bot(slack, SLACK_SIGNING_SECRET=SIGNING, PORT=str(port)):
        assert http.mention("E1", files=[file], ts="1.1") == 200
        assert http.mention("E2", files=[file], ts="1.2") == 200
        while sum(name == "files/slow" for name, _, _ in slack.calls) < 2:
            time.sleep(0.02)
        assert http.mention("E3", files=[file], ts="1.3") == 200
        assert "mention me again" in told(slack.posts(1)[0])
        assert http.mention("E4", text=f"<@U0BOT>\n{LOG}", ts="1.4") == 200
        assert_cuda_oom(slack.posts(2)[1], "1.4")
        slack.goes_on.set()
        for post in slack.posts(4)[2:]:
            assert_cuda_oom(post, post["thread_ts"])
        assert http.mention("E5", files=[file], ts="1.5") == 200
        assert_cuda_oom(slack.posts(5)[4], "1.5")


# ── socket mode ──────────────────────────────────────────────────────────────────────────────


class Socket:
    """As much of a WebSocket server as one client needs (RFC 6455)."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(PATIENCE)
        self.url = f"ws://127.0.0.1:{self._server.getsockname()[1]}/link"

    def accept(self) -> None:
        self._peer, _ = self._server.accept()
        self._peer.settimeout(PATIENCE)
        head = b""
        while b"\r\n\r\n" not in head:
            head += self._peer.recv(4096)
        key = next(
            line.split(b": ")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key")
        )
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        self._peer.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )

    def send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode()
        size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + struct.pack(">H", len(data))
        self._peer.sendall(b"\x81" + size + data)

    def receive(self) -> dict[str, Any]:
        """The next text message; pings and the like are passed over."""
        while True:
            first, second = self._read(2)
            size = second & 0x7F
            if size == 126:
                (size,) = struct.unpack(">H", self._read(2))
            mask, data = self._read(4), self._read(size)
            if first & 0x0F == 1:
                text = bytes(byte ^ mask[n % 4] for n, byte in enumerate(data))
                return dict(json.loads(text))

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._peer.recv(count - len(data))
            assert piece, "the bot hung up"
            data += piece
        return data

    def close(self) -> None:
        self._server.close()
        if hasattr(self, "_peer"):
            self._peer.close()


def test_in_socket_mode(slack: Slack) -> None:
    link = Socket()
    slack.socket_url = link.url
    with closing(link), bot(slack, SLACK_APP_TOKEN="xa" + "pp-made-up"):
        link.accept()
        link.send({"type": "hello", "num_connections": 1})
        event = mention("E1", text=f"<@U0BOT>\n```{LOG}```")
        link.send({"type": "events_api", "envelope_id": "V1", "payload": event})
        assert link.receive()["envelope_id"] == "V1"
        assert_cuda_oom(slack.posts(1)[0], "1.5")
        link.send({"type": "slash_commands", "envelope_id": "V2", "payload": command(LOG, slack.url)})
        assert link.receive()["envelope_id"] == "V2"
        assert_cuda_oom(slack.posts(3)[2], "99.9")


def test_what_is_not_set_is_named() -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SLACK_")}
    for more, named in (({}, "SLACK_BOT_TOKEN"), ({"SLACK_BOT_TOKEN": TOKEN}, "SLACK_SIGNING_SECRET")):
        done = subprocess.run(
            [sys.executable, str(BOT)], env={**kept, **more}, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 1
        assert done.stderr == f"slack_bot: set {named}, see docs/chat.md\n"
