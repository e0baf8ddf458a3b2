"""How `scan` reads gigabytes: the native search, shapes of lines, exact tallies, several processes."""
