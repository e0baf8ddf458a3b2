"""The steps of `infer`, one a module: incidents, outcome, root, silent culprits, first rank, ending, confidence."""

from slurmdoctor.infer.conclude import infer
from slurmdoctor.infer.rank_timelines import chart

__all__ = ["chart", "infer"]
