"""The answers at the terminal: sections of short tables, the most telling first."""
