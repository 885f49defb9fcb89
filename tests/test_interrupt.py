"""Ctrl-C while a command is still being imported: one line and the status that shells count."""

import subprocess
import sys

import pytest

from mrcjax.spec import example

# Ctrl-C comes when a module is first asked for
MEANWHILE = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == {module!r} and self in sys.meta_path:
            sys.meta_path.remove(self)
            {then}

sys.meta_path.insert(0, Interrupting())
from mrcjax.cli import main
sys.exit(main({words!r}))
"""
CTRL_C = "os.kill(os.getpid(), signal.SIGINT)"
# as Python 3.11 has it where a class is being made
MADE_ANOTHER = "raise RuntimeError('Error calling __set_name__') from KeyboardInterrupt()"


def run_script(tmp_path, words, **more):
    (tmp_path / "spec.toml").write_text(example("flat_rails").replace("1024", "4"))
    code = MEANWHILE.format(words=words, **more)
    asked = [sys.executable, "-c", code]
    return subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("module", "words", "then"),
    [
        ("tyro", ["--help"], CTRL_C),
        ("mrcjax.cli.run", ["--version"], CTRL_C),
        ("mrcjax.spec", ["run", "spec.toml"], CTRL_C),
        ("jax", ["run", "spec.toml"], CTRL_C),
        ("jaxlib", ["run", "spec.toml"], CTRL_C),
        ("mrcjax.step", ["run", "spec.toml"], MADE_ANOTHER),
    ],
)
def test_ends_with_one_line(tmp_path, module, words, then):
    done = run_script(tmp_path, words, module=module, then=then)
    assert (done.stdout, done.stderr) == ("", "mrcjax: interrupted\n")
    assert done.returncode == 130


def test_what_is_not_listened_to_is_not_answered(tmp_path):
    """As under nohup, and in the processes of a sweep."""
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + MEANWHILE
    code = code.format(module="tyro", words=["--version"], then=CTRL_C)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("mrcjax ")
