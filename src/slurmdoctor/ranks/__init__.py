"""Who wrote a line: its rank, node and time, and its text without labels."""
