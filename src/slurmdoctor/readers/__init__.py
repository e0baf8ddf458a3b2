"""Lines that the search found → events: rules, tracebacks, exit reports, collectives, stack dumps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.readers.assembly import assemble
    from slurmdoctor.readers.dump_files import beside, named, read_dumps
    from slurmdoctor.readers.exit_reports import read_lines
    from slurmdoctor.readers.flight_recorder import lines_of
    from slurmdoctor.readers.kernel_logs import with_witnesses
    from slurmdoctor.readers.rule_events import captures_of, exception_of
    from slurmdoctor.readers.targets import find_lines
    from slurmdoctor.readers.unknown_lines import known_lines
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        assembly="assemble",
        dump_files="beside named read_dumps",
        exit_reports="read_lines",
        flight_recorder="lines_of",
        kernel_logs="with_witnesses",
        rule_events="captures_of exception_of",
        targets="find_lines",
        unknown_lines="known_lines",
    )
