"""Turn what went wrong with an archive into a sentence that says where and what to do."""

from pathlib import Path


class ArchiveError(ValueError):
    """Say what is wrong with an archive file, where, and what to do about it.

    Attributes:
        what: the complaint, a verb phrase about the file ("is not an HDF5 file").
        where: the file or folder.
        remedy: what to do about it, or "".
    """

    def __init__(self, what: str, where: str | Path = "", remedy: str = ""):
        # all three as args, so that the error survives pickling between processes
        super().__init__(what, str(where), remedy)
        self.what, self.where, self.remedy = what, str(where), remedy

    def __str__(self) -> str:
        text = f"{self.where} {self.what}".strip()
        return f"{text}; {self.remedy}" if self.remedy else text


def reason(error: Exception) -> str:
    """Return what an error of the system or of HDF5 says, on one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    lines = str(error).strip("'\"").splitlines()
    return lines[0] if lines else type(error).__name__
