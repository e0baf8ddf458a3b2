"""The error that a person can mend: a bad call or bad input."""

from __future__ import annotations


class UserError(Exception):
    """A bad call or bad input: one line that says what is wrong, and one that says how to mend it."""

    def __init__(self, message: str, mend: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.mend = mend

    @property
    def lines(self) -> tuple[str, ...]:
        """The same, one line a problem; a name in it may hold a line end of its own."""
        return (str(self),)

    def __str__(self) -> str:
        return f"{self.message}: {self.mend}" if self.mend else self.message

    def __reduce__(self) -> tuple[object, ...]:
        """As it stands, for another process: exceptions pickle only what they were called with."""
        return type(self).__new__, (type(self),), self.__dict__


class LogNotFoundError(UserError, FileNotFoundError):
    """No file has the name, or none fits the pattern."""
