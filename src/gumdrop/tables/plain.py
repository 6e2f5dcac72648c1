"""Records as plain data for JSON, and back: where a file lacks something or holds another type, its field is named."""

import functools
import sys
import types
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
LARGEST = sys.float_info.max
SPARSE = {"sparse": True}
"""Metadata of a field that is left out of the file where it is None; `{"key": NAME}` is another name in the file."""


class FieldError(ValueError):
    """Plain data that a record cannot be made of; the message names the field."""


def plain(value: Any) -> Any:
    """Take records apart, and all that they hold."""
    if is_dataclass(value):
        given = [(each, getattr(value, each.name)) for each in fields(value)]
        return {_key(f): plain(v) for f, v in given if v is not None or not f.metadata.get("sparse")}
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def record(kind: type[T], data: object, path: str = "") -> T:
    """Make a record of what `plain` gave, also of an older record that lacks fields with a default."""
    if not isinstance(data, dict):
        raise FieldError(f"`{path}` must be an object, got {_shown(data)}")
    known: list[Field[Any]] = list(fields(kind))  # type: ignore[arg-type]
    prefix = f"{path}." if path else ""
    needed = [_key(each) for each in known if each.default is each.default_factory is MISSING]
    if missing := [f"{prefix}{name}" for name in needed if name not in data]:
        raise FieldError(f"it lacks {', '.join(missing)}")
    hints = _hints(cast(Any, kind))
    values = {
        each.name: _value(hints[each.name], data[_key(each)], f"{prefix}{_key(each)}")
        for each in known
        if _key(each) in data
    }
    return kind(**values)


def _key(field: Field[Any]) -> str:
    return str(field.metadata.get("key", field.name))


@functools.cache
def _hints(kind: Any) -> dict[str, object]:
    return get_type_hints(kind)


def _value(kind: Any, data: Any, path: str) -> Any:
    """Check what a field holds, and make records of what should be ones."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if data is None and type(None) in inner else _value(_nearest(inner, data), data, path)
    if is_dataclass(kind):
        return record(kind, data, path)  # type: ignore[arg-type]
    if origin in (list, tuple) and isinstance(data, list):
        return origin(_value(inner[0], item, f"{path}[{i}]") for i, item in enumerate(data))
    if origin is dict and isinstance(data, dict):
        return {name: _value(inner[1], each, f"{path}.{name}") for name, each in data.items()}
    if origin is Literal:
        right, expected = data in get_args(kind), f"one of {', '.join(map(repr, inner))}"
    else:
        right, expected = _SIMPLE[origin or kind]
        right = right(data)
    if not right:
        raise FieldError(f"`{path}` must be {expected}, got {_shown(data)}")
    return data


def _nearest(kinds: Sequence[Any], data: object) -> Any:
    """Of several records the one that has most of the names in the data; else the first kind."""
    names = set(data) if isinstance(data, dict) else set()
    return max(kinds, key=lambda kind: len(names & {_key(f) for f in fields(kind)}) if is_dataclass(kind) else 0)


_SIMPLE: dict[Any, tuple[Any, str]] = {
    object: (lambda data: True, ""),
    str: (lambda data: isinstance(data, str), "a text"),
    bool: (lambda data: isinstance(data, bool), "true or false"),
    int: (lambda data: type(data) is int and abs(data) < 2**63, "a whole number"),
    float: (lambda data: type(data) in (int, float) and abs(data) <= LARGEST, "a finite number"),
    list: (lambda data: False, "a list"),
    tuple: (lambda data: False, "a list"),
    dict: (lambda data: False, "an object"),
}
"""What a type accepts, and how it is called in a message."""


def _shown(data: object) -> str:
    text = repr(data) if not isinstance(data, list | dict) else f"a {type(data).__name__}"
    return text if len(text) <= 40 else f"{text[:37]}..."
