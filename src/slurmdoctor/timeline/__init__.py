"""Events → order: attempts, progress, clocks, and what was survived."""
