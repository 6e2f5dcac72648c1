"""What a user says of the columns of a table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal


def column_name(name: object, argument: str) -> str:
    """Return the name of a column as tables have it; frames may have integers for names.

    Raises:
        TypeError: If it is neither a text nor an integer.

    Example:
        >>> column_name("price", "target"), column_name(2, "target")
        ('price', '2')
    """
    if not isinstance(name, str | Integral) or isinstance(name, bool):
        raise TypeError(f"`{argument}` must be the name of a column, or its integer, got {_of_type(name)}")
    return str(name)


def with_names(record: object, several: Sequence[str], single: Sequence[str] = ()) -> None:
    """Take the names of columns in fields of a frozen record as tables have them; one name is as good as a list."""
    values: dict[str, Any] = {name: getattr(record, name) for name in (*several, *single)}
    for field in several:
        names = (values[field],) if isinstance(values[field], str) else values[field]
        if not isinstance(names, list | tuple):
            raise TypeError(f"`{field}` must be a tuple with names of columns, got {_of_type(names)}")
        values[field] = tuple(column_name(name, field) for name in names)
    values |= {field: column_name(values[field], field) for field in single if values[field] is not None}
    for field, value in values.items():
        object.__setattr__(record, field, value)


def _of_type(value: object) -> str:
    return "None" if value is None else f"{value!r}" if isinstance(value, bool | int) else f"a {type(value).__name__}"


@dataclass(frozen=True)
class Reading:
    """What the columns of a table are, where the table itself does not tell; each field is a flag of `gumdrop fit`."""

    task: Literal["regression", "classification"] | None = None
    """What the target is; found from its values by default: text is classes, numbers are numbers, unless there are two
    of them or they count from 0 or 1 to at most 10."""
    drop: tuple[str, ...] = ()
    """Columns to leave out."""
    categories: tuple[str, ...] = ()
    """Columns whose numbers are names, such as postal codes: each is a category. A column of a pandas frame that has
    the dtype `category` is one unasked."""
    unit: str = ""
    """Unit of the target, for the report."""
    dates: Literal["day-first", "month-first"] | None = None
    """Order of dates such as 1/2/2024, where the column itself does not tell it."""
    decimal: Literal[".", ","] | None = None
    """Decimal mark of numbers such as 1,234, where the file itself does not tell it."""
    positive: str | None = None
    """Of two classes the one that is looked for; by default yes, true or 1, else the rarer one."""
    event: str | None = None
    """Column of what the target, a time, waits for: 1 where it was seen, 0 where it is only known to be later."""
    lower: str | None = None
    """Column of the lower end of what is known of the target, which is then no column itself; blank for none."""
    upper: str | None = None
    """Column of the upper end; equal to the lower one where the target was seen."""

    def __post_init__(self) -> None:
        """Check that one thing tells what is known of the target."""
        with_names(self, ("drop", "categories"), ("event", "lower", "upper"))
        if self.task not in {None, "regression", "classification"}:
            raise ValueError(f'`task` must be "regression" or "classification", got {self.task!r}')
        if (self.lower is None) != (self.upper is None):
            raise ValueError("`lower` and `upper` are the two ends of an interval: give both, blank cells are no end")
        if self.event is not None and self.lower is not None:
            raise ValueError("`event` and `lower` both tell what is known of the target: give one")
        if self.known and self.task == "classification":
            raise ValueError("`task` is classification, and `event`, `lower` and `upper` are of numbers: leave it away")

    @property
    def known(self) -> tuple[str, ...]:
        """Columns that tell what is known of the target, if not all is."""
        return tuple(name for name in (self.event, self.lower, self.upper) if name is not None)


def as_declared(reading: Reading, declared: Sequence[str], target: str) -> Reading:
    """Take columns that a frame says are categories for such, and such a target for classes."""
    inputs = [name for name in declared if name not in {target, *reading.drop, *reading.known}]
    is_class = target in declared and reading.task is None
    task = "classification" if is_class else reading.task
    return replace(reading, task=task, categories=tuple(dict.fromkeys([*reading.categories, *inputs])))
