"""examples/slack_bot.py against a stand-in of Slack's API on loopback; what Slack sends over HTTP and by a socket."""

import contextlib
import hashlib
import hmac
import importlib
import json
import re
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from slack_bolt import BoltRequest
from slack_sdk import WebClient

sys.path.append(str(Path(__file__).parents[1] / "examples"))
slack_bot: Any = importlib.import_module("slack_bot")

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
    member: bool = True

    def posts(self, count: int, method: str = "chat.postMessage") -> list[dict[str, Any]]:
        """The messages posted, or other calls, once there are so many."""
        end = time.monotonic() + PATIENCE
        while len(found := [data for name, data, _ in self.calls if name == method]) < count:
            assert time.monotonic() < end, f"{count} {method} wanted: {[name for name, _, _ in self.calls]}"
            time.sleep(0.02)
        return found


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
            if name == "chat.postMessage" and not slack.member:
                return {"ok": False, "error": "not_in_channel"}
            known: dict[str, dict[str, Any]] = {
                "auth.test": {"bot_id": "B1", "user_id": "U0BOT", "team_id": "T1", "team": "t", "user": "bot"},
                "conversations.replies": {"messages": slack.replies},
                "chat.postMessage": {"ts": "99.9"},
            }
            return {"ok": True, **known.get(name, {})}

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


class Bot:
    """The bot in this process; it is sent what Slack would send, signed as Slack signs."""

    def __init__(self, slack: Slack, signed: bool = True) -> None:
        client = WebClient(token=TOKEN, base_url=slack.url)
        self.slack, self.app = slack, slack_bot.create(client, SIGNING if signed else None)

    def send(self, body: str, kind: str, secret: str = SIGNING) -> int:
        stamp = str(int(time.time()))
        signature = "v0=" + hmac.new(secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
        headers: Any = {"content-type": kind, "x-slack-request-timestamp": stamp, "x-slack-signature": signature}
        return int(self.app.dispatch(BoltRequest(body=body, headers=headers)).status)

    def mention(self, event_id: str = "E1", **event: Any) -> None:
        assert self.send(json.dumps(mention(event_id, **event)), "application/json") == 200

    def command(self, text: str) -> None:
        body = urllib.parse.urlencode(command(text, self.slack.url))
        assert self.send(body, "application/x-www-form-urlencoded") == 200


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
    assert (post["channel"], post["thread_ts"]) == ("C1", thread)
    assert "ran out of GPU memory" in told(post)
    assert "<!channel>" not in post["text"]
    assert not any(kind in told(post) for kind in ('"broadcast"', '"link"', '"user"'))


def test_mentions(slack: Slack) -> None:
    bot = Bot(slack)
    # a log in the mention itself
    bot.mention(text=f"<@U0BOT> why?\n```{LOG}```")
    assert_cuda_oom(slack.posts(1)[0], "1.5")

    # Slack says it again, and a bot speaks: no answer. Then a question below somebody's log
    bot.mention(text=f"<@U0BOT>\n{LOG}")
    bot.mention("E2", text=f"<@U0BOT>\n{LOG}", bot_id="B9")
    slack.replies = [{"ts": "1.1", "text": f"it died:\n```{LOG}```"}, {"ts": "1.6", "text": "<@U0BOT> what is this?"}]
    bot.mention("E3", text="<@U0BOT> what is this?", ts="1.6", thread_ts="1.1")
    assert_cuda_oom(slack.posts(2)[1], "1.1")
    assert len(slack.posts(2)) == 2

    # an attached file; the token goes to Slack alone
    slack.file = LOG.encode()
    bot.mention("E4", files=[{"url_private": slack.url + "files/job.out"}])
    assert_cuda_oom(slack.posts(3)[2], "1.5")
    (headers,) = [headers for name, _, headers in slack.calls if name == "files/job.out"]
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    bot.mention("E5", files=[{"url_private": slack.url.replace("127.0.0.1", "localhost") + "files/stolen"}])
    assert "Paste the log" in told(slack.posts(4)[3])
    assert not any(name == "files/stolen" for name, _, _ in slack.calls)

    # files of several jobs: a line each
    names = ("slurm-4711.out", "slurm-4712.out")
    bot.mention("E7", files=[{"url_private": slack.url + f"files/{name}", "name": name} for name in names])
    listed = slack.posts(5)[4]
    assert listed["text"].startswith("2 jobs, of which 2 failed")
    assert "4712: rank 3 ran out of GPU memory (cuda-oom)" in told(listed)
    assert "everyone" not in told(listed)

    # nothing to read
    bot.mention("E6", text="<@U0BOT> hello")
    assert "Paste the log" in told(slack.posts(6)[5])


def test_the_command_opens_a_thread_in_the_channel(slack: Slack) -> None:
    bot = Bot(slack)
    bot.command(LOG)
    opened, answer = slack.posts(2)
    assert "thread_ts" not in opened
    assert opened["text"].startswith("<@U7> asked about a log: ✗ rank 3")
    assert_cuda_oom(answer, "99.9")
    bot.command("")
    assert "Paste the log" in told(slack.posts(1, "respond")[0])
    bot.command("/etc/passwd")  # text, never a path
    assert "root:" not in told(slack.posts(4)[3])

    # where it is no member, the asker alone sees the answer
    slack.member = False
    bot.command(LOG)
    assert "ran out of GPU memory" in told(slack.posts(2, "respond")[1])


def test_a_request_that_slack_did_not_sign_is_refused(slack: Slack) -> None:
    bot, seen = Bot(slack), len(slack.calls)
    forged = json.dumps(mention("E9", text=f"<@U0BOT>\n{LOG}"))
    assert (bot.send(forged, "application/json", secret="somebody else's"), len(slack.calls)) == (401, seen)


QUIET = b"2026-11-20 12:00:01 loader opened a shard of the data set without any trouble\n"
OOM = b"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
LEFT_OUT = re.compile(r"job\.out: 6\.\d MB between its start and its end were not read")


def quiet(megabytes: int) -> bytes:
    return QUIET * (megabytes * 1024 * 1024 // len(QUIET))


def test_of_a_large_attachment_the_head_and_the_end_are_read(slack: Slack) -> None:
    """Whether Slack gives a part of a file or not. What was left out is said, no line behind it has a number, no health is claimed."""
    bot = Bot(slack)
    file = {"url_private": slack.url + "files/job.out", "name": "job.out"}
    midst = quiet(7) + b"[rank1]: KeyError: 'weight'\n" + quiet(9)
    slack.file = midst + OOM
    bot.mention("E1", files=[file])
    slack.posts(1)
    slack.gives_parts = False
    bot.mention("E2", files=[file])
    for post in slack.posts(2):
        assert_cuda_oom(post, "1.5")
        assert LEFT_OUT.search(told(post))
        assert not re.search("KeyError|job[.]out:(?! )", told(post))
        assert "medium confidence" in told(post)
    assert len({told(post) for post in slack.posts(2)}) == 1

    slack.file = OOM + midst
    bot.mention("E3", files=[file])
    assert "job.out:1" in told(slack.posts(3)[2])
    slack.file = midst + b"iteration 100/ 5000 | elapsed time per iteration (ms): 812.4 | lm loss: 2.31E+00 |\n"
    bot.mention("E4", files=[file])
    assert slack.posts(4)[3]["text"].startswith("?")


def test_slow_files_hold_up_no_paste(slack: Slack) -> None:
    bot = Bot(slack)
    slack.file = LOG.encode()
    file = {"url_private": slack.url + "files/slow", "name": "job.out"}
    bot.mention("E1", files=[file], ts="1.1")
    bot.mention("E2", files=[file], ts="1.2")
    slack.posts(2, "files/slow")
    bot.mention("E3", files=[file], ts="1.3")
    assert "mention me again" in told(slack.posts(1)[0])
    bot.mention("E4", text=f"<@U0BOT>\n{LOG}", ts="1.4")
    assert_cuda_oom(slack.posts(2)[1], "1.4")
    slack.goes_on.set()
    for post in slack.posts(4)[2:]:
        assert_cuda_oom(post, post["thread_ts"])
    bot.mention("E5", files=[file], ts="1.5")
    assert_cuda_oom(slack.posts(5)[4], "1.5")


def test_in_socket_mode(slack: Slack) -> None:
    """What a socket brings is not signed, and is the request itself."""
    bot = Bot(slack, signed=False)
    bot.app.dispatch(BoltRequest(mode="socket_mode", body=mention("E1", text=f"<@U0BOT>\n```{LOG}```")))
    assert_cuda_oom(slack.posts(1)[0], "1.5")
    bot.app.dispatch(BoltRequest(mode="socket_mode", body=command(LOG, slack.url)))
    assert_cuda_oom(slack.posts(3)[2], "99.9")


def test_the_way_in_is_as_the_variables_say(slack: Slack, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[str, Any]] = []
    monkeypatch.setattr(slack_bot.SocketModeHandler, "start", lambda self: begun.append(("socket", self.app)))
    monkeypatch.setattr(slack_bot.App, "start", lambda self, port: begun.append(("http", port)))
    for name in ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET", "PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLACK_API_URL", slack.url)
    for name, value in (("SLACK_BOT_TOKEN", TOKEN), ("SLACK_SIGNING_SECRET", SIGNING)):
        with pytest.raises(SystemExit, match=f"^slack_bot: set {name}, see docs/chat.md$"):
            slack_bot.main()
        monkeypatch.setenv(name, value)
    slack_bot.main()
    monkeypatch.setenv("SLACK_APP_TOKEN", "xa" + "pp-made-up")
    slack_bot.main()
    assert [begun[0], begun[1][0]] == [("http", 3000), "socket"]
