"""Who wrote a line: its rank, node and time, and its text without labels."""

from slurmdoctor.ranks.labels import LabelReader, labels_of
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.ranks.maps import RankMapBuilder, of_paths
from slurmdoctor.ranks.meter import PEELED
from slurmdoctor.ranks.source_format import learn, learn_formats
from slurmdoctor.ranks.timestamps import parse_time

__all__ = [
    "PEELED",
    "LabelReader",
    "Lines",
    "RankMapBuilder",
    "labels_of",
    "learn",
    "learn_formats",
    "of_paths",
    "parse_time",
]
