"""Many jobs: which are there, one row of plain data for each, where the rows are kept, and what they say together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.survey.dask_pool import connect, send_to_slurm
    from slurmdoctor.survey.dataset import open_dataset
    from slurmdoctor.survey.listing import (
        Accounts,
        Found,
        find_accounted,
        find_in_folders,
    )
    from slurmdoctor.survey.pool import LocalPool, Pool
    from slurmdoctor.survey.pseudonyms import Anonymizer
    from slurmdoctor.survey.questions import (
        ask,
        ask_both,
        by_cause_and_partition,
        unfinished,
    )
    from slurmdoctor.survey.rows import SCHEMA_VERSION, Choice, How
    from slurmdoctor.survey.runs import Tally, run
    from slurmdoctor.survey.sections import describe
    from slurmdoctor.survey.views import metrics, render, show
    from slurmdoctor.survey.work import diagnose_one, version
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        dask_pool="connect send_to_slurm",
        dataset="open_dataset",
        listing="Accounts Found find_accounted find_in_folders",
        pool="LocalPool Pool",
        pseudonyms="Anonymizer",
        questions="ask ask_both by_cause_and_partition unfinished",
        rows="Choice How SCHEMA_VERSION",
        runs="Tally run",
        sections="describe",
        views="metrics render show",
        work="diagnose_one version",
    )
