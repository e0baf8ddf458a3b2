"""Diagnoses made by hand, one for each shape of answer that the reports must tell well: what report_examples.yaml holds."""

import msgspec

from slurmdoctor import Diagnosis
from tables import table

_TOLD = table("report_examples")
EXAMPLES = {name: msgspec.convert(told, Diagnosis) for name, told in _TOLD.items()}
CUDA_OOM, ALL_ALIKE, SILENT, EXIT_CODE, NO_FAILURE, UNKNOWN = EXAMPLES.values()
OOM_LINE = CUDA_OOM.first_failure.text or ""
