"""Reads what no rule knows: which cause a line reads like, learnt from the rules' examples and from labelled logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.classifier.features import (
        COLUMNS,
        columns,
        is_trouble,
        masked,
        pieces_of,
        place_of,
        words_of,
    )
    from slurmdoctor.classifier.learned import (
        SCALE,
        Classifier,
        Weights,
        classifier,
    )
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        features="COLUMNS columns is_trouble masked pieces_of place_of words_of",
        learned="SCALE Classifier Weights classifier",
    )
