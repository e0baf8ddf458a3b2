"""Tells the lines of Python tracebacks from other lines: an exception's own, `pkg.SomeError: text`, and a frame.

The syntax is CPython's own (traceback.py, 3.8 to 3.14), with the tree that an exception group draws before it:

    | torch.OutOfMemoryError: CUDA out of memory.
"""

from __future__ import annotations

from slurmdoctor.matching import lazy

_EXCEPTION = lazy(
    r"^[ `>|]{0,8}(?P<class>(?:[A-Za-z_]\w*\.)*(?P<name>[A-Za-z_]\w*))(?:\([\w.]+\))?(?::\s?(?P<text>.*)|\s*)$"
)
_NAMED_LIKE_ONE = lazy(
    r"(?:Error|Exception|Interrupt|Exit|Iteration|Failure|Timeout|Warning|Unavailable|Refused|Group|NotFound|(?:Invalid|Corrupt)\w{0,64}+)$"
)
TREE = lazy(r"^[ ]*(?:[|+](?:-[-+]*)?[ ]?)+")
"""What an exception group draws before its lines."""


def undecorated(text: str) -> str:
    """The line without an exception group's tree, a quote mark or a paste's backtick before it."""
    return TREE.sub("", text).lstrip(" `>")


def begins_frame(text: str) -> bool:
    """Whether a line begins as a traceback's frame does: `File "train.py", line 3, in main`."""
    return text.lstrip(" |").startswith("File ")


def exception_of(text: str, strict: bool = True) -> tuple[str, str] | None:
    """(class name, message) where a line begins as an exception's own line does.

    With `strict`, the class must be named like an exception, or be a class of a module; without, any name will do.
    """
    if text.startswith("\\"):
        return None
    found = _EXCEPTION.match(TREE.sub("", text))
    if found is None:
        return None
    named = _NAMED_LIKE_ONE.search(found["name"]) or (
        "." in found["class"] and (found["name"][0].isupper() or found["name"].endswith("error"))
    )
    if not named and (strict or (found["text"] is None and "." not in found["class"])):
        return None
    return found["name"], found["text"] or ""
