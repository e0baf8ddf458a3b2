"""Diagnoses made by hand, one for each shape of answer that the reports must tell well: what report_examples.yaml holds."""

from pathlib import Path

import msgspec

from slurmdoctor import Diagnosis
from tables import parsed

_TOLD = parsed((Path(__file__).parent / "report_examples.yaml").read_text(encoding="utf-8"))
EXAMPLES = {name: msgspec.convert(told, Diagnosis) for name, told in _TOLD.items()}
CUDA_OOM, ALL_ALIKE, SILENT, EXIT_CODE, NO_FAILURE, UNKNOWN = EXAMPLES.values()
OOM_LINE = CUDA_OOM.first_failure.text or ""
