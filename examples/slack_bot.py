"""A Slack bot to start from: mention it beside a log, or call /diagnose, and it answers in the thread.

    pip install . slack-bolt     # in a clone
    export SLACK_BOT_TOKEN=xoxb-...
    export SLACK_APP_TOKEN=xapp-...          # socket mode: no address of your own is needed
    python slack_bot.py

Without SLACK_APP_TOKEN it listens for HTTP on PORT (3000) at /slack/events, and needs SLACK_SIGNING_SECRET.
docs/chat.md has the app's manifest. The bot keeps nothing: no log text is written or printed. Of a large attachment it reads the
head and the end, and says so; two mentions with files are answered at a time, and pastes do not wait for them.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from slurmdoctor import Diagnosis, LogText, UserError, diagnose, diagnose_jobs, diagnose_text

MOST = 10 * 1024 * 1024
"""Bytes read of what somebody attached: half of them from the head, half from the end."""
MOST_FILES = 16
MOST_STREAMED = 1024 * 1024 * 1024
"""Bytes passed over to the end of a file, where Slack gives no part of it."""
DOWNLOAD = 40.0
"""Seconds that the files of one question may take, and"""
SECONDS = 20.0
"""that their diagnosis may; then the bot says what it has."""
PIECE = 64 * 1024
AT_ONCE = 2
"""Mentions with files that are answered at a time."""
BUSY = "Other logs are being read: mention me again in a minute."
WHAT_BROKE = re.compile(
    r"what (?:broke|failed|went wrong|is wrong)|why\b.{0,60}(?:fail|crash|die|broke|hang|stop)", re.IGNORECASE
)
"""Whoever asks so knows that the job failed."""
USAGE = "Paste the log behind the command, or mention me beside a log, a file or in its thread."


def create(client: WebClient, signing_secret: str | None = None, redact: str = "default") -> App:
    """The app with its two ways in; whoever calls starts it."""
    app = App(client=client, signing_secret=signing_secret, request_verification_enabled=signing_secret is not None)
    new = Once()
    free = threading.BoundedSemaphore(AT_ONCE)

    @app.event("app_mention")
    def mentioned(event: dict[str, Any], body: dict[str, Any], client: WebClient) -> None:
        if event.get("bot_id") or not new(body.get("event_id", "")):
            return  # bots do not talk to bots; Slack repeats what it thinks was lost
        thread = event.get("thread_ts") or event["ts"]
        messages = [event]
        if not says_something(event) and "thread_ts" in event:  # "@slurmdoctor what is this?" below somebody's log
            replies = client.conversations_replies(channel=event["channel"], ts=thread, limit=50)
            messages = [m for m in replies["messages"] if not m.get("bot_id") and m["ts"] != event["ts"]]
        message = {"text": BUSY}
        failed = WHAT_BROKE.search(event.get("text", "")) is not None
        if not (files := attached(messages)):
            message = answer(pasted(messages), redact, failed)
        elif free.acquire(blocking=False):
            try:
                message = answer(downloaded(files, client), redact, failed)
            finally:
                free.release()
        client.chat_postMessage(channel=event["channel"], thread_ts=thread, **message)

    @app.command("/diagnose")
    def called(
        ack: Callable[..., Any], command: dict[str, Any], client: WebClient, respond: Callable[..., Any]
    ) -> None:
        ack()
        log = plain(command.get("text", ""))
        if not log:
            respond(USAGE)
            return
        message = answer(log, redact)
        try:  # a command stands in no thread: one line opens one, and the answer goes below it
            opened = client.chat_postMessage(
                channel=command["channel_id"], text=f"<@{command['user_id']}> asked about a log: {message['text']}"
            )
            client.chat_postMessage(channel=command["channel_id"], thread_ts=opened["ts"], **message)
        except SlackApiError:  # not a member of the channel: only the asker sees the answer
            respond(text=message["text"], blocks=message["blocks"])

    return app


def answer(log: str | list[LogText], redact: str = "default", failed: bool = False) -> dict[str, Any]:
    """What to post about a log; a log can neither ping anyone nor link in it."""
    if not log:
        return {"text": USAGE}
    try:
        if isinstance(log, str):
            verdicts = [diagnose_text(log, redact=redact, time_limit=SECONDS, failed=failed)]
        elif len(log) == 1:
            verdicts = [diagnose(log, redact=redact, time_limit=SECONDS, failed=failed)]
        else:
            verdicts = list(diagnose_jobs(log, redact=redact, time_limit=SECONDS))
    except UserError as error:
        return {"text": "There is no answer.", "blocks": [{"type": "section", "text": unmarked(str(error))}]}
    if len(verdicts) > 1:
        return listed(verdicts)
    found = verdicts[0]
    message = found.to_slack()
    if found.coverage.notes:
        note = unmarked("; ".join(found.coverage.notes)[:300])
        message["blocks"] = [*message["blocks"], {"type": "context", "elements": [note]}]
    return message


def listed(verdicts: list[Diagnosis]) -> dict[str, Any]:
    """A line for each job, where the attachments are of several."""
    rows = [f"{one.job.label}: {one.headline}" + f" ({one.cause.id})" * one.failed for one in verdicts]
    head = f"{len(verdicts)} jobs, of which {sum(one.failed for one in verdicts)} failed. Send one's files alone for its fix."
    return {"text": head, "blocks": [{"type": "section", "text": unmarked("\n".join([head, *rows])[:2900])}]}


def unmarked(text: str) -> dict[str, Any]:
    """Text that Slack shows as it is: nothing in it is a mention or a link."""
    return {"type": "plain_text", "text": text, "emoji": False}


def attached(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The files beside these messages that may be logs."""
    files = [file for message in messages for file in message.get("files", [])]
    return [file for file in files if not str(file.get("mimetype", "")).startswith(("image/", "video/", "audio/"))]


def pasted(messages: list[dict[str, Any]]) -> str:
    """The log in the text of these messages."""
    log = "\n".join(filter(None, (plain(message.get("text", "")) for message in messages)))
    return log if looks_like_a_log(log) else ""


def says_something(message: dict[str, Any]) -> bool:
    return bool(attached([message]) or pasted([message]))


def looks_like_a_log(text: str) -> bool:
    """A question is no log: a log has several lines, or a long one, or names an error."""
    return (
        "\n" in text or len(text) > 200 or re.search(r"error|exception|killed|fault", text, re.IGNORECASE) is not None
    )


def plain(text: str) -> str:
    """A message as it was typed: Slack sends links in brackets, and three characters as entities."""
    text = re.sub(r"<@[A-Z0-9]+(?:\|[^<>]*)?>", "", text)
    text = re.sub(r"<(?:https?://|mailto:)[^|<>\s]+\|([^<>]*)>|<(https?://[^|<>\s]+)>", r"\1\2", text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").strip()


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """The token must not follow a redirect to somebody else."""


def downloaded(files: list[dict[str, Any]], client: WebClient) -> list[LogText]:
    """The logs attached: of the first files as much as there is room and time for."""
    until = time.monotonic() + DOWNLOAD
    kept = files[:MOST_FILES]
    found = [read(file, client, MOST // len(kept) // 2, until) for file in kept]
    return [log for log in found if log is not None]


def read(file: Mapping[str, Any], client: WebClient, half: int, until: float) -> LogText | None:
    """So many bytes of an attached file's head, and of its end; None where nothing can be had."""
    name = str(file.get("name") or "attachment")
    try:
        with get(file, client) as reply:
            data, whole = take(reply, 2 * half + 1, until)
            if whole and len(data) <= 2 * half:
                return LogText(data, name)
            end, left = the_end(file, client, half, until) or last(reply, data, half, until)
    except OSError:
        return None
    head = data[: data.rfind(b"\n", 0, half) + 1] or data[:half]
    end = end[end.find(b"\n") + 1 :]
    return LogText(head, name, end, left_out=max(left - len(head) - len(end), 1))


def get(file: Mapping[str, Any], client: WebClient, **headers: str) -> Any:
    """Ask Slack for a file. Raises OSError where it is not to be had."""
    address = str(file.get("url_private_download") or file.get("url_private") or "")
    parts = urllib.parse.urlsplit(address)
    own = urllib.parse.urlsplit(client.base_url)
    at_slack = parts.scheme == "https" and (parts.hostname or "").endswith(".slack.com")
    if not at_slack and parts[:2] != own[:2]:
        raise OSError("the token is for Slack alone")
    asked = urllib.request.Request(address, headers={"Authorization": f"Bearer {client.token}", **headers})
    return urllib.request.build_opener(_Stay).open(asked, timeout=10)


def more(reply: Any, most: int = PIECE) -> bytes | None:
    """What came since; no bytes at the end, and None where the connection broke."""
    try:
        piece: bytes = reply.read1(min(PIECE, most))
    except OSError:
        return None
    return piece


def take(reply: Any, most: int, until: float) -> tuple[bytes, bool]:
    """(so many bytes or fewer, whether there were no more)."""
    data = bytearray()
    while len(data) < most and time.monotonic() < until:
        piece = more(reply, most - len(data))
        if not piece:
            return bytes(data), piece is not None
        data += piece
    return bytes(data), False


def the_end(file: Mapping[str, Any], client: WebClient, half: int, until: float) -> tuple[bytes, int] | None:
    """(the last bytes of a file, its size) where Slack gives a part of it."""
    try:
        with get(file, client, Range=f"bytes=-{half}") as reply:
            size = re.fullmatch(r"bytes [0-9]{1,15}-[0-9]{1,15}/([0-9]{1,15})", reply.headers.get("Content-Range", ""))
            return (take(reply, half, until)[0], int(size[1])) if reply.status == 206 and size else None
    except OSError:
        return None


def last(reply: Any, begun: bytes, half: int, until: float) -> tuple[bytes, int]:
    """(the last bytes of a reply of which some were read, its size): all of it is passed over. No bytes where that takes too long."""
    end, size = bytearray(begun[-half:]), len(begun)
    while size < MOST_STREAMED and time.monotonic() < until:
        piece = more(reply)
        if piece is None:
            break
        if not piece:
            return bytes(end[-half:]), size
        size += len(piece)
        end += piece
        if len(end) > 2 * half:
            del end[:-half]
    return b"", size


class Once:
    """Says True for an event the first time, and False again and again after."""

    def __init__(self, most: int = 1000) -> None:
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._most = most
        self._lock = threading.Lock()

    def __call__(self, event: str) -> bool:
        with self._lock:
            if event and event in self._seen:
                return False
            self._seen[event] = None
            while len(self._seen) > self._most:
                self._seen.popitem(last=False)
        return True


def main() -> None:
    for needed in ("SLACK_BOT_TOKEN", "" if "SLACK_APP_TOKEN" in os.environ else "SLACK_SIGNING_SECRET"):
        if needed and needed not in os.environ:
            sys.exit(f"slack_bot: set {needed}, see docs/chat.md")
    client = WebClient(
        token=os.environ["SLACK_BOT_TOKEN"], base_url=os.environ.get("SLACK_API_URL", WebClient.BASE_URL)
    )
    redact = os.environ.get("SLURMDOCTOR_REDACT", "default")
    if app_token := os.environ.get("SLACK_APP_TOKEN"):
        SocketModeHandler(create(client, redact=redact), app_token).start()  # type: ignore[no-untyped-call]
    else:
        create(client, os.environ["SLACK_SIGNING_SECRET"], redact).start(port=int(os.environ.get("PORT", "3000")))


if __name__ == "__main__":
    main()
