"""What `slurmdoctor.diagnose` returns: a diagnosis with its reports as methods."""

from __future__ import annotations

from typing import Any

from slurmdoctor import model


class Diagnosis(model.Diagnosis, frozen=True):
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
        from slurmdoctor.report.jobs import Row

        return Row.of(self).headline

    # the forms are imported where they are asked for: the terminal's report needs none of them

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract, schema_version 1 (`slurmdoctor/report/schema.json`)."""
        from slurmdoctor.report.json_report import to_dict

        return to_dict(self)

    def to_json(self) -> str:
        """The JSON contract as one line of JSON, in ASCII."""
        import json

        return json.dumps(self.to_dict(), allow_nan=False)

    def to_text(self, width: int = 100, *, colour: bool = False, context: int = 0, ranks: bool = False) -> str:
        """The terminal's report; with `context` so many more lines of the traceback, with `ranks` the state of every rank."""
        from slurmdoctor.report.text_report import render_text

        return render_text(self, width=width, colour=colour, context=context, ranks=ranks)

    def to_markdown(self) -> str:
        """A short answer for a chat: at most 1,500 characters, safe to post once redacted."""
        from slurmdoctor.report.markdown_report import render

        return render(self)

    def to_slack(self) -> dict[str, Any]:
        """What Slack's `chat.postMessage` and incoming webhooks take, but for the channel; nothing in it can ping or link."""
        from slurmdoctor.report.slack_report import to_dict

        return to_dict(self)

    def to_html(self) -> str:
        """A page that needs no script, no network and no other file."""
        from slurmdoctor.report.html_report import render

        return render(self)

    def __str__(self) -> str:
        return self.to_text().rstrip("\n")

    def __repr__(self) -> str:
        """One line: the whole is in `to_dict`."""
        told = {"cause": self.cause.id, "rank": self.first_failure.rank, "confidence": self.cause.confidence}
        known = "".join(f", {name}={value!r}" for name, value in told.items() if value is not None)
        return f"Diagnosis({self.verdict!r}{known})"

    def _repr_html_(self) -> str:
        """The report in a notebook."""
        import html

        return f"<pre>{html.escape(str(self))}</pre>"
