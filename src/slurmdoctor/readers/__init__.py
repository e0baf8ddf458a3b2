"""Lines that the search found → events: rules, tracebacks, exit reports, collectives, stack dumps."""
