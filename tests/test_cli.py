"""The command line: what it prints, what it writes, how it refuses, and how it ends early."""

import importlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_spec import BAD_SPECS

from mrcjax import archive, cli
from mrcjax.spec import example, json_schema, load_spec

FLAT = example("flat_rails").replace("ranks = 1024", "ranks = 16")
TRAINING = (
    example("training")
    .replace("ranks = 1024", "ranks = 64")
    .replace("group_size = 128", "group_size = 8")
)
# what an acceptance script reads, with its type
CONTRACT = {
    "schema": int,
    "network": {"kind": str, "ranks": int, "links": int},
    "collective": {"kind": str, "algorithm": str, "bytes": float},
    "engine": str,
    "time_s": float,
    "lower_bound_s": float,
    "bound_ratio": float,
    "bound_kind": str,
    "binding": {"resource": str, "name": str, "utilisation": float},
    "algbw_bytes_per_s": float,
    "busbw_bytes_per_s": float,
    "finish_s": {"min": float, "median": float, "max": float},
    "wall_s": {"build": float, "compile": float, "run": float},
    "warnings": list,
}


@pytest.fixture(scope="session")
def cache_home(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, cache_home):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_home))


@pytest.fixture
def spec_file(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(FLAT)
    return path


@pytest.fixture
def training_file(tmp_path):
    path = tmp_path / "training.toml"
    path.write_text(TRAINING)
    return path


@pytest.fixture
def call(capsys):
    """Run a command in this process: status, stdout, stderr."""

    def called(*arguments: object) -> tuple[int, str, str]:
        status = cli.main([str(word) for word in arguments])
        out, err = capsys.readouterr()
        return status, out, err

    return called


def process(*arguments: object, **more) -> subprocess.Popen[str]:
    """Start `mrcjax` as a process of its own."""
    words = [sys.executable, "-m", "mrcjax", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(words, **(pipes | more))


def refused(result: tuple[int, str, str], *parts: str) -> None:
    """Check that a command ended with one message that has all parts, and nothing else."""
    status, out, err = result
    assert status == 2
    assert out == ""
    assert err.startswith("mrcjax: ")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err


def has_types(found: object, wanted: object) -> None:
    if isinstance(wanted, dict):
        assert isinstance(found, dict)
        for key, inner in wanted.items():
            has_types(found[key], inner)
    else:
        assert type(found) is wanted


def no_constant(name: str):
    raise AssertionError(f"{name} is no JSON")


def read_json(text: str) -> dict:
    found = json.loads(text, parse_constant=no_constant)
    assert isinstance(found, dict)
    return found


# --- run ---------------------------------------------------------------------------------------


def test_run_prints_one_json_object_with_the_contract(call, spec_file):
    status, out, err = call("run", spec_file, "--json")
    assert (status, err) == (0, "")
    found = read_json(out)
    has_types(found, CONTRACT)
    assert found["network"] == {"kind": "flat_rails", "ranks": 16, "links": 256}
    assert found["precision"] == "float64"
    assert found["time_s"] == pytest.approx(2 * (2 * 1e9 / 16 / 50e9 + 1e-6), rel=1e-9)
    assert found["bound_ratio"] == pytest.approx(found["time_s"] / found["lower_bound_s"])
    assert list(map(type, found["warnings"])) == [str] * len(found["warnings"])


def test_run_prints_text(call, spec_file):
    status, out, err = call("run", spec_file)
    assert (status, err) == (0, "")
    for part in ("all_reduce of 1 GB", "flat_rails with 16 ranks", "completion time", "binding"):
        assert part in out


def test_warnings_are_in_text_and_json(call, spec_file):
    narrow = ("--set", "engine.precision=float32")
    assert "warning: float32" in call("run", spec_file, *narrow)[1]
    found = read_json(call("run", spec_file, "--json", *narrow)[1])
    assert found["precision"] == "float32"
    assert any("float32" in warning for warning in found["warnings"])


@pytest.mark.parametrize(
    "words",
    [
        ("--set", "network.ranks=8", "--set", "collective.algorithm=ring"),
        ("--set", "network.ranks=8", "collective.algorithm=ring"),
        ("--set=network.ranks=8", "--set=collective.algorithm=ring"),
        ("--json", "--set", "network.ranks=8", "collective.algorithm=ring", "--json"),
    ],
)
def test_set_overrides_any_key(call, spec_file, words):
    _, out, _ = call("run", *words, spec_file, *(() if "--json" in words else ("--json",)))
    found = read_json(out)
    assert found["network"]["ranks"] == 8
    assert found["collective"]["algorithm"] == "ring"


def test_empty_messages_take_their_latencies(call, spec_file):
    found = read_json(call("run", spec_file, "--json", "--set", "collective.size=0 B")[1])
    assert found["time_s"] > 0
    assert found["binding"]["resource"] == "latency"


def test_nothing_to_send(call, spec_file):
    found = read_json(call("run", spec_file, "--json", "--set", "network.ranks=1")[1])
    assert found["time_s"] == 0
    assert found["bound_ratio"] == 1
    assert found["binding"]["resource"] == "none"
    assert call("run", spec_file, "--set", "network.ranks=1")[0] == 0


def test_explain_prints_hardware_and_assumptions_with_their_sources(call, training_file):
    status, out, _ = call("run", training_file, "--explain")
    assert status == 0
    assert "switch_51t2: watts" in out
    assert "ipinfusion.com" in out
    found = read_json(call("run", training_file, "--explain", "--json")[1])
    known = {row["assumption"]: row for row in found["assumptions"]}
    assert known["tensor_parallel"]["value"] == "8 ranks"
    assert all(row["source"] for row in found["assumptions"])
    assert ["hardware", "one-tier Clos"] in found["hardware"]


def test_training_gives_the_step_and_its_cost(call, training_file, tmp_path):
    status, out, err = call("run", training_file, "--json", "--out", tmp_path / "runs.h5")
    assert (status, err) == (0, "")
    found = read_json(out)
    has_types(found, CONTRACT)
    training = found["training"]
    runs = training["runs"]
    assert set(runs) == {"reduce_scatter", "all_gather"}
    assert training["step"]["gradient_bucket_s"] == runs["reduce_scatter"]["time_s"]
    assert 0 < training["step"]["utilisation"] < 1
    assert training["step"]["tokens_per_s"] > 0
    assert training["cost"]["total_usd"] > training["cost"]["gpu_usd"] > 0
    # the collective of the spec is one of the buckets, and is not kept twice
    assert found["time_s"] == runs["reduce_scatter"]["time_s"]
    stored = archive.load(tmp_path / "runs.h5")
    name = "fat_tree-direct-64"
    assert list(stored.runs) == [name, f"{name}-all_gather"]
    assert list(stored.tables) == [f"{name}-training"]
    status, out, _ = call("run", training_file)
    assert status == 0
    for part in ("tokens/s", "MFU, causal attention", "electricity", "total with NICs, kW"):
        assert part in out


# --- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "text", "parts"), BAD_SPECS, ids=[bad[0] for bad in BAD_SPECS])
def test_bad_spec_is_refused_before_jax_is_there(call, tmp_path, monkeypatch, name, text, parts):
    monkeypatch.setattr("mrcjax.cli.run.prepare_jax", lambda: pytest.fail("JAX was asked for"))
    path = tmp_path / f"{name}.toml"
    path.write_text(text)
    # where the message names the text, it names the file
    refused(call("run", path), *parts)


NETWORK_REFUSALS = [
    (
        "too_many_links",
        "flat_rails",
        ("network.ranks=2000000000",),
        ("network.ranks", "2000000000", "use fewer ranks"),
    ),
    (
        "full_mesh",
        "flat_rails",
        ("network.ranks=16384", 'network.reach="direct"'),
        ("network.rails must be 16383", "got 8", "134209536 cables", 'reach = "all"'),
    ),
    ("tree_too_small", "fat_tree", ("network.radix=8",), ("network.ranks", "1024", "radix")),
    ("planes_too_small", "mrc_planes", ("network.radix=8",), ("network.ranks", "radix")),
    ("dragonfly_too_small", "dragonfly", ("network.ranks=100000",), ("network.ranks", "100000")),
    (
        "no_such_link",
        "faults",
        ('faults.links.0.match="rank 999 *"',),
        ("faults.links[0].match", "rank 999 *", "rank 0 egress rail 0"),
    ),
    (
        "link_down",
        "faults",
        ("faults.links.0.rate=0",),
        ("faults.links", "rank 7 egress rail 0", "down", "give it a rate above 0"),
    ),
    (
        "channels_on_direct_wiring",
        "direct_wiring",
        ("network.channels=3",),
        ("network.channels", "3", "leave channels out"),
    ),
]


@pytest.mark.parametrize(
    ("kind", "overrides", "parts"),
    [refusal[1:] for refusal in NETWORK_REFUSALS],
    ids=[refusal[0] for refusal in NETWORK_REFUSALS],
)
def test_what_cannot_be_built_or_reached_is_refused(call, tmp_path, kind, overrides, parts):
    path = tmp_path / "spec.toml"
    path.write_text(example(kind))
    refused(call("run", path, "--set", *overrides), *parts)


def test_files_that_cannot_be_read(call, tmp_path):
    refused(call("run", tmp_path / "none.toml"), "none.toml", "mrcjax spec --example")
    refused(call("run", tmp_path), "is a folder")
    refused(call("bound", tmp_path / "a=b"), "a=b")
    (tmp_path / "text.h5").write_text("no archive")
    refused(call("show", tmp_path / "text.h5"), "text.h5", "not an HDF5 file")
    refused(call("show", tmp_path / "none.h5"), "none.h5 does not exist", "mrcjax run SPEC")
    refused(call("plot", tmp_path / "none.h5"), "none.h5 does not exist")


def test_out_is_checked_before_the_work(call, spec_file, tmp_path, monkeypatch):
    monkeypatch.setattr("mrcjax.step.run_with_step", lambda _: pytest.fail("was emulated"))
    (tmp_path / "notes.txt").write_text("keep me")
    refused(call("run", spec_file, "--out", tmp_path / "notes.txt"), "notes.txt", "not an HDF5")
    refused(call("run", spec_file, "--out", tmp_path / "notes.txt" / "a.h5"), "not a folder")
    refused(call("compare", "--out", tmp_path / "notes.txt"), "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "keep me"
    refused(call("run", spec_file, "--set", "output.figures=true"), "output.figures", "--out")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ((), "a command is missing; use one of run, compare"),
        (("run",), "missing from mrcjax run: SPEC The spec, a TOML file; see mrcjax run --help"),
        (("trace", "a.h5"), "missing from mrcjax trace: --out FILE.json"),
        (("walk",), '"walk" is no command; use one of run, compare'),
        (("swep", "a.toml"), '"swep" is no command; did you mean sweep?'),
        (("run", "a.toml", "--nosuch"), "unrecognized options: --nosuch; see mrcjax run --help"),
        (("run", "a.toml", "--oout", "a"), "unrecognized options: --oout, a; did you mean --out?"),
        (("run", "a.toml", "b.toml"), "unrecognized options: b.toml; see"),
        (("sweep", "a.toml", "--jobs"), "missing value for argument"),
        (("show",), "missing from mrcjax show: FILE.h5"),
        (("bound", "a.toml", "--out", "a"), "options: --out a; see mrcjax bound --help"),
    ],
)
def test_usage_errors(call, words, what):
    refused(call(*words), what)


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_usage_errors_wherever_they_are_printed(encoding):
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "FORCE_COLOR": "1"}
    job = process("run", "a.toml", "--oout", "b.h5", env=environment)
    out, err = job.communicate()
    said = "mrcjax: unrecognized options: --oout, b.h5; did you mean --out? see mrcjax run --help\n"
    assert (job.returncode, out, err) == (2, "", said)


@pytest.mark.parametrize("wrong", ["x", "", "1.5", "-1", "1e3", "0x10", "²", "9" * 5000])
@pytest.mark.parametrize(
    "words",
    [
        ("sweep", "a.toml", "--jobs"),
        ("compare", "--ranks"),
        ("run", "a.toml", "--processes"),
        ("run", "a.toml", "--process"),
        ("run", "a.toml", "--trace-ranks"),
        ("trace", "a.h5", "--out", "a.json", "--ranks"),
        ("trace", "a.h5", "--out", "a.json", "--events"),
    ],
)
def test_options_that_take_whole_numbers(call, words, wrong):
    got = wrong if len(wrong) < 60 else wrong[:56]
    refused(
        call(*words, wrong), f"{words[-1]} must be a whole number, ", f'got "{got}', "write for"
    )


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("sweep", "a.toml", "--jobs", "0"), '--jobs must be a whole number, 1 or more, got "0"'),
        (("sweep", "a.toml", "--jobs", "9" * 30), "--jobs must be a whole number, at most 4,096"),
        (("compare", "--ranks", "9" * 30), "--ranks must be a whole number, at most 2,147,483,647"),
        (("diff", "a.h5", "b.h5", "--rtol", "x"), '--rtol must be a number, 0 or more, got "x"'),
        (("diff", "a.h5", "b.h5", "--rtol", "nan"), '--rtol must be a number, 0 or more, got "na'),
        (("plot", "a.h5", "--format", "gif"), 'got "gif"; use one of png, svg, pdf'),
    ],
)
def test_options_that_take_others(call, words, what):
    refused(call(*words), what)


def test_a_bug_is_no_refusal(spec_file, monkeypatch):
    def broken(_):
        raise ValueError("a bug")

    monkeypatch.setattr("mrcjax.step.run_with_step", broken)
    with pytest.raises(ValueError, match="a bug"):
        cli.main(["run", str(spec_file)])


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("RESOURCE_EXHAUSTED: Out of ...")])
def test_out_of_memory(call, spec_file, monkeypatch, error):
    def greedy(_):
        raise error

    monkeypatch.setattr("mrcjax.step.run_with_step", greedy)
    refused(call("run", spec_file), "out of memory", "fewer ranks")


# --- archives ----------------------------------------------------------------------------------


def test_out_adds_runs_with_the_command_that_made_them(call, spec_file, tmp_path):
    target = tmp_path / "new" / "runs.h5"
    for _ in range(2):
        assert call("run", spec_file, "--out", target)[0] == 0
    stored = archive.load(target)
    assert list(stored.runs) == ["flat_rails-direct-16", "flat_rails-direct-16-2"]
    run = stored.run("flat_rails-direct-16")
    assert run.command == shlex.join(["mrcjax", "run", str(spec_file), "--out", str(target)])
    assert run.spec == load_spec(spec_file)
    assert run.started


def test_out_wins_over_the_spec_and_figures_stand_beside(call, spec_file, tmp_path):
    more = f'[output]\nfile = "{tmp_path / "of_spec.h5"}"\nfigures = true\n'
    spec_file.write_text(FLAT + more)
    assert call("run", spec_file)[0] == 0
    assert call("run", spec_file, "--out", tmp_path / "a" / "of_flag.h5")[0] == 0
    assert len(archive.load(tmp_path / "of_spec.h5").runs) == 1
    name = "of_flag-flat_rails-direct-16"
    found = {path.name for path in (tmp_path / "a").iterdir()}
    assert found == {"of_flag.h5", f"{name}-links.png", f"{name}-finish.png"}


def test_show_and_plot(call, spec_file, tmp_path):
    target = tmp_path / "runs.h5"
    call("run", spec_file, "--out", target)
    assert "completion time" in call("show", target)[1]
    status, out, _ = call("plot", target)
    assert status == 0
    assert [Path(line).is_file() for line in out.splitlines()] == [True, True]
    call("run", spec_file, "--out", target, "--set", "collective.algorithm=ring")
    assert "flat_rails-ring-16" in call("show", target)[1]
    text = call("show", target, "--run", "flat_rails-ring-16")[1]
    assert "by ring" in text
    found = read_json(call("show", target, "--run", "flat_rails-ring-16", "--json")[1])
    has_types(found, CONTRACT)
    refused(call("plot", target), "holds 2 runs", "flat_rails-ring-16")
    refused(call("show", target, "--run", "nosuch"), "nosuch", "flat_rails-direct-16")
    folder = tmp_path / "figures"
    words = ("--run", "flat_rails-ring-16", "--out", folder, "--format", "svg")
    assert call("plot", target, *words)[0] == 0
    assert {path.suffix for path in folder.iterdir()} == {".svg"}
    refused(call("plot", target, *words[:2], "--out", target / "x"), str(target))
    refused(call("plot", target, *words[:2], "--out", target), "--out is no folder", "name a")
    trace, figure = tmp_path / "a.json", tmp_path / "a.txt"
    said = call("trace", target, *words[:2], "--out", trace, "--figure", figure)
    refused(said, 'cannot draw a figure as "a.txt"; let its name end in .png')
    assert not trace.exists()
    refused(call("report", target, "--out", target / "x" / "a.html"), "cannot be written")


def test_plot_draws_the_bars_of_a_stored_comparison(call, spec_file, tmp_path, monkeypatch):
    columns = [
        archive.Column("name", "network"),
        archive.Column("algorithm", "by"),
        archive.Column("time_s", "time", "ms", 1e-3, bound_key="bound_s"),
        archive.Column("bound_s", "lower bound", "ms", 1e-3),
    ]
    rows = [
        {"name": "one", "algorithm": "ring", "time_s": 1e-3, "bound_s": 9e-4},
        {"name": "one", "algorithm": "direct", "time_s": 2e-3, "bound_s": None},
    ]
    target = tmp_path / "compared.h5"
    call("run", spec_file, "--out", target)
    tables = {
        "equal rates": archive.Table(rows, columns),
        "words": archive.Table([{"of": "a", "is": "b"}]),
    }
    archive.write(target, {}, command="test", tables=tables)
    status, out, _ = call("plot", target)
    assert status == 0
    assert out == f"{tmp_path / 'compared-equal_rates.png'}\n"
    labels, numbers = [], []
    monkeypatch.setattr(
        "mrcjax.report.plot.bars",
        lambda rows, path, _, **more: (
            labels.extend(row["label"] for row in rows) or numbers.extend(more["columns"]) or path
        ),
    )
    call("plot", target)
    assert labels == ["one, ring", "one, direct"]
    assert numbers == [columns[2]]
    # a named run is drawn alone
    assert call("plot", target, "--run", "flat_rails-direct-16")[1].count("\n") == 2


# --- bound, spec -------------------------------------------------------------------------------


def test_bound_agrees_with_run(call, spec_file):
    found = read_json(call("bound", spec_file, "--json")[1])
    run = read_json(call("run", spec_file, "--json")[1])
    for key in ("schema", "network", "lower_bound_s", "bound_kind", "bounds_s"):
        assert found[key] == run[key]
    status, out, err = call("bound", spec_file, "--set", "network.ranks=8")
    assert (status, err) == (0, "")
    assert "8 ranks" in out
    assert "ports (all)      4.375 ms  <- the lower bound" in out


def test_no_way_at_all_is_null_in_json(call, spec_file):
    down = ("--set", 'faults.links=[{match="rank 3 egress *", rate=0}]')
    found = read_json(call("bound", spec_file, "--json", *down)[1])
    assert found["bounds_s"]["ports (slowest)"] is None
    assert call("bound", spec_file, *down)[0] == 0


def test_spec(call):
    assert read_json(call("spec", "--schema")[1]) == json.loads(json.dumps(json_schema()))
    assert call("spec", "--example", "fat_tree")[1] == example("fat_tree")
    refused(call("spec", "--example", "torus"), "torus", "flat_rails")
    refused(call("spec"), "--schema", "--example")
    refused(call("spec", "--schema", "--example", "fat_tree"), "--schema", "--example")


# --- as a process ------------------------------------------------------------------------------


def test_help_and_version_need_no_jax():
    code = (
        "import sys; from mrcjax.cli import main\n"
        "for words in (['--help'], ['run', '--help'], ['--version'], ['spec', '--schema']):\n"
        "    assert main(words) == 0\n"
        "assert not {'jax', 'numpy', 'h5py', 'matplotlib'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    for part in ("usage: mrcjax", "compare", "Left out of the training step", "mrcjax 0."):
        assert part in done.stdout


def test_cache_of_compiled_code_is_filled_and_silent(spec_file, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # importing jax sets it, here for the processes started from here too
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    for _ in range(2):
        job = process("run", spec_file, "--json")
        out, err = job.communicate()
        assert (job.returncode, err) == (0, "")
        has_types(read_json(out), CONTRACT)
    assert list((tmp_path / "cache" / "mrcjax").glob("*/*"))


def test_no_folder_for_the_cache_is_no_reason_to_fail(spec_file, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/none")
    job = process("run", spec_file)
    _, err = job.communicate()
    assert (job.returncode, err) == (0, "")


def test_platform_that_jax_cannot_start(spec_file):
    job = process("run", spec_file, env={**os.environ, "JAX_PLATFORMS": "abacus"})
    out, err = job.communicate()
    refused((job.returncode, out, err), "JAX_PLATFORMS", "abacus", "cpu")


def test_closed_pipe_is_quiet():
    job = process("spec", "--schema")
    assert job.stdout is not None
    assert job.stderr is not None
    job.stdout.close()
    assert job.stderr.read() == ""
    assert job.wait() == 141
    job.stderr.close()


def test_interrupt_is_answered_at_once(spec_file, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # 32,766 rounds of 16,384 ranks take minutes
    slow = ("network.ranks=16384", "collective.algorithm=ring", "engine.fast_forward=false")
    job = process("run", spec_file, "--out", tmp_path / "a.h5", "--set", *slow)
    wait_for(lambda: any(tmp_path.glob("cache/mrcjax/*")))
    time.sleep(4)
    began = time.monotonic()
    job.send_signal(signal.SIGINT)
    out, err = job.communicate(timeout=60)
    assert time.monotonic() - began < 10
    assert (job.returncode, out, err) == (130, "", "mrcjax: interrupted\n")
    assert not list(tmp_path.glob("*.h5*"))


def wait_for(happened, timeout_s: float = 120.0) -> None:
    give_up = time.monotonic() + timeout_s
    while not happened():
        assert time.monotonic() < give_up
        time.sleep(0.001)


@pytest.mark.parametrize("moment", ["starting", "computing", "writing"])
def test_killed_run_leaves_the_archive_as_it_was(call, spec_file, tmp_path, moment):
    target = tmp_path / "runs.h5"
    call("run", spec_file, "--out", target)
    before = target.read_bytes()
    job = process("run", spec_file, "--out", target, "--set", "network.ranks=64")
    if moment == "writing":
        wait_for(lambda: (tmp_path / ".runs.h5.lock").exists())
    else:
        time.sleep(0.3 if moment == "starting" else 2.0)
    job.kill()
    job.communicate()
    assert job.returncode == -signal.SIGKILL
    if target.read_bytes() != before:  # the kill came after the new file had taken its place
        assert len(archive.load(target).runs) == 2
    before = list(archive.load(target).runs)
    # and the next run finds everything in order
    assert call("run", spec_file, "--out", target)[0] == 0
    assert list(archive.load(target).runs)[:-1] == before
    assert os.listdir(tmp_path).count("runs.h5") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"spec.toml", "runs.h5"}


def test_killed_compare_leaves_the_archive_as_it_was(call, spec_file, tmp_path):
    target = tmp_path / "compare.h5"
    call("run", spec_file, "--out", target)
    before = target.read_bytes()
    job = process("compare", "--out", target)
    time.sleep(5)
    job.kill()
    job.communicate()
    assert job.returncode == -signal.SIGKILL
    assert target.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"spec.toml", "compare.h5"}


def test_compare_is_wired(call, tmp_path, monkeypatch):
    module = importlib.import_module("mrcjax.comparison")
    did = []

    class Compared:
        def text(self):
            return "the tables"

        def write(self, path, command):
            did.append((path, command))

        def figures(self, folder, command):
            did.append((folder, command))

    def compare(progress, ranks):
        did.append(ranks)
        return Compared()

    monkeypatch.setattr(module, "compare", compare)
    target = tmp_path / "compare.h5"
    assert call("compare", "--out", target) == (0, "the tables\n", "")
    command = f"mrcjax compare --out {target}"
    assert did == [None, (target, command), (tmp_path, command)]
    did.clear()
    assert call("compare", "--out", target, "--no-figures", "--ranks", "64")[0] == 0
    assert did == [64, (target, f"{command} --no-figures --ranks 64")]
