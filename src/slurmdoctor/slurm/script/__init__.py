"""What a batch script tells: its directives, its commands, and what is wrong with them."""
