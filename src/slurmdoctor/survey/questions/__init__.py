"""Questions to a dataset: SQL counts in DuckDB, small pure functions judge the counts."""
