"""Events → order: attempts, progress, clocks, and what was survived."""

from slurmdoctor.timeline.ordering import order
from slurmdoctor.timeline.standstill import by_zone, end_of, run_state

__all__ = ["by_zone", "end_of", "order", "run_state"]
