"""Say when, and by which versions, a file was made."""

import importlib.metadata
import platform
import sys
from datetime import UTC, datetime

import h5py
import numpy as np


def iso(moment: datetime) -> str:
    """Return a moment as ISO 8601 in UTC, to the second."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def version() -> str:
    """Return the version of mrcjax."""
    try:
        return importlib.metadata.version("mrcjax")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def versions() -> dict[str, str]:
    """Return the versions of all that has a part in the results."""
    found = {
        "mrcjax": version(),
        "numpy": np.__version__,
        "h5py": h5py.__version__,
        "python": platform.python_version(),
    }
    # archives are also written where no JAX is needed; then it had no part in them
    if "jax" in sys.modules:
        found["jax"] = sys.modules["jax"].__version__
    return found
