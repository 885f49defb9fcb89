"""The command line: arguments in, text or one JSON object out, errors as one line and a status.

Whatever takes long to import is imported by the command that needs it.
"""

import hashlib
import json
import logging
import math
import os
import platform
import re
import shlex
import shutil
import signal
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import tyro.extras
from tyro.conf import DisallowNone, FlagCreatePairsOff, Positional, Suppress, UseAppendAction, arg

if TYPE_CHECKING:
    from mrcjax.archive import Archive, Run, Table
    from mrcjax.network.inventory import Inventory
    from mrcjax.outcome import Outcome
    from mrcjax.spec import Spec
    from mrcjax.step import TrainingOutcome

USAGE_ERROR, INTERRUPTED, PIPE_CLOSED = 2, 130, 141  # exit statuses, as shells count them

_HANGING: dict[str, Any] = {"subsequent_indent": " " * 9, "break_long_words": False}

T = TypeVar("T")

SpecFile = Annotated[Positional[Path], arg(metavar="SPEC", help="The spec, a TOML file.")]
ArchiveFile = Annotated[Positional[Path], arg(metavar="FILE.h5", help="The archive.")]
AsJson = Annotated[bool, arg(name="json", help="Print exactly one JSON object.")]
Overrides = Annotated[
    UseAppendAction[tuple[str, ...]],
    arg(
        name="set",
        metavar="KEY=VALUE",
        help="Override any key of the spec, for example network.ranks=4096.",
    ),
]
OneRun = Annotated[
    str | None, arg(metavar="NAME", help="The run; without it the only one.", help_behavior_hint="")
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    try:
        _dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else USAGE_ERROR
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        return _pipe_closed()
    except Exception as error:
        message = _message(error)
        if message is None:
            raise
        print(f"mrcjax: {message}", file=sys.stderr)
        return USAGE_ERROR
    return 0


def _dispatch(given: list[str]) -> None:
    if given == ["--version"]:
        from mrcjax import __version__

        print(f"mrcjax {__version__}")
        return
    command = shlex.join(["mrcjax", *given])
    commands: dict[str, Callable[..., None]] = {
        "run": partial(run_command, command=command),
        "compare": partial(compare_command, command=command),
        "bound": bound_command,
        "tune": partial(tune_command, command=command),
        "show": show_command,
        "plot": partial(plot_command, command=command),
        "spec": spec_command,
    }
    try:
        tyro.extras.subcommand_cli_from_dict(
            commands,
            prog="mrcjax",
            description="How long a collective takes on a GPU network, what binds it, and how far "
            "it is from the best possible. `mrcjax --version` prints the version.",
            args=_one_override_each(given),
            config=(FlagCreatePairsOff, DisallowNone),
        )
    except SystemExit as stop:
        if stop.code == 0 and given[0] in ("run", "compare"):
            from mrcjax.training import LEFT_OUT

            print(LEFT_OUT)
        raise


def _one_override_each(given: Sequence[str]) -> list[str]:
    """Turn `--set a.b=1 c.d=2` into `--set a.b=1 --set c.d=2`; both may be written."""
    words: list[str] = []
    follows = False  # whether the last word is an override
    for word in given:
        if follows and re.match(r"\w+(\.\w+)+\s*=", word):
            words.append("--set")
        follows = words[-1:] == ["--set"]
        words.append(word)
    return words


# --- commands ----------------------------------------------------------------------------------


def run_command(
    spec: SpecFile,
    *,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        arg(
            metavar="FILE.h5",
            help="Add the run to this archive; wins over output.file.",
            help_behavior_hint="",
        ),
    ] = None,
    overrides: Overrides = (),
    explain: Annotated[
        bool, arg(help="Also print the hardware, and every assumption with its source.")
    ] = False,
    command: Suppress[str] = "",
) -> None:
    """Emulate a spec: how long it takes, what binds it, how far it is from the best possible.

    A spec with a [training] section also gives the training step around it and the cost of a run.
    """
    asked = _load(spec, overrides)
    target = _target(asked, out)
    from mrcjax import archive

    if target is not None:
        archive.check_writable(target)
    _prepare_jax()
    from mrcjax.network.inventory import inventory

    materials = inventory(asked.network) if explain else None
    started = datetime.now(UTC)
    outcome, trained = _at_once(lambda: _emulated(asked), f"emulating {_what(asked)}")
    training = None if trained is None else _training_table(asked, trained)
    if target is not None:
        name = f"{outcome.kind}-{outcome.algorithm}-{outcome.ranks}"
        runs, tables = {name: outcome}, {}
        if trained is not None and training is not None:
            others = {k: o for k, o in trained.outcomes.items() if o is not outcome}
            runs |= {f"{name}-{bucket}": o for bucket, o in others.items()}
            tables[f"{name}-training"] = training
        names = archive.write(target, runs, command=command, tables=tables, started=started)
        if asked.output.figures:
            _draw_run(outcome, _figure_stem(target, names[0], target.parent), ".png", command)
    assumptions = [] if materials is None else _assumptions(asked, materials)
    if as_json:
        found = outcome.to_json()
        if trained is not None:
            found["training"] = trained.to_json()
        if materials is not None:
            found["hardware"] = materials.rows()
            found["assumptions"] = assumptions
        _print_json(found)
        return
    from mrcjax.report.table import run_text, table_text, text_table

    blocks = [run_text(outcome)]
    if trained is not None and training is not None:
        blocks.append(table_text(training))
        more = [text for text in trained.warnings if text not in outcome.warnings]
        blocks += [textwrap.fill(f"warning: {text}", 110, **_HANGING) for text in more]
    if materials is not None:
        blocks.append(text_table([{"hardware": k, "": v} for k, v in materials.rows()]))
        blocks.append(text_table(assumptions))
    print("\n\n".join(blocks))


def compare_command(
    *,
    out: Annotated[
        Path, arg(metavar="FILE.h5", help="Write all runs here, in the place of an older archive.")
    ] = Path("results/compare.h5"),
    ranks: Annotated[
        int | None,
        arg(help="Another number of ranks than 1,024, a multiple of 8.", help_behavior_hint=""),
    ] = None,
    no_figures: Annotated[bool, arg(help="Write no figures beside the archive.")] = False,
    command: Suppress[str] = "",
) -> None:
    """Compare the networks: collective, training step, hardware, power and cost of each."""
    from mrcjax import archive

    archive.check_writable(out)
    _prepare_jax()
    from mrcjax.comparison import compare

    comparison = _at_once(lambda: compare(progress=_progress, ranks=ranks), "comparing")
    comparison.write(out, command)
    if not no_figures:
        comparison.figures(out.parent, command)
    print(comparison.text())


def bound_command(spec: SpecFile, *, as_json: AsJson = False, overrides: Overrides = ()) -> None:
    """Give every lower bound on the completion time, for any algorithm, without emulating."""
    asked = _load(spec, overrides)
    _prepare_jax()
    from mrcjax.bound import lower_bounds
    from mrcjax.case import build
    from mrcjax.emulation import precision

    def bounds() -> tuple[int, dict[str, float]]:
        with precision(asked.engine.precision):
            case = build(asked)
            return 2 * case.wiring.num_cables, lower_bounds(case)

    num_links, bounds_s = _at_once(bounds, f"bounding {_what(asked)}")
    largest = max(bounds_s, key=lambda name: bounds_s[name])
    if as_json:
        _print_json(
            {
                "schema": 1,
                "network": {
                    "kind": asked.network.kind,
                    "ranks": asked.network.ranks,
                    "links": num_links,
                },
                "collective": {
                    "kind": asked.collective.kind,
                    "bytes": float(asked.collective.size),
                },
                "lower_bound_s": bounds_s[largest],
                "bound_kind": largest,
                "bounds_s": bounds_s,
            }
        )
        return
    from mrcjax.units import format_bytes, format_seconds

    width = max(map(len, bounds_s))
    print(
        f"{asked.collective.kind} of {format_bytes(float(asked.collective.size))} per rank "
        f"on {_where(asked)}, by whatever algorithm, takes at least\n"
    )
    for name, bound_s in sorted(bounds_s.items(), key=lambda item: -item[1]):
        mark = "  <- the lower bound" if name == largest else ""
        print(f"  {name:<{width}}  {format_seconds(bound_s)}{mark}")


def tune_command(
    spec: SpecFile,
    *,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        arg(
            metavar="FILE.h5",
            help="Add the best run and all steps to this archive; wins over output.file.",
            help_behavior_hint="",
        ),
    ] = None,
    tuned: Annotated[
        Path | None,
        arg(
            metavar="FILE.toml",
            help="Write the best as a spec here; without it SPEC's name with .tuned.toml, beside "
            "the archive or in the current folder.",
            help_behavior_hint="",
        ),
    ] = None,
    resume: Annotated[bool, arg(help="Go on from the last search in the archive.")] = False,
    overrides: Overrides = (),
    command: Suppress[str] = "",
) -> None:
    """Find the shards and the cut over rails that make a collective quickest.

    Ctrl-C ends the search with the best so far, a second one at once.
    """
    from mrcjax.spec import SpecError

    asked = _load(spec, overrides)
    target = _target(asked, out)
    from mrcjax import archive

    if target is not None:
        archive.check_writable(target)
    elif resume:
        raise SpecError(
            "--resume needs an archive to go on from", remedy="name it with --out FILE.h5"
        )
    if tuned is None:
        folder = Path() if target is None else target.parent
        tuned = folder / f"{spec.stem}.tuned.toml"
    _prepare_jax()
    from mrcjax.tuning import reach, tune
    from mrcjax.tuning.keeping import check_spec_file, keep, kept, write_spec
    from mrcjax.tuning.text import reached_text, tuned_text

    check_spec_file(tuned)
    if asked.tune is not None and asked.tune.target_time is not None:
        reached = _at_once(lambda: reach(asked, report=_progress), "finding a rate")
        write_spec(tuned, reached.best, command=command)
        if target is not None:
            archive.write(target, {"target": reached.outcome}, command=command)
        if as_json:
            _print_json({**reached.to_json(), "spec": str(tuned)})
        else:
            print(f"{reached_text(reached)}\nwritten to {tuned}")
        return
    start, history = kept(target, asked) if resume and target is not None else (None, ())
    started = datetime.now(UTC)

    def search(is_stopped: Callable[[], bool]):
        return tune(asked, start=start, history=history, report=_progress, is_stopped=is_stopped)

    found = _until_interrupted(search, f"tuning {_what(asked)}")
    if target is not None:
        keep(target, found, command=command, started=started)
    write_spec(tuned, found.best, command=command)
    if as_json:
        _print_json({**found.to_json(), "spec": str(tuned)})
    else:
        print(f"{tuned_text(found)}\nwritten to {tuned}")
    if found.stopped:
        sys.stdout.flush()
        raise SystemExit(INTERRUPTED)


def show_command(file: ArchiveFile, *, run: OneRun = None, as_json: AsJson = False) -> None:
    """Print what an archive holds: its tables and runs, or one run in full."""
    from mrcjax import archive

    stored = archive.load(file)
    if as_json:
        _print_json(stored.run(run).to_json())
        return
    from mrcjax.report.table import archive_text, run_text

    print(archive_text(stored) if run is None else run_text(stored.run(run)))


def plot_command(
    file: ArchiveFile,
    *,
    run: OneRun = None,
    out: Annotated[
        Path | None,
        arg(
            metavar="FOLDER", help="Where to; without it beside the archive.", help_behavior_hint=""
        ),
    ] = None,
    form: Annotated[
        Literal["png", "svg", "pdf"], arg(name="format", help="Format of the figures.")
    ] = "png",
    command: Suppress[str] = "",
) -> None:
    """Draw the link utilisation and finish times of a run, and the bars of stored comparisons.

    Of an archive with comparisons, runs are drawn only where one is named.
    """
    from mrcjax import archive

    stored = archive.load(file)
    folder = file.parent if out is None else out
    drawn = [] if run is not None else _draw_tables(stored, folder, f".{form}", command)
    if not drawn:
        chosen = stored.run(run)
        drawn = _draw_run(chosen, _figure_stem(file, chosen.name, folder), f".{form}", command)
    for path in drawn:
        print(path)


def spec_command(
    *,
    schema: Annotated[bool, arg(help="Print the JSON Schema of the spec file.")] = False,
    example: Annotated[
        str | None,
        arg(
            metavar="KIND",
            help="Print a commented example, such as flat_rails.",
            help_behavior_hint="",
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of the spec file, or an example of it to start from."""
    from mrcjax.spec import SpecError, example_kinds, json_schema
    from mrcjax.spec import example as example_text

    if schema == (example is not None):
        raise SpecError(
            "`mrcjax spec` prints one thing",
            remedy=f"give --schema, or --example with one of {', '.join(example_kinds())}",
        )
    if example is None:
        _print_json(json_schema())
    else:
        print(example_text(example), end="")


# --- what commands share -----------------------------------------------------------------------


def _load(file: Path, overrides: Sequence[str]) -> "Spec":
    """Read the spec that a command line asks for; a path is never taken for text."""
    from mrcjax.spec import load_spec

    return load_spec(file, overrides)


def _target(asked: "Spec", out: Path | None) -> Path | None:
    """Return the archive to write: that of the command line wins over that of the spec."""
    if out is None and asked.output.file is not None:
        out = Path(asked.output.file)
    if out is None and asked.output.figures:
        from mrcjax.spec import SpecError

        raise SpecError(
            "needs an archive to stand beside",
            where="output.figures",
            value=True,
            remedy="give --out FILE.h5 or output.file, or leave figures out",
        )
    return out


def _emulated(asked: "Spec") -> "tuple[Outcome, TrainingOutcome | None]":
    from mrcjax.emulation import run

    if asked.training is None:
        return run(asked), None
    from mrcjax.step import train

    trained = train(asked)
    # the collective of the spec may be one of the step's buckets
    same = next((o for o in trained.outcomes.values() if o.spec == asked), None)
    return same or run(asked), trained


def _training_table(asked: "Spec", trained: "TrainingOutcome") -> "Table":
    from mrcjax.archive import Column, Table

    assert asked.training is not None
    parts = [("step", trained.step.rows())]
    if trained.cost is not None:
        parts.append(("run", trained.cost.rows()))
    hardware = [row for row in trained.inventory.rows() if row[0] in _HARDWARE_ROWS]
    parts.append(("network", hardware))
    return Table(
        rows=[
            {"part": part, "quantity": label, "value": text}
            for part, rows in parts
            for label, text in rows
        ],
        columns=(Column("part", "of"), Column("quantity", "quantity"), Column("value", "value")),
        title=f"Training of {asked.training.model} on {trained.step.ranks:,} x "
        f"{asked.training.gpu}, {asked.training.run_tokens:.4g} tokens in a run",
    )


_HARDWARE_ROWS = (
    "hardware", "switches", "modules", "NICs", "total without NICs, kW", "total with NICs, kW",
    "total with NICs, M$",
)  # fmt: skip


def _assumptions(asked: "Spec", materials: "Inventory") -> list[dict[str, str]]:
    """List what was taken from the catalogue and assumed of training: value, source, mark."""
    from mrcjax import hardware
    from mrcjax.training import explain

    network = asked.network
    links = [getattr(network, key, None) for key in ("link", "rail", "node")]
    parts: list[hardware.Part] = [hardware.link(name) for name in links if name is not None]
    parts += [hardware.switch(name) for name in materials.switches_by_part]
    if materials.nic:
        parts.append(hardware.nic_for(math.fsum(network.port_rates)))
    if materials.usd:
        parts.append(hardware.optics())
    rows = [
        (f"{part.name}: {field}", f"{getattr(part, field):.6g}", *source)
        for part in parts
        for field, source in part.sources.items()
    ]
    if asked.training is not None:
        rows += explain(asked.training, network.ranks)
    keys = ("assumption", "value", "source", "mark")
    return [dict(zip(keys, row, strict=True)) for row in rows]


def _draw_tables(stored: "Archive", folder: Path, suffix: str, caption: str) -> list[Path]:
    """Draw every table that holds numbers: a panel for each column of them."""
    from mrcjax.report import plot
    from mrcjax.report.table import as_columns

    drawn = []
    for name, table in stored.tables.items():
        shown = as_columns(table.rows, table.columns)
        marks = {column.bound_key for column in shown}
        numbers = [c for c in shown if c.key not in marks and _is_numeric(table, c.key)]
        if not numbers:
            continue
        texts = [c.key for c in shown if not _is_numeric(table, c.key)]
        rows = [
            {**row, "label": label}
            for row, label in zip(table.rows, _labels(table.rows, texts), strict=True)
        ]
        stem = _figure_stem(stored.path, name, folder)
        target = stem.with_name(stem.name + suffix)
        drawn.append(
            plot.bars(
                rows, target, caption, columns=numbers, title=table.title or name, name="label"
            )
        )
    return drawn


def _is_numeric(table: "Table", key: str) -> bool:
    values = [row[key] for row in table.rows if row.get(key) is not None]
    return bool(values) and all(type(value) in (int, float) for value in values)


def _labels(rows: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> list[str]:
    """Name each row by its first text, and by further ones until no two rows are named alike."""
    labels = [""] * len(rows)
    for key in texts:
        labels = [f"{label}, {row.get(key)}" for label, row in zip(labels, rows, strict=True)]
        if len(set(labels)) == len(labels):
            break
    return [label.removeprefix(", ") for label in labels]


def _draw_run(run: "Outcome | Run", stem: Path, suffix: str, caption: str) -> list[Path]:
    from mrcjax.report import plot

    return [
        plot.link_utilisation(run, stem.with_name(f"{stem.name}-links{suffix}"), caption),
        plot.finish_times(run, stem.with_name(f"{stem.name}-finish{suffix}"), caption),
    ]


def _figure_stem(file: Path, name: str, folder: Path) -> Path:
    plain = re.sub(r"[^\w.+-]+", "_", name)
    return folder / f"{file.name.removesuffix('.h5')}-{plain}"


def _what(asked: "Spec") -> str:
    return f"{asked.collective.kind} on {_where(asked)}"


def _where(asked: "Spec") -> str:
    return f"{asked.network.kind} with {asked.network.ranks:,} ranks"


def _print_json(value: Any) -> None:
    print(json.dumps(_plain(value), indent=2, allow_nan=False, ensure_ascii=False))


def _plain(value: Any) -> Any:
    """Replace what JSON has no word for: NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


# --- waiting, interrupting, failing ------------------------------------------------------------


def _at_once(work: Callable[[], T], what: str) -> T:
    """Do the work in a thread, so that Ctrl-C is answered even while compiled code runs."""
    done: list[tuple[T | None, BaseException | None]] = []

    def target():
        try:
            done.append((work(), None))
        except BaseException as error:
            done.append((None, error))

    thread = threading.Thread(target=target, daemon=True)
    _progress(what)
    try:
        thread.start()
        thread.join()
    except KeyboardInterrupt:
        # compiled code cannot be stopped, only left
        os._exit(_interrupted())
    finally:
        _progress("")
    result, error = done[0]
    if error is not None:
        raise error
    return result  # pyright: ignore[reportReturnType]


def _until_interrupted(work: Callable[[Callable[[], bool]], T], what: str) -> T:
    """Do work that asks whether to stop; Ctrl-C makes it stop, a second one ends the process."""
    stop = threading.Event()

    def ask(_: int, __: Any) -> None:
        if stop.is_set():
            os._exit(_interrupted())
        print("\nmrcjax: ending with the best so far; Ctrl-C again ends at once", file=sys.stderr)
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        return work(stop.is_set)
    before = signal.signal(signal.SIGINT, ask)
    try:
        return _at_once(lambda: work(stop.is_set), what)
    finally:
        signal.signal(signal.SIGINT, before)


def _progress(text: str) -> None:
    """Show what is being done, where someone watches; no text takes it away."""
    if sys.stderr.isatty():
        # a line that wraps could not be taken away
        line = f"{text} ..."[: shutil.get_terminal_size().columns - 1] if text else ""
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def _interrupted() -> int:
    print("mrcjax: interrupted", file=sys.stderr, flush=True)
    return INTERRUPTED


def _pipe_closed() -> int:
    """Keep quiet when whoever read the output has gone, also at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED


def _message(error: Exception) -> str | None:
    """Return what to tell the user; None for what is a bug."""
    from mrcjax.units import SpecError

    # an archive's error cannot come from a command that has not imported it
    archive = sys.modules.get("mrcjax.archive")
    if isinstance(error, SpecError) or (archive and isinstance(error, archive.ArchiveError)):
        return str(error)
    # XLA has an error of its own
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return "out of memory; use fewer ranks or rails, or a machine with more memory"
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f"{error.filename}: "
        return place + error.strerror.lower()
    return None


# --- JAX ---------------------------------------------------------------------------------------


def _prepare_jax() -> None:
    """Keep JAX quiet about what it lacks, and its compiled code from one command to the next."""
    # 3 hides errors too: reading the cache, XLA takes settings of its compiler (prefer-no-gather)
    # for features that the processor lacks and warns of a crash; code of another processor is
    # never read (see `_processor`), and what really fails is raised
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.getLogger("jax._src.xla_bridge").setLevel(logging.ERROR)
    # a cache that cannot be read or written costs time and nothing else
    warnings.filterwarnings("ignore", message=".*persistent compilation cache")
    import jax

    folder = None if "JAX_COMPILATION_CACHE_DIR" in os.environ else _cache_folder()
    if folder is not None:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    try:
        jax.devices()
    except Exception as error:
        if "JAX_PLATFORMS" not in os.environ:
            raise
        from mrcjax.spec import SpecError

        raise SpecError(
            "names no platform that JAX can start here",
            where="JAX_PLATFORMS",
            value=os.environ["JAX_PLATFORMS"],
            remedy="unset the variable, or set it to cpu",
        ) from error


def _cache_folder() -> Path | None:
    """Return a folder for compiled code of this kind of processor; None where there can be none."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = base / "mrcjax" / _processor()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


def _processor() -> str:
    """Name the instructions that code may use: homes are shared between unlike machines."""
    flags = ""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()}-{hashlib.sha256(flags.encode()).hexdigest()[:8]}"
