"""What a job left, opened: files, folders, pipes and pastes → blocks of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.input.files import did_you_mean as did_you_mean
    from slurmdoctor.input.files import expand as expand
    from slurmdoctor.input.files import files_of as files_of
    from slurmdoctor.input.given import APath as APath
    from slurmdoctor.input.given import Given as Given
    from slurmdoctor.input.given import LogText as LogText
    from slurmdoctor.input.given import opened as opened
    from slurmdoctor.input.glance import Looker as Looker
    from slurmdoctor.input.glance import by_time as by_time
    from slurmdoctor.input.glance import ends_of as ends_of
    from slurmdoctor.input.glance import times_in as times_in
    from slurmdoctor.input.job_names import is_log as is_log
    from slurmdoctor.input.job_names import named as named
    from slurmdoctor.input.job_names import of_folder as of_folder
    from slurmdoctor.input.jobs import picked as picked
    from slurmdoctor.input.jobs import split_jobs as split_jobs
    from slurmdoctor.input.paste import unwrap as unwrap
    from slurmdoctor.input.sources import BLOCK as BLOCK
    from slurmdoctor.input.sources import Block as Block
    from slurmdoctor.input.sources import Source as Source
    from slurmdoctor.input.sources import Text as Text
    from slurmdoctor.input.trusted import open_regular as open_regular
    from slurmdoctor.input.unread import UnreadError as UnreadError
    from slurmdoctor.input.unread import notes as notes
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        files="did_you_mean expand files_of",
        given="APath Given LogText opened",
        glance="Looker by_time ends_of times_in",
        job_names="is_log named of_folder",
        jobs="picked split_jobs",
        paste="unwrap",
        sources="BLOCK Block Source Text",
        trusted="open_regular",
        unread="UnreadError notes",
    )
