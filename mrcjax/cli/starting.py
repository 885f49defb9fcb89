"""JAX as the command line starts it."""

import hashlib
import logging
import os
import platform
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mrcjax.cli.waiting import importing


def prepare_jax(join: Callable[[], None] | None = None) -> None:
    """Keep JAX quiet about what it lacks, and its compiled code from one command to the next.

    join: what makes this process one of several, before JAX looks for devices.
    """
    # 3 hides errors too: reading the cache, XLA takes settings of its compiler (prefer-no-gather)
    # for features that the processor lacks and warns of a crash; code of another processor is
    # never read (see `_processor`), and what really fails is raised
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.getLogger("jax._src.xla_bridge").setLevel(logging.ERROR)
    # a cache that cannot be read or written costs time and nothing else
    warnings.filterwarnings("ignore", message=".*persistent compilation cache")
    with importing():
        import jax

    folder = None if "JAX_COMPILATION_CACHE_DIR" in os.environ else _cache_folder()
    if folder is not None:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    if join is not None:
        join()
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
