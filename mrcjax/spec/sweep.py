"""Turn a `[sweep]` table into axes, and axes into the points of a sweep: one changed spec each."""

import copy
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import tomli_w

from mrcjax.spec.condition import Condition, parsed_condition, reason_of
from mrcjax.spec.load import read_raw, spec_from_dict
from mrcjax.spec.names import Names
from mrcjax.spec.ranges import is_range, labels_of, of_command_line, spread_out, unit_of
from mrcjax.spec.sections import Spec
from mrcjax.units import SpecError, show_value

CASE = "case"  # the axis of named changes
KEEPS = ("finish",)
MOST_PLACES = 1_000_000  # of a grid; a point takes some 4 kB before it is emulated
LOOKED_AT = 300  # points that cannot be, before some all over the grid are looked at
_WORDS = ("zip", "where", "keep", "cases")  # keys of [sweep] that are no swept section


@dataclass(frozen=True)
class SweepAxis:
    """One axis of a sweep: keys that change together.

    coords: key -> what it is at every place, as a number in SI units or as text; the first key is
    the name. changes: for every place the tables or values to put into the spec, by key. units: of
    the keys that are quantities.
    """

    name: str
    coords: dict[str, tuple[float | str, ...]]
    changes: tuple[dict[str, Any], ...]
    units: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.changes)


@dataclass(frozen=True)
class SweepPoint:
    """One point: its place along every axis, and its spec or what is wrong with it."""

    at: tuple[int, ...]
    labels: dict[str, float | str]
    spec: Spec | None
    error: SpecError | None = None


@dataclass(frozen=True)
class SweepSpec:
    """A spec with a `[sweep]` table.

    base: the spec's other tables, as TOML gives them. keep: arrays to keep of every point.
    """

    base: dict[str, Any]
    axes: tuple[SweepAxis, ...]
    where: str | None
    keep: tuple[str, ...]

    def __len__(self) -> int:
        """Places on the grid, those that `where` leaves out included."""
        return math.prod(map(len, self.axes))

    def points(self) -> Iterator[tuple[tuple[int, ...], SweepPoint | None]]:
        """Every place with its point; None where `where` leaves it out."""
        return ((at, self.point(at)) for at in self.places())

    def places(self) -> Iterator[tuple[int, ...]]:
        """Every place, the last axis quickest."""
        return itertools.product(*(range(len(axis)) for axis in self.axes))

    def labels(self, at: tuple[int, ...]) -> dict[str, float | str]:
        """What every swept key is at a place."""
        return {
            key: values[i]
            for axis, i in zip(self.axes, at, strict=True)
            for key, values in axis.coords.items()
        }

    def raw(self, at: tuple[int, ...]) -> dict[str, Any]:
        """The tables of the spec at a place; raises SpecError where a change has no place."""
        raw = copy.deepcopy(self.base)
        for axis, i in zip(self.axes, at, strict=True):
            for key, value in axis.changes[i].items():
                if key == CASE:
                    _merge(raw, value)
                else:
                    _put(raw, key, copy.deepcopy(value))
        return raw

    def point(self, at: tuple[int, ...]) -> SweepPoint | None:
        """The point at a place; None where `where` leaves it out."""
        labels = self.labels(at)
        try:
            raw = self.raw(at)
            if self.where is not None and not self._is_wanted(raw, labels):
                return None
            return SweepPoint(at, labels, spec_from_dict(raw))
        except SpecError as error:
            return SweepPoint(at, labels, None, error)

    def _is_wanted(self, raw: dict[str, Any], labels: dict[str, float | str]) -> bool:
        names = Names(raw, labels)
        try:
            return self._condition.value(self._parsed, names)
        except Exception as error:
            raise _no_condition(self.where, error, names) from None

    @cached_property
    def _condition(self) -> Condition:
        return Condition()

    @cached_property
    def _parsed(self) -> Any:
        return parsed_condition(self.where or "True")


def load_sweep(path_or_text: str | Path, set: Sequence[str] = ()) -> SweepSpec:
    """Read a spec with a `[sweep]` table, as `load_spec` reads one without.

    Args:
        path_or_text: as for `load_spec`.
        set: overrides; one with several values, "network.ranks=64,128", makes an axis, in the
            place of the table's own for this key.

    Raises:
        SpecError: the file, the table or an override is wrong; a point that cannot be is no error
            here.
    """
    # of a key that is there twice the last one counts
    asked = {key: (values, text) for text in set for key, values in [of_command_line(text)]}
    several = {k.removeprefix("sweep."): v for k, (v, _) in asked.items() if v is not None}
    single = {key: text for key, (values, text) in asked.items() if values is None}
    raw = read_raw(path_or_text, list(single.values()))
    table = raw.pop("sweep", {})
    if not isinstance(table, dict):
        raise SpecError("must be a table", where="sweep", value=table, remedy=_REMEDY)
    where, keep = table.pop("where", None), table.pop("keep", list(KEEPS))
    together, cases = table.pop("zip", []), table.pop("cases", [])
    swept = {k: v for k, v in _leaves(table, "") if k not in single} | several
    by_case = _case_axis(cases)
    _override(by_case, raw, [key for key in single if not key.startswith("sweep.")])
    known = copy.deepcopy(raw)  # tells what the keys take, with the tables of the first case
    _merge(known, by_case[0].changes[0][CASE] if by_case else {})
    values = {key: spread_out(key, value, known) for key, value in swept.items()}
    axes = [*by_case, *_zipped(values, together, known)]
    if not axes:
        raise SpecError("has nothing to sweep over", where="sweep", remedy=_REMEDY)
    _check_size(axes)
    _check_words(where, keep)
    made = SweepSpec(raw, tuple(axes), where, tuple(keep))
    _check_somewhere(made)
    return made


def sweep_to_toml(made: SweepSpec) -> str:
    """Write a sweep as a spec that asks for the same points."""
    table: dict[str, Any] = {}
    for axis in made.axes:
        for key in axis.coords:
            if key == CASE:
                names = [{"name": name} for name in axis.coords[CASE]]
                changes = [change[CASE] for change in axis.changes]
                table["cases"] = [n | c for n, c in zip(names, changes, strict=True)]
            else:
                table[key] = [change[key] for change in axis.changes]
    together = [list(axis.coords) for axis in made.axes if len(axis.coords) > 1]
    table |= {"zip": together} if together else {}
    table |= {} if made.where is None else {"where": made.where}
    return tomli_w.dumps(made.base | {"sweep": table | {"keep": list(made.keep)}})


_REMEDY = (
    "write for example a line [sweep] and under it network.ranks = [64, 128, 256], or "
    "--set network.ranks=64,128,256"
)


def _leaves(table: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    """Swept keys of the nested table and what stands there, in order."""
    for key, value in table.items():
        place = f"{where}.{key}".strip(".")
        if isinstance(value, dict) and not is_range(value):
            yield from _leaves(value, place)
        elif isinstance(value, list | dict):
            yield place, value
        else:
            near = f"; {' and '.join(_WORDS)} are known here beside sections" if not where else ""
            raise SpecError(
                "is swept, and needs a list or a range",
                where=f"sweep.{place}",
                value=value,
                remedy=f'write [{show_value(value)}] or {{ from = "1 MB", to = "1 GB", count = 4, '
                f'spacing = "log" }}{near}',
            )


def _case_axis(cases: Any) -> list[SweepAxis]:
    """The axis of named changes."""
    if not cases:
        return []
    if not isinstance(cases, list) or not all(isinstance(c, dict) for c in cases):
        raise SpecError(
            "must be tables", where="sweep.cases", value=cases, remedy="write [[sweep.cases]]"
        )
    names = []
    for number, case in enumerate(cases):
        where = f"sweep.cases[{number}]"
        name = case.get("name")
        if not isinstance(name, str) or not name:
            raise SpecError(
                "has no name", where=where, value=case, remedy='add for example name = "fat tree"'
            )
        if name in names:
            raise SpecError("stands there twice", where=f"{where}.name", value=name, remedy="")
        names.append(name)
    changes = tuple({CASE: {k: v for k, v in c.items() if k != "name"}} for c in cases)
    return [SweepAxis(CASE, {CASE: tuple(names)}, changes)]


def _override(by_case: Sequence[SweepAxis], raw: dict[str, Any], keys: Sequence[str]) -> None:
    """Have overrides, which are in `raw`, win over cases that set the same key."""
    for case in (change[CASE] for axis in by_case for change in axis.changes):
        for key in keys:
            with suppress(LookupError, TypeError, ValueError):
                _at(case, key)
                _put(case, key, copy.deepcopy(_at(raw, key)))


def _at(raw: Any, key: str) -> Any:
    for step in key.split("."):
        raw = raw[int(step)] if isinstance(raw, list) else raw[step]
    return raw


def _zipped(
    values: dict[str, list[Any]], together: Any, raw: dict[str, Any]
) -> Iterator[SweepAxis]:
    """Axes of the swept keys; keys that `zip` names together share one."""
    groups = [[key] for key in values]
    seen: list[Any] = []
    listed = isinstance(together, list) and all(isinstance(g, list) for g in together)
    for group in together if listed else [together]:
        is_known = all(isinstance(key, str) and key in values for key in group)
        seen += group
        if is_known and len(set(seen)) < len(seen):
            raise SpecError(
                "names a key twice",
                where="sweep.zip",
                value=together,
                remedy="have each key in one list, once",
            )
        if not listed or not is_known or len(group) < 2:
            raise SpecError(
                "must be lists of swept keys",
                where="sweep.zip",
                value=together,
                remedy='write for example zip = [["network.ranks", "network.rails"]]; swept are '
                + ", ".join(values),
            )
        lengths = {key: len(values[key]) for key in group}
        if len({*lengths.values()}) > 1:
            told = ", ".join(f"{key} {length}" for key, length in lengths.items())
            raise SpecError(
                f"joins lists of unequal length ({told})",
                where="sweep.zip",
                remedy="give them equally many values",
            )
        groups = [g for g in groups if g[0] not in group[1:]]
        groups = [group if g[0] == group[0] else g for g in groups]
    for group in groups:
        places = range(len(values[group[0]]))
        coords = {key: labels_of(key, values[key], raw) for key in group}
        _refuse_twice(coords)
        changes = tuple({key: values[key][i] for key in group} for i in places)
        units = {key: unit for key in group if (unit := unit_of(key, raw))}
        yield SweepAxis(group[0], coords, changes, units)


def _refuse_twice(coords: dict[str, tuple[float | str, ...]]) -> None:
    steps = list(zip(*coords.values(), strict=True))
    if len(set(steps)) < len(steps):
        twice = next(step for i, step in enumerate(steps) if step in steps[:i])
        raise SpecError(
            "has a value twice",
            where=f"sweep.{' and '.join(coords)}",
            value=twice[0] if len(twice) == 1 else list(twice),
            remedy="keep one of them",
        )


def _check_words(where: Any, keep: Any) -> None:
    if where is not None and not isinstance(where, str):
        raise SpecError(
            "must be text", where="sweep.where", value=where, remedy='write "network.ranks >= 256"'
        )
    if not isinstance(keep, list) or any(word not in KEEPS for word in keep):
        raise SpecError(
            "is not known",
            where="sweep.keep",
            value=keep,
            remedy=f"use [] or {show_value(list(KEEPS))}",
        )
    if where is not None:
        try:
            parsed_condition(where)
        except Exception as error:
            raise _no_condition(where, error, {}) from None


def _no_condition(where: str | None, error: Exception, names: Mapping[str, Any]) -> SpecError:
    known = f"; names here: {', '.join(names)}" if names else ""
    return SpecError(
        f"cannot be worked out ({reason_of(error)})",
        where="sweep.where",
        value=where,
        remedy=f'write for example "network.ranks * network.rails <= 65536"{known}',
    )


def _check_somewhere(made: SweepSpec) -> None:
    """Refuse a sweep of which no point can be, and say what is wrong with the first.

    Of very many points that cannot be only the first and some all over the grid are looked at.
    """
    errors: list[SpecError] = []
    for at in made.places():
        point = made.point(at)
        if point is None:
            continue
        if point.error is None:
            return
        if point.error.where == "sweep.where":
            raise point.error
        errors.append(point.error)
        if len(errors) == LOOKED_AT:
            break
    if not errors:
        raise SpecError(
            "leaves no point", where="sweep.where", value=made.where, remedy="ask for less"
        )
    # a step that shares no factor with the lengths of axes, as likely as not
    spread = itertools.islice(made.places(), 0, None, len(made) // LOOKED_AT + 1)
    others = (made.point(at) for at in spread) if len(errors) == LOOKED_AT else ()
    if not any(point is not None and point.error is None for point in others):
        raise errors[0]


def _check_size(axes: Sequence[SweepAxis]) -> None:
    places = math.prod(map(len, axes))
    if places > MOST_PLACES:
        told = " x ".join(f"{axis.name} ({len(axis):,})" for axis in axes)
        raise SpecError(
            f"has {places:,} places, {told}, and may have {MOST_PLACES:,}",
            where="sweep",
            remedy="ask for less, or zip keys that walk together",
        )


def _merge(raw: dict[str, Any], change: Mapping[str, Any]) -> None:
    """Put tables into tables; one with a kind of its own takes the place of another whole."""
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(raw.get(key), dict) and "kind" not in value:
            _merge(raw[key], value)
        else:
            raw[key] = copy.deepcopy(value)


def _put(raw: dict[str, Any], key: str, value: Any) -> None:
    """Put a value at a dotted place; a number in it counts in a list."""
    *path, last = key.split(".")
    table: Any = raw
    for step in path:
        if isinstance(table, list):
            table = table[int(step)] if step.isdigit() and int(step) < len(table) else None
        else:
            table = table.setdefault(step, {})
        if not isinstance(table, dict | list):
            raise _no_place(key, step)
    if isinstance(table, dict):
        table[last] = value
    elif last.isdigit() and int(last) < len(table):
        table[int(last)] = value
    else:
        raise _no_place(key, last)


def _no_place(key: str, step: str) -> SpecError:
    return SpecError(
        f"goes into {step}, which is not there or no table",
        where=f"sweep.{key}",
        remedy="have the spec say what is there, or sweep another key",
    )
