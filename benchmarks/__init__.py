"""How fast `slurmdoctor diagnose` is beside the tools that people use today."""
