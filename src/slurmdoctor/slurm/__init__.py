"""What Slurm knows of a job: its record, its logs, and what both say of a verdict."""
