"""Our own `dataclass` makes what the standard library's makes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from slurmdoctor import records

Decorator = Callable[[type], type]
BOTH = pytest.mark.parametrize("made_by", [dataclasses.dataclass, records.dataclass], ids=["standard", "ours"])


def _kind(made_by: Callable[..., Decorator], frozen: bool = True) -> Any:
    class Kind:
        """What it is."""

        COMMON: ClassVar[tuple[str, ...]] = ("a",)
        rank: int
        seen: dict[str, int] = dataclasses.field(default_factory=dict)
        words: tuple[str, ...] = ()

        @property
        def double(self) -> int:
            return self.rank * 2

    return made_by(frozen=frozen, slots=True)(Kind)


@BOTH
@pytest.mark.parametrize("frozen", [True, False])
def test_it_is_a_dataclass(made_by: Callable[..., Decorator], frozen: bool) -> None:
    kind = _kind(made_by, frozen)
    one = kind(3, words=("x",))
    is_one = dataclasses.is_dataclass(kind)  # in a name of its own, or mypy narrows the type
    assert is_one
    assert [field.name for field in dataclasses.fields(kind)] == ["rank", "seen", "words"]
    assert repr(one).endswith("Kind(rank=3, seen={}, words=('x',))")
    assert one == kind(3, {}, ("x",)) != kind(4)
    assert one != (3, {}, ("x",))
    assert dataclasses.replace(one, rank=5) == kind(5, words=("x",))
    assert dataclasses.asdict(one) == {"rank": 3, "seen": {}, "words": ("x",)}
    assert copy.copy(one) == one
    assert copy.deepcopy(one) == one
    assert one.double == 6
    assert kind.COMMON == ("a",)
    assert kind.__match_args__ == ("rank", "seen", "words")
    assert kind.__doc__ == "What it is."
    assert kind(1).seen is not kind(1).seen
    assert not hasattr(one, "__dict__")
    assert (kind.__hash__ is None) is not frozen
    assert [kind(number, words=()) for number in range(40)] == [kind(number) for number in range(40)]


@BOTH
@pytest.mark.parametrize("wrong", [([], {}), ([1, {}, (), 4], {}), ([1], {"wrong": 2}), ([1], {"rank": 2})])
@pytest.mark.parametrize("before", [0, 40])
def test_a_wrong_call_is_an_error(made_by: Callable[..., Decorator], wrong: tuple[Any, Any], before: int) -> None:
    kind = _kind(made_by)
    for number in range(before):
        kind(number)
    with pytest.raises(TypeError, match=r"rank|wrong|positional"):
        kind(*wrong[0], **wrong[1])


@BOTH
def test_frozen_ones_stay_as_they_are(made_by: Callable[..., Decorator]) -> None:
    one = _kind(made_by)(3, words=("x",))
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'rank'"):
        one.rank = 4
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'rank'"):
        del one.rank
    assert hash(dataclasses.replace(one, seen=())) == hash(dataclasses.replace(one, seen=()))


def test_others_may_be_changed() -> None:
    one = _kind(records.dataclass, frozen=False)(3)
    one.rank = 4
    assert one.rank == 4


def test_our_types_can_be_pickled() -> None:
    from slurmdoctor.model import Origin

    assert pickle.loads(pickle.dumps(Origin(rank=3))) == Origin(rank=3)
