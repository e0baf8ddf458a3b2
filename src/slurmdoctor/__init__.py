"""slurmdoctor finds the rank that broke a training job, and why, from what the job left behind."""

__version__ = "0.1.0"
