"""The types that cross a stage, in the order in which data meets them; docs/glossary.md defines their words.

The room is its own door: all that its modules define is for the others.
"""

# ruff: noqa: F403

from slurmdoctor.model.diagnosis import *
from slurmdoctor.model.events import *
from slurmdoctor.model.frozen import *
from slurmdoctor.model.job_records import *
from slurmdoctor.model.knowledge import *
from slurmdoctor.model.limits import *
from slurmdoctor.model.notation import *
from slurmdoctor.model.words import *
