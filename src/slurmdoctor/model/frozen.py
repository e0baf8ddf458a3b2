"""What all types that cross a stage have in common: no stage changes what an earlier one returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        """What tells mypy that all classes below it are frozen, too."""
        return lambda one: one


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Frozen(Struct, frozen=True):
    """Plain data that nobody changes."""


class Packed(Frozen, array_like=True):
    """The same, kept as an array of its fields."""
