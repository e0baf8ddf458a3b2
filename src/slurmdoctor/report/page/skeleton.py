"""The document around a page's parts: its head with the policy and the style, the link past the top, and the foot."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from slurmdoctor import __version__
from slurmdoctor.report.page.tags import Content, Markup, tag

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""No script, no request, no form: whatever stands in a log, and whatever page shows this one."""


def document(title: str, *body: Content, style: str = "", drawings: Content = None) -> str:
    """The whole page, in ASCII: no server and no locale can misread it. `style` adds to the one of all pages."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"slurmdoctor {__version__}"),
        tag("title", title),
        tag("style", Markup(sheet("slurmdoctor.report") + style)),
    )
    skip = tag("a", "Skip to the details", href="#details", class_="skip")
    foot = tag(
        "footer", f"slurmdoctor {__version__}. This file holds all that it shows and asks nothing of the network."
    )
    whole = tag("html", head, tag("body", drawings, skip, tag("main", *body), foot), lang="en")
    return f"<!DOCTYPE html>\n{whole}\n".encode("ascii", "xmlcharrefreplace").decode("ascii")


@cache
def sheet(package: str) -> str:
    """The style that lies in a package of ours."""
    return (files(package) / ("templates/style.css" if package == "slurmdoctor.report" else "style.css")).read_text(
        encoding="ascii"
    )
