"""Read a CSV, JSON or GraphML file as records of texts; whatever is wrong in it, in words."""

import csv
import difflib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrcjax.units import SpecError, show_value

MOST_BYTES = 256 * 2**20  # of a file; more is no list of links or sends that fits in memory


@dataclass(frozen=True)
class Record:
    """One line or object of a file: its place, for messages, and its texts by column."""

    place: str  # "links.csv line 3"
    values: Mapping[str, str]

    def error(self, column: str, what: str, remedy: str) -> SpecError:
        """Return what is wrong with one value."""
        where = f"{self.place}, {column}"
        return SpecError(what, where=where, value=self.values.get(column, ""), remedy=remedy)

    def quantity(self, kind: Any, column: str) -> Any:
        """Read a quantity with its unit; None where the column is empty or absent."""
        text = self.values.get(column, "")
        if text == "":
            return None
        try:
            return kind.parse(text)
        except SpecError as error:
            raise error.at(f"{self.place}, {column}") from None

    def flag(self, column: str) -> bool:
        """Read "true" or "false"; False where the column is empty or absent."""
        text = self.values.get(column, "").lower()
        if text not in ("", "true", "false", "1", "0"):
            raise self.error(column, "must be true or false", "leave it empty for false")
        return text in ("true", "1")


def read_records(
    path: Path, where: str, noun: str, required: Sequence[str], optional: Sequence[str]
) -> list[Record]:
    """Read every record of a file, chosen by how its name ends.

    CSV has a header; JSON is a list of objects, or an object whose key `noun` is such a list; in
    GraphML (links only) every edge is a record with the columns "from" and "to".

    Args:
        path: the file.
        where: the key of the spec that names it, for messages.
        noun: what a record is, in the plural ("links").
        required: columns that no record may lack.
        optional: columns that it may have.

    Raises:
        SpecError: for a file that cannot be read, an unknown or missing column, no record at all.
    """
    readers = {".csv": _csv, ".json": _json}
    if noun == "links":
        readers[".graphml"] = _graphml
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise SpecError(
            f"must name a {noun} file that ends in {', '.join(readers)}",
            where=where,
            value=path.name,
            remedy="rename or convert it",
        )
    text = _text(path, where, "CSV, JSON or GraphML" if noun == "links" else "CSV or JSON")
    records = reader(path, where, noun, text)
    for record in records:
        _check(record, noun, required, optional)
    if not records:
        raise SpecError(f"has no {noun}", where=f"{where}: {path}", remedy="is it complete?")
    return records


def _text(path: Path, where: str, formats: str) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SpecError(
                f"is larger than {MOST_BYTES:,} bytes",
                where=where,
                value=str(path),
                remedy="use one of the built-in networks or patterns for systems of this size",
            )
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(
            f"is not UTF-8 text (byte {error.start})",
            where=where,
            value=str(path),
            remedy=f"name a {formats} file",
        ) from None
    except FileNotFoundError:
        raise SpecError(
            f"cannot be read (no such file: {path.absolute()})",
            where=where,
            remedy="a path is taken from the folder of the spec, else from the working folder, "
            f"{Path.cwd()}",
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SpecError(
            f"cannot be read ({str(reason).lower()})",
            where=where,
            value=str(path),
            remedy="name a file that can be read",
        ) from None


def _check(record: Record, noun: str, required: Sequence[str], optional: Sequence[str]) -> None:
    known = [*required, *optional]
    for column in record.values:
        if column not in known:
            near = difflib.get_close_matches(column, known, n=1)
            remedy = f'did you mean "{near[0]}"? ' if near else ""
            raise SpecError(
                f"is no column of {noun}",
                where=f'{record.place}: "{column}"',
                remedy=f"{remedy}known: {', '.join(known)}",
            )
    for column in required:
        if record.values.get(column, "") == "":
            raise SpecError(
                f'has no "{column}"',
                where=record.place,
                remedy=f"all of {noun} need {', '.join(required)}",
            )


def _csv(path: Path, where: str, noun: str, text: str) -> list[Record]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    records = []
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if not any(cells) or cells[0].startswith("#"):
                continue
            if not header:
                header = cells
                continue
            place = f"{path.name} line {reader.line_num}"
            if len(cells) != len(header):
                raise SpecError(
                    f"has {len(cells)} cells for the {len(header)} columns of the header",
                    where=place,
                    remedy="is the file cut off? empty cells need their commas",
                )
            records.append(Record(place, dict(zip(header, cells, strict=True))))
    except csv.Error as error:
        raise SpecError(
            f"is no CSV: {error}",
            where=f"{path.name} line {reader.line_num}",
            remedy="is the file cut off?",
        ) from None
    if len(set(header)) != len(header):
        raise SpecError("has a column twice", where=f"{path.name}: header", value=header)
    if header and not records:
        raise SpecError(
            f"has a header and no {noun}", where=f"{where}: {path}", remedy="is it complete?"
        )
    return records


def _json(path: Path, where: str, noun: str, text: str) -> list[Record]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecError(
            f"is no JSON: {str(error)[:80]}",
            where=f"{where}: {path}",
            remedy="is the file cut off?",
        ) from None
    rows = found.get(noun) if isinstance(found, dict) else found
    if not isinstance(rows, list):
        raise SpecError(
            f'must hold a list of {noun}, or an object with the key "{noun}"',
            where=f"{where}: {path}",
        )
    records = []
    for number, row in enumerate(rows):
        place = f"{path.name} {noun}[{number}]"
        if not isinstance(row, dict):
            raise SpecError("must be an object", where=place, value=show_value(row))
        values = {str(key): _plain(value) for key, value in row.items() if value is not None}
        records.append(Record(place, values))
    return records


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ";".join(_plain(item) for item in value)
    return str(value).strip()


def _graphml(path: Path, where: str, noun: str, text: str) -> list[Record]:
    # imported here: neither is needed by a spec without such a file
    import networkx
    from defusedxml import ElementTree
    from defusedxml.common import DefusedXmlException

    try:
        # entities and references to other files are refused before networkx reads it
        ElementTree.fromstring(text, forbid_dtd=True)
        graph = networkx.parse_graphml(text)
    except (
        ElementTree.ParseError,
        DefusedXmlException,
        networkx.NetworkXError,
        ValueError,
        KeyError,
        IndexError,
    ) as error:
        raise SpecError(
            f"is no GraphML: {str(error)[:80]}",
            where=f"{where}: {path}",
            remedy="is the file cut off?",
        ) from None
    names = {node: str(data.get("name", node)) for node, data in graph.nodes(data=True)}
    records = []
    for number, (one, other, data) in enumerate(graph.edges(data=True)):
        values = {"from": names[one], "to": names[other]}
        values |= {key: _plain(v) for key, v in data.items() if key not in ("id", "from", "to")}
        if graph.is_directed():
            values.setdefault("directed", "true")
        records.append(Record(f"{path.name} edge {number}", values))
    return records
