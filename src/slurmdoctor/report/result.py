"""What `slurmdoctor.diagnose` returns: a diagnosis with its reports as methods."""

from __future__ import annotations

from typing import Any

from slurmdoctor import model


class Diagnosis(model.Diagnosis, frozen=True):
    """The verdict on a job, with everything that proves it."""

    @classmethod
    def of(cls, found: model.Diagnosis) -> Diagnosis:
        """The same with its methods."""
        return cls(*(getattr(found, name) for name in model.Diagnosis.__struct_fields__))

    # the forms are imported where they are asked for: the terminal's report needs none of them

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract, schema_version 1 (`slurmdoctor/report/schema.json`)."""
        from slurmdoctor.report.json import to_dict

        return to_dict(self)

    def to_markdown(self) -> str:
        """A short answer for a chat: at most 1,500 characters, safe to post once redacted."""
        from slurmdoctor.report.markdown import render

        return render(self)
