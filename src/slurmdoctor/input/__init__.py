"""What a job left, opened: files, folders, pipes and pastes → blocks of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.input.files import did_you_mean as did_you_mean
    from slurmdoctor.input.files import expand as expand
    from slurmdoctor.input.files import files_of as files_of
    from slurmdoctor.input.job_names import is_log as is_log
    from slurmdoctor.input.job_names import named as named
    from slurmdoctor.input.job_names import of_folder as of_folder
    from slurmdoctor.input.jobs import ends_of as ends_of
    from slurmdoctor.input.jobs import looker as looker
    from slurmdoctor.input.jobs import picked as picked
    from slurmdoctor.input.jobs import split_jobs as split_jobs
    from slurmdoctor.input.jobs import times_in as times_in
    from slurmdoctor.input.opening import APath as APath
    from slurmdoctor.input.opening import Given as Given
    from slurmdoctor.input.opening import LogText as LogText
    from slurmdoctor.input.opening import opened as opened
    from slurmdoctor.input.paste import unwrap as unwrap
    from slurmdoctor.input.regular_files import UnreadError as UnreadError
    from slurmdoctor.input.regular_files import notes as notes
    from slurmdoctor.input.regular_files import open_regular as open_regular
    from slurmdoctor.input.sources import BLOCK as BLOCK
    from slurmdoctor.input.sources import Block as Block
    from slurmdoctor.input.sources import Source as Source
    from slurmdoctor.input.sources import Text as Text
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        files="did_you_mean expand files_of",
        job_names="is_log named of_folder",
        jobs="ends_of looker picked split_jobs times_in",
        opening="APath Given LogText opened",
        paste="unwrap",
        regular_files="UnreadError notes open_regular",
        sources="BLOCK Block Source Text",
    )
