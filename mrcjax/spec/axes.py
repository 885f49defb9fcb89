"""Turn a `[sweep]` table into axes: keys that change, alone, together, or as named cases."""

from collections.abc import Iterator, Mapping
from typing import Any

from mrcjax.spec.ranges import is_range, labels_of, unit_of
from mrcjax.spec.sweep import CASE, SweepAxis
from mrcjax.units import SpecError, show_value

_WORDS = ("zip", "where", "keep", "cases")  # keys of [sweep] that are no swept section


def leaves(table: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    """Swept keys of the nested table and what stands there, in order."""
    for key, value in table.items():
        place = f"{where}.{key}".strip(".")
        if isinstance(value, dict) and not is_range(value):
            yield from leaves(value, place)
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


def case_axis(cases: Any) -> list[SweepAxis]:
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


def zipped(values: dict[str, list[Any]], together: Any, raw: dict[str, Any]) -> Iterator[SweepAxis]:
    """Axes of the swept keys; keys that `zip` names together share one."""
    groups = [[key] for key in values]
    seen: list[Any] = []
    listed = isinstance(together, list) and all(isinstance(g, list) for g in together)
    for group in together if listed else [[]]:
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
