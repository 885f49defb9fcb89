"""The public names: what they are, that the example of the package runs, and what import costs."""

import ast
import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import mrcjax


def test_the_example_of_the_package_runs():
    failed, tried = doctest.testmod(mrcjax, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert tried >= 8
    assert failed == 0


@pytest.mark.parametrize("name", mrcjax.__all__)
def test_public_name_resolves_to_the_thing_itself(name):
    public = getattr(mrcjax, name)
    assert not isinstance(public, type(sys))
    module = importlib.import_module(f"mrcjax.{mrcjax._MODULE_OF_NAME[name]}")
    assert public is getattr(module, name)
    # an import of the module does not put it in the place of the function
    assert getattr(mrcjax, name) is public
    assert name in dir(mrcjax)


def test_names_for_type_checkers_are_the_names():
    assert mrcjax.__file__ is not None
    tree = ast.parse(Path(mrcjax.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    typed = {
        alias.name: node.module.removeprefix("mrcjax.")
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }
    assert typed == mrcjax._MODULE_OF_NAME
    assert sorted(mrcjax.__all__) == sorted(typed)


def test_unknown_name():
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        _ = mrcjax.nosuch


def test_import_is_light_and_leaves_global_precision_alone():
    code = """
import sys, mrcjax
assert "jax" not in sys.modules
assert not {"numpy", "h5py"} & set(sys.modules)
import mrcjax.emulation, mrcjax.step
outcome = mrcjax.run(mrcjax.load_spec('''
[network]
kind = "flat_rails"
ranks = 4
rails = 1
rail_rate = "400 Gbit/s"
[collective]
kind = "all_reduce"
algorithm = "ring"
size = "1 MB"
'''))
assert outcome.precision == "float64"
assert abs(outcome.time_s / (6 * (250e3 / 50e9 + 1e-6)) - 1) < 1e-9, outcome.time_s
import jax, jax.numpy as jnp
assert not jax.config.jax_enable_x64
assert jnp.zeros(1).dtype == jnp.float32
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
