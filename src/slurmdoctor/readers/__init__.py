"""Lines that the search found → events: rules, tracebacks, exit reports, collectives, stack dumps."""

from slurmdoctor.readers.assembly import assemble
from slurmdoctor.readers.dump_files import beside, named, read_dumps
from slurmdoctor.readers.exit_reports import read_lines
from slurmdoctor.readers.flight_recorder import lines_of
from slurmdoctor.readers.kernel_logs import with_witnesses
from slurmdoctor.readers.rule_events import captures_of, exception_of
from slurmdoctor.readers.targets import find_lines
from slurmdoctor.readers.unknown_lines import known_lines

__all__ = [
    "assemble", "beside", "captures_of", "exception_of", "find_lines", "known_lines", "lines_of", "named", "read_dumps",
    "read_lines", "with_witnesses",
]  # fmt: skip
