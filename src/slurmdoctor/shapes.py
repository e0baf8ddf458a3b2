"""Lines that differ in their digits only have one shape: what one of them says to a pattern, all of them say."""

from __future__ import annotations

import re

DIGITS = bytes.maketrans(b"123456789", b"000000000")
"""For bytes.translate: makes a line its shape. Runs of digits keep their length, so `\\d{3}` still sees three."""

_NO_DIGITS_MEANT = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[dDwWsSbBAZ])"  # escapes that stand for classes or fixed characters
    r"|(?<!\\)\{\d*,?\d*\}"  # quantifiers
    r"|\(\?P<\w+>"  # names of groups
    r"|0-9|0-\?"  # all digits at once
)


_SAME_AGAIN = re.compile(r"\(\?P=\w+\)|\\[1-9]")
_MAY_TAKE_DIGITS = re.compile(r"\\[dwS]|(?<!\\)\.|\[\^|0-9")


def digits_matter(pattern: str) -> bool:
    """Whether a pattern may take one line and refuse another that differs in its digits only."""
    if "(?(" in pattern or (_SAME_AGAIN.search(pattern) and _MAY_TAKE_DIGITS.search(pattern)):
        return True
    pattern = _SAME_AGAIN.sub("", pattern)
    return re.search(r"[0-9]", _NO_DIGITS_MEANT.sub("", pattern)) is not None
