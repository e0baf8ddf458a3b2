"""The parts of the survey's HTML page, a module each, on the doors of `report.page`: no text of a dataset becomes markup."""
