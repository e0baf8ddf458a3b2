"""How `scan` reads gigabytes: the native search, shapes of lines, exact tallies, several processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.search.literals import Literals
    from slurmdoctor.search.scanner import LONG_LINE, scan, usual_jobs
    from slurmdoctor.search.shapes import (
        DIGITS,
        Shaped,
        digit_sensitive,
        digits_matter,
        relaxed,
        shape_of,
        template_of,
    )
    from slurmdoctor.search.tally import MOST
    from slurmdoctor.search.writer_key import (
        HEAD,
        Span,
        WriterKey,
        tag_pattern,
    )
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        literals="Literals",
        scanner="LONG_LINE scan usual_jobs",
        shapes="DIGITS Shaped digit_sensitive digits_matter relaxed shape_of template_of",
        tally="MOST",
        writer_key="HEAD Span WriterKey tag_pattern",
    )
