"""The networks that are compared: a spec per row, read from `rows/`."""

from dataclasses import dataclass
from importlib import resources

import msgspec

from mrcjax.spec import Spec, TrainingSpec, load_spec

GPUS = ("h100", "b200")
GPU_NAMES = {"h100": "H100", "b200": "B200"}
# The rows are written for H100. NVLink 5: 830 of 900 GB/s measured on 8 GPUs (NVIDIA/nccl#1807).
_GPU_OVERRIDES = {"h100": (), "b200": ("network.node_rate=830 GB/s", "training.gpu=b200")}

_NAMES = {
    "a": {
        "fat_tree": "fat tree",
        "dragonfly": "dragonfly",
        "flat_rails": "flat rails",
        "mrc_planes": "MRC planes",
    },
    "b": {
        "fat_tree": "fat tree",
        "dragonfly": "dragonfly",
        "flat_rails_8": "flat rails 8",
        "flat_rails_20": "flat rails 20",
        "mrc_planes": "MRC planes",
    },
}


@dataclass(frozen=True)
class Row:
    """One network of a table.

    key: as in the file's name, "fat_tree". specs: by GPU.
    """

    part: str  # "a" | "b"
    key: str
    name: str
    specs: dict[str, Spec]

    @property
    def spec(self) -> Spec:
        """The spec as the file has it, with H100."""
        return self.specs["h100"]

    def training(self, gpu: str = "h100") -> TrainingSpec:
        """The training section with a GPU; every row has one."""
        training = self.specs[gpu].training
        assert training is not None
        return training

    @property
    def is_flat(self) -> bool:
        """Whether it is the flat rail mesh."""
        return self.spec.network.kind == "flat_rails"


def rows(part: str, ranks: int | None = None) -> list[Row]:
    """Return the rows of table "a" or "b", with another number of ranks if given."""
    folder = resources.files("mrcjax.comparison").joinpath("rows")
    more = () if ranks is None else (f"network.ranks={ranks}",)
    gpus = GPUS if part == "b" else GPUS[:1]
    found = []
    for key, name in _NAMES[part].items():
        text = folder.joinpath(f"{part}_{key}.toml").read_text(encoding="utf-8")
        specs = {gpu: load_spec(text, set=(*_GPU_OVERRIDES[gpu], *more)) for gpu in gpus}
        found.append(Row(part, key, name, specs))
    return found


def all_reduce_spec(spec: Spec, algorithm: str = "") -> Spec:
    """Return the all-reduce of a row, by another algorithm if given.

    The training step needs nodes in every row; an all-reduce that is not hierarchical runs over
    all ranks as if there were none.
    """
    collective = spec.the_collective
    if algorithm:
        collective = msgspec.structs.replace(
            collective, algorithm=algorithm, between="direct", dimensions=None, chunks=1
        )
    network = spec.network
    if collective.algorithm != "hierarchical":
        network = msgspec.structs.replace(network, node_size=1, node=None, node_rate=None)
    return msgspec.structs.replace(spec, network=network, collective=collective)


def step_spec(spec: Spec) -> Spec:
    """Return the row's spec as `train` takes it: buckets have the algorithm between nodes."""
    collective = spec.the_collective
    if collective.algorithm != "hierarchical":
        return spec
    plain = all_reduce_spec(spec, algorithm=collective.outermost).collective
    return msgspec.structs.replace(spec, collective=plain)
