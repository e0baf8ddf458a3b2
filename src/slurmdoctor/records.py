"""`dataclass` for the modules that every diagnosis imports: what the standard library's makes, in a tenth of the time.

That one writes and compiles six methods a class, and makes each class with slots twice: for our fifty types a third of
the time that a pasted log takes. Here the methods are shared, and `__init__` is compiled where many objects are
made. `fields`, `replace`, `is_dataclass` and type checkers take such a class for a dataclass; all have slots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    from collections.abc import Callable, Iterator
    from typing import Any

    def dataclass(*, frozen: bool = False, slots: bool) -> Callable[[type], type]:
        """A dataclass with slots whose annotations are strings (`from __future__`); of what `field` offers, defaults alone are meant."""
        assert slots

        def make(kind: type) -> type:
            return _made(kind, frozen)

        return make

    def _made(kind: type, frozen: bool) -> type:
        body = dict(kind.__dict__)
        described = {}
        for name, annotation in kind.__annotations__.items():
            if annotation.startswith("ClassVar["):
                continue
            default = body.pop(name, dataclasses.MISSING)
            field = default if isinstance(default, dataclasses.Field) else dataclasses.field(default=default)
            field.name, field.type, field._field_type = name, annotation, dataclasses._FIELD
            described[name] = field
        body.pop("__dict__", None)
        body.pop("__weakref__", None)
        body["__slots__"] = body["__match_args__"] = tuple(described)
        body["__dataclass_fields__"] = described
        body["__init__"] = _first_init
        body["__repr__"] = _repr
        body["__eq__"] = _eq
        body["__hash__"] = _hash if frozen else None
        body["__getstate__"] = _getstate
        body["__setstate__"] = _setstate
        if frozen:
            body["__setattr__"] = _refuse_to_set
            body["__delattr__"] = _refuse_to_delete
        return type(kind)(kind.__name__, kind.__bases__, body)

    _few: dict[type, int] = {}
    """How many objects were made of each type; those of which many are get an `__init__` of their own."""

    def _first_init(self: Any, *values: Any, **named: Any) -> None:
        """Stands in for `__init__`: of most types a log needs less objects than are worth compiling it."""
        kind = type(self)
        fields = kind.__dataclass_fields__
        given = {**dict(zip(fields, values, strict=False)), **named}
        missing = [name for name, field in fields.items() if name not in given]
        needed = [name for name in missing if fields[name].default is fields[name].default_factory]
        _few[kind] = _few.get(kind, 0) + 1
        if needed or len(given) < len(values) + len(named) or not given.keys() <= fields.keys() or _few[kind] > 16:
            kind.__init__ = _init(kind)
            kind.__init__(self, *values, **named)  # says what is wrong with the call
            return
        for name, value in given.items():
            object.__setattr__(self, name, value)
        for name in missing:
            make = fields[name].default_factory
            object.__setattr__(self, name, fields[name].default if make is dataclasses.MISSING else make())

    def _init(kind: type) -> Callable[..., None]:
        known: dict[str, Any] = {"_set": object.__setattr__, "_none": dataclasses.MISSING}
        head, lines = ["self"], []
        for name, field in kind.__dataclass_fields__.items():
            value = name
            if field.default_factory is not dataclasses.MISSING:
                known[f"_make_{name}"] = field.default_factory
                head.append(f"{name}=_none")
                value = f"_make_{name}() if {name} is _none else {name}"
            elif field.default is not dataclasses.MISSING:
                known[f"_default_{name}"] = field.default
                head.append(f"{name}=_default_{name}")
            else:
                head.append(name)
            lines.append(f" _set(self, {name!r}, {value})\n")
        exec(f"def __init__({', '.join(head)}):\n{''.join(lines)}", known)
        made: Callable[..., None] = known["__init__"]
        made.__qualname__ = f"{kind.__qualname__}.__init__"
        return made

    def _values(self: Any) -> Iterator[Any]:
        return (getattr(self, name) for name in self.__slots__)

    def _repr(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__qualname__}({shown})"

    def _eq(self: Any, other: object) -> bool:
        return tuple(_values(self)) == tuple(_values(other)) if type(other) is type(self) else NotImplemented

    def _hash(self: Any) -> int:
        return hash(tuple(_values(self)))

    def _getstate(self: Any) -> list[Any]:
        return list(_values(self))

    def _setstate(self: Any, state: list[Any]) -> None:
        for name, value in zip(self.__slots__, state, strict=True):
            object.__setattr__(self, name, value)

    def _refuse_to_set(self: Any, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_to_delete(self: Any, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
