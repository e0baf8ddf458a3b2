"""Real jobs on a small Slurm of our own."""
