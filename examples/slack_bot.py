"""A Slack bot to start from: mention it beside a log, or call /diagnose, and it answers in the thread.

    pip install slurmdoctor slack-bolt
    export SLACK_BOT_TOKEN=xoxb-...
    export SLACK_APP_TOKEN=xapp-...          # socket mode: no address of your own is needed
    python slack_bot.py

Without SLACK_APP_TOKEN it listens for HTTP on PORT (3000) at /slack/events, and needs SLACK_SIGNING_SECRET.
docs/chat.md has the app's manifest. The bot keeps nothing: no log text is written or printed.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from slurmdoctor import diagnose
from slurmdoctor.model import UserError
from slurmdoctor.report.slack import escape, to_dict

MOST = 10 * 1024 * 1024
"""Bytes read of what somebody attached."""
USAGE = "Paste the log behind the command, or mention me beside a log, a file or in its thread."


def create(client: WebClient, signing_secret: str | None = None, redact: str = "default") -> App:
    """The app with its two ways in; whoever calls starts it."""
    app = App(client=client, signing_secret=signing_secret, request_verification_enabled=signing_secret is not None)
    new = Once()

    @app.event("app_mention")
    def mentioned(event: dict[str, Any], body: dict[str, Any], client: WebClient) -> None:
        if event.get("bot_id") or not new(body.get("event_id", "")):
            return  # bots do not talk to bots; Slack repeats what it thinks was lost
        thread = event.get("thread_ts") or event["ts"]
        log = told_by([event], client)
        if not log and "thread_ts" in event:  # "@slurmdoctor what is this?" below somebody's log
            replies = client.conversations_replies(channel=event["channel"], ts=thread, limit=50)
            log = told_by([m for m in replies["messages"] if not m.get("bot_id") and m["ts"] != event["ts"]], client)
        client.chat_postMessage(channel=event["channel"], thread_ts=thread, **answer(log, redact))

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


def answer(log: str, redact: str = "default") -> dict[str, Any]:
    """What to post about a log; a log can neither ping anyone nor link in it."""
    if not log:
        return {"text": USAGE}
    try:
        return to_dict(diagnose(log if "\n" in log else log + "\n", redact=redact))
    except UserError as error:
        return {"text": escape(str(error))}


def told_by(messages: list[dict[str, Any]], client: WebClient) -> str:
    """The log in these messages: attached files where there are any, else what was written."""
    attached = [file for message in messages for file in message.get("files", [])]
    files = [file for file in attached if not str(file.get("mimetype", "")).startswith(("image/", "video/", "audio/"))]
    texts = [read(file, client) for file in files] if files else [plain(m.get("text", "")) for m in messages]
    log = "\n".join(text for text in texts if text)
    return log if files or looks_like_a_log(log) else ""


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


def read(file: Mapping[str, Any], client: WebClient) -> str:
    """The first megabytes of an attached file."""
    address = str(file.get("url_private_download") or file.get("url_private") or "")
    parts = urllib.parse.urlsplit(address)
    own = urllib.parse.urlsplit(client.base_url)
    at_slack = parts.scheme == "https" and (parts.hostname or "").endswith(".slack.com")
    if not at_slack and parts[:2] != own[:2]:
        return ""  # the token is for Slack alone
    asked = urllib.request.Request(address, headers={"Authorization": f"Bearer {client.token}"})
    try:
        with urllib.request.build_opener(_Stay).open(asked, timeout=20) as reply:
            data: bytes = reply.read(MOST)
    except (OSError, urllib.error.URLError):
        return ""
    return data.decode("utf-8", "replace")


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
