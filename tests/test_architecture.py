"""Modules import only from earlier links of the chain; what must stay light stays light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mrcjax

assert mrcjax.__file__ is not None
ROOT = Path(mrcjax.__file__).parent

# Each may import from those above it; those of one line do not know each other.
CHAIN = [
    {"units", "pytree", "programs"},
    {"hardware"},
    {"spec"},
    {"network"},
    {"collective"},
    {"engine"},
    {"faults"},
    {"case", "devices", "outcome"},
    {"batched", "larger"},
    {"aggregate", "bound", "fluid", "round_order", "training", "archive", "scenarios"},
    {"findings"},
    {"emulation", "report"},
    {"step", "tracing"},
    {"tuning"},
    {"sweeping"},
    {"comparison"},
    {"cli"},
    {"__main__"},
]
LINK = {part: number for number, parts in enumerate(CHAIN) for part in parts}
WITHOUT_JAX = ("units", "hardware", "spec", "outcome", "archive", "training", "report")


def modules() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            assert node.module is not None
            yield node.module
            if node.module == "mrcjax":
                yield from (f"mrcjax.{alias.name}" for alias in node.names)


def own(names: Iterator[str]) -> set[str]:
    """Return the parts of mrcjax among imported names."""
    parts = {name.split(".")[1] for name in names if name.startswith("mrcjax.")}
    return parts - {"__version__"}


def test_every_module_has_its_link():
    assert {part_of(path) for path in modules()} <= set(LINK)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_come_from_earlier_links(path):
    part = part_of(path)
    for other in own(imports(path)) - {part}:
        assert LINK[other] < LINK[part], f"{part} may not import {other}"


def test_engine_knows_neither_spec_nor_files():
    for path in (ROOT / "engine").rglob("*.py"):
        found = set(imports(path))
        assert not own(iter(found)) & {"spec", "hardware", "units", "outcome", "archive"}
        assert not {name.split(".")[0] for name in found} & {
            "os",
            "pathlib",
            "io",
            "h5py",
            "msgspec",
        }


def test_one_folder_draws_and_one_stores():
    for package, owner in (("matplotlib", "report/plot"), ("h5py", "archive")):
        users = {
            path
            for path in modules()
            if any(name.split(".")[0] == package for name in imports(path))
        }
        assert users
        assert all(path.is_relative_to(ROOT / owner) for path in users)


@pytest.mark.parametrize("part", WITHOUT_JAX)
def test_no_jax_is_imported_directly(part):
    for path in (path for path in modules() if part_of(path) == part):
        assert not {name.split(".")[0] for name in imports(path)} & {"jax", "jaxlib"}


def test_no_jax_is_imported_indirectly():
    names = [f"mrcjax.{part}" for part in WITHOUT_JAX] + [
        "mrcjax.cli.commands",
        "mrcjax.report.plot",
    ]
    code = f"import sys, {', '.join(names)}; assert 'jax' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
