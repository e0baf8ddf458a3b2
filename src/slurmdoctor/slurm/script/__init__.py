"""A batch script → its directives and commands, its plan (steps, sizes), and the findings of `lint`."""
