"""What a job left, opened: files, folders, pipes and pastes → blocks of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.input.files import did_you_mean, expand, files_of
    from slurmdoctor.input.job_files import looker, picked, split_jobs
    from slurmdoctor.input.job_names import is_log, named, of_folder
    from slurmdoctor.input.opening import APath, Given, LogText, opened
    from slurmdoctor.input.paste import unwrap
    from slurmdoctor.input.regular_files import UnreadError, notes, open_regular
    from slurmdoctor.input.sources import BLOCK, Block, Source, Text, Witness
    from slurmdoctor.input.streams import ends_of
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        files="did_you_mean expand files_of",
        job_names="is_log named of_folder",
        job_files="looker picked split_jobs",
        opening="APath Given LogText opened",
        paste="unwrap",
        regular_files="UnreadError notes open_regular",
        sources="BLOCK Block Source Text Witness",
        streams="ends_of",
    )
