"""`python -m slurmdoctor`."""

from slurmdoctor.cli import main

main()
