"""Many jobs: which are there, one row of plain data for each, where the rows are kept, and what they say together."""
