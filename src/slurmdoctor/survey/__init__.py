"""Many jobs: which are there, one row of plain data for each, where the rows are kept, and what they say together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.survey.accounting import find_accounted as find_accounted
    from slurmdoctor.survey.answers import Answers as Answers
    from slurmdoctor.survey.children import python as python
    from slurmdoctor.survey.dask_crew import connect as connect
    from slurmdoctor.survey.dask_crew import send_to_slurm as send_to_slurm
    from slurmdoctor.survey.dataset import open_dataset as open_dataset
    from slurmdoctor.survey.executors import Crew as Crew
    from slurmdoctor.survey.executors import LocalCrew as LocalCrew
    from slurmdoctor.survey.folders import find_in_folders as find_in_folders
    from slurmdoctor.survey.page.html import render as render
    from slurmdoctor.survey.prometheus import metrics as metrics
    from slurmdoctor.survey.pseudonym_key import key as key
    from slurmdoctor.survey.pseudonyms import Anonymizer as Anonymizer
    from slurmdoctor.survey.questions.ask import ask as ask
    from slurmdoctor.survey.questions.ask import ask_both as ask_both
    from slurmdoctor.survey.questions.ask import by_cause_and_partition as by_cause_and_partition
    from slurmdoctor.survey.questions.compare import compare as compare
    from slurmdoctor.survey.questions.table import Choice as Choice
    from slurmdoctor.survey.questions.table import unfinished as unfinished
    from slurmdoctor.survey.rows import SCHEMA_VERSION as SCHEMA_VERSION
    from slurmdoctor.survey.rows import How as How
    from slurmdoctor.survey.rows import Item as Item
    from slurmdoctor.survey.runs import run as run
    from slurmdoctor.survey.tally import Tally as Tally
    from slurmdoctor.survey.text.diff import diff as diff
    from slurmdoctor.survey.text.report import report as report
    from slurmdoctor.survey.versions import version as version
    from slurmdoctor.survey.work import diagnose_one as diagnose_one
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        **{
            "page.html": "render",
            "questions.ask": "ask ask_both by_cause_and_partition",
            "questions.compare": "compare",
            "questions.table": "Choice unfinished",
            "text.diff": "diff",
            "text.report": "report",
        },
        accounting="find_accounted",
        answers="Answers",
        children="python",
        dask_crew="connect send_to_slurm",
        dataset="open_dataset",
        executors="Crew LocalCrew",
        folders="find_in_folders",
        prometheus="metrics",
        pseudonym_key="key",
        pseudonyms="Anonymizer",
        rows="How Item SCHEMA_VERSION",
        runs="run",
        tally="Tally",
        versions="version",
        work="diagnose_one",
    )
