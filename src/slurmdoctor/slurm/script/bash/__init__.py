"""The pieces of bash that the parser takes apart: words with their values, and the shapes of statements."""
