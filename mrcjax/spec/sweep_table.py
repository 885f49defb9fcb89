"""Turn a TOML file or text with a `[sweep]` table into a checked SweepSpec, and back."""

import copy
import itertools
import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import tomli_w

from mrcjax.spec.axes import case_axis, leaves, zipped
from mrcjax.spec.changing import at_place, merge, put
from mrcjax.spec.condition import parsed_condition
from mrcjax.spec.files import FILE_KEYS, found
from mrcjax.spec.load import read_raw
from mrcjax.spec.ranges import of_command_line, spread_out
from mrcjax.spec.sweep import CASE, SweepAxis, SweepSpec, no_condition
from mrcjax.units import SpecError, show_value

KEEPS = ("finish",)
MOST_PLACES = 1_000_000  # of a grid; a point takes some 4 kB before it is emulated
LOOKED_AT = 300  # points that cannot be, before some all over the grid are looked at
_REMEDY = (
    "write for example a line [sweep] and under it network.ranks = [64, 128, 256], or "
    "--set network.ranks=64,128,256"
)


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
    raw, folder = read_raw(path_or_text, list(single.values()))
    table = raw.pop("sweep", {})
    if not isinstance(table, dict):
        raise SpecError("must be a table", where="sweep", value=table, remedy=_REMEDY)
    where, keep = table.pop("where", None), table.pop("keep", list(KEEPS))
    together, cases = table.pop("zip", []), table.pop("cases", [])
    swept = {k: v for k, v in leaves(table, "") if k not in single} | several
    by_case = case_axis(cases)
    _override(by_case, raw, [key for key in single if not key.startswith("sweep.")])
    known = copy.deepcopy(raw)  # tells what the keys take, with the tables of the first case
    merge(known, by_case[0].changes[0][CASE] if by_case else {})
    values = {key: spread_out(key, value, known) for key, value in swept.items()}
    values |= {key: [found(v, folder) for v in values[key]] for key in FILE_KEYS if key in values}
    axes = [*by_case, *zipped(values, together, known)]
    if not axes:
        raise SpecError("has nothing to sweep over", where="sweep", remedy=_REMEDY)
    _check_size(axes)
    _check_words(where, keep)
    made = SweepSpec(raw, tuple(axes), where, tuple(keep))
    _check_somewhere(made)
    return made


def _override(by_case: Sequence[SweepAxis], raw: dict[str, Any], keys: Sequence[str]) -> None:
    """Have overrides, which are in `raw`, win over cases that set the same key."""
    for case in (change[CASE] for axis in by_case for change in axis.changes):
        for key in keys:
            with suppress(LookupError, TypeError, ValueError):
                at_place(case, key)
                put(case, key, copy.deepcopy(at_place(raw, key)))


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
            raise no_condition(where, error, {}) from None


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
