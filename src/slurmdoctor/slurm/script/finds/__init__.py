"""What may be wrong in a script several times: a module a subject. `occurrences` has the table."""
