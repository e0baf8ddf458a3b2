"""Who wrote a line: its rank, node and time, and its text without labels."""

from slurmdoctor.ranks.excerpts import Excerpts, Place
from slurmdoctor.ranks.labels import LabelReader, labels_of, learn, learn_formats, parse_time
from slurmdoctor.ranks.rank_map import RankMapBuilder, of_paths

__all__ = [
    "Excerpts",
    "LabelReader",
    "Place",
    "RankMapBuilder",
    "labels_of",
    "learn",
    "learn_formats",
    "of_paths",
    "parse_time",
]
