"""Events → order: attempts, progress, clocks, and what was survived."""

from slurmdoctor.timeline.attempts import side_by_side
from slurmdoctor.timeline.ordering import by_zone, end_of, order, run_state

__all__ = ["by_zone", "end_of", "order", "run_state", "side_by_side"]
