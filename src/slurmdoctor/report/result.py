"""What `slurmdoctor.diagnose` returns: a diagnosis with its reports as methods; and the JSON contract, schema_version 1 (`schema.json`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from slurmdoctor import __version__, model

SCHEMA_VERSION = 1
_FACTS = ("world_size", "nodes", "launcher", "framework", "attempts", "last_step")
"""Facts that are always there; a log may add others."""
_NOT_IN_IT = ("rank_timelines", "surroundings", "last_words")
"""What a diagnosis holds besides."""


class Diagnosis(model.Diagnosis):
    """The verdict on a job, with everything that proves it.

    `print(found)` shows the terminal's report. Where nothing failed, `found.failed` is False, `found.cause` is false, and what
    would be in it and in `found.first_failure` is None.
    """

    @classmethod
    def of(cls, found: model.Diagnosis) -> Diagnosis:
        """The same with its methods."""
        return cls(*(getattr(found, name) for name in model.Diagnosis.__struct_fields__))

    @property
    def failed(self) -> bool:
        """Whether the job failed. False also where that is not known: then `verdict` is "unknown"."""
        return self.verdict == "failed"

    @property
    def headline(self) -> str:
        """The verdict in one line, as in a list of jobs: `rank 5 on gpu-a2 ran out of GPU memory`."""
        from slurmdoctor.report.wording import Row

        return Row.of(self).headline

    # the forms are imported where they are asked for: the terminal's report needs none of them

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract, schema_version 1 (`slurmdoctor/report/schema.json`)."""
        return to_dict(self)

    def to_json(self) -> str:
        """The JSON contract as one line of JSON, in ASCII."""
        import json

        return json.dumps(self.to_dict())

    def to_text(self, width: int = 100, *, colour: bool = False, context: int = 0, ranks: bool = False) -> str:
        """The terminal's report; with `context` so many more lines of the traceback, with `ranks` the state of every rank."""
        from slurmdoctor.report.text_report import render_text

        return render_text(self, width=width, colour=colour, context=context, ranks=ranks)

    def to_markdown(self) -> str:
        """A short answer for a chat: at most 1,500 characters, safe to post once redacted."""
        return render(self, "markdown")

    def to_slack(self) -> dict[str, Any]:
        """What Slack's `chat.postMessage` and incoming webhooks take, but for the channel; nothing in it can ping or link."""
        from slurmdoctor.report.chat import slack_message

        return slack_message(self)

    def to_html(self) -> str:
        """A page that needs no script, no network and no other file."""
        return render(self, "html")

    def __str__(self) -> str:
        return self.to_text().rstrip("\n")

    def __repr__(self) -> str:
        """One line: the whole is in `to_dict`."""
        shown = {"cause": self.cause.id, "rank": self.first_failure.rank, "confidence": self.cause.confidence}
        known = "".join(f", {name}={value!r}" for name, value in shown.items() if value is not None)
        return f"Diagnosis({self.verdict!r}{known})"

    def _repr_html_(self) -> str:
        """The report in a notebook."""
        import html

        return f"<pre>{html.escape(str(self))}</pre>"


def render(found: model.Diagnosis, form: str) -> str:
    """The report as `json`, `markdown`, `slack`, `github` or `html`. All but HTML's text and Markdown's is ASCII."""
    if form == "markdown":
        from slurmdoctor.report.chat import render_markdown

        return render_markdown(found)
    if form == "github":
        return render_jobs([found], form)
    if form == "html":
        from slurmdoctor.report.html_report import render_html

        return render_html(found)
    import json

    if form == "json":
        return json.dumps(to_dict(found), indent=2) + "\n"
    from slurmdoctor.report.chat import slack_message

    return json.dumps(slack_message(found), indent=2) + "\n"


def render_jobs(found: Sequence[model.Diagnosis], form: str) -> str:
    """Several jobs in one report as `markdown`, `slack`, `github` or `html`."""
    if form == "github":
        from slurmdoctor.report.lint_report import annotation, commands

        return commands(map(annotation, found))
    if form == "html":
        from slurmdoctor.report.html_report import render_jobs_html

        return render_jobs_html(found)
    from slurmdoctor.report.chat import jobs_markdown, jobs_slack
    from slurmdoctor.report.wording import Row

    return (jobs_markdown if form == "markdown" else jobs_slack)([Row.of(one) for one in found])


def to_dict(found: model.Diagnosis) -> dict[str, Any]:
    """The contract as plain Python values: every key present, unknown is None, none is []."""
    names = [name for name in found.__struct_fields__ if name not in _NOT_IN_IT]
    contract: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "slurmdoctor": __version__}
    contract |= {name: _plain(getattr(found, name)) for name in names}
    del contract["first_failure"]["telling"], contract["job"]["known_by"], contract["job"]["doubtful"]
    contract["retry"] = contract["retry"] or {"advice": None, "why": None, "exclude_nodes": []}
    if contract["retry"]["advice"] == "unknown":
        contract["retry"]["advice"] = None
    contract["facts"] = {**dict.fromkeys(_FACTS), **contract["facts"]}
    reached = found.extent
    contract["extent"] = {
        "failed": len(reached.ranks) or None,
        "of": reached.of,
        "ranks": model.ranges(reached.ranks) or None,
        "nodes": _plain(reached.nodes),
    }
    return contract


def _plain(value: Any) -> Any:
    """Only what JSON can say: no NaN, no type of ours."""
    import json

    written = json.dumps(to_builtins(value, enc_hook=str, order="deterministic"))
    return json.loads(written, parse_constant=lambda _: None)
