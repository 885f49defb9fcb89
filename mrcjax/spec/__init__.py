"""Turn the TOML file into typed, checked, frozen structs, and back.

Everything that can be refused without building the network is refused here, as SpecError.
"""

from mrcjax.spec.collective import Collective
from mrcjax.spec.faults import FaultsSpec, Jitter, Late, LinkFault, RandomFault, Slow
from mrcjax.spec.fields import RatesPerPort, SecondsPerPort
from mrcjax.spec.load import load_spec, spec_from_dict
from mrcjax.spec.network import (
    NETWORK_KINDS,
    AnyNetwork,
    Dgx,
    Dragonfly,
    FatTree,
    FlatRails,
    Graph,
    GraphLink,
    Grid,
    HyperX,
    Jellyfish,
    Mesh,
    MrcPlanes,
    Network,
    NodeRails,
    Nvl,
    RailOnly,
    SlimFly,
    Torus,
    Wafer,
    node_name,
    rank_of,
)
from mrcjax.spec.records import Record
from mrcjax.spec.sections import (
    EngineSpec,
    OutputSpec,
    Spec,
)
from mrcjax.spec.shares import RailShares
from mrcjax.spec.sweep import SweepPoint, SweepSpec
from mrcjax.spec.sweep_table import load_sweep, sweep_to_toml
from mrcjax.spec.traffic import Traffic
from mrcjax.spec.training import (
    MODELS,
    TRAINING_SOURCES,
    Assumption,
    ModelShape,
    TrainingHardware,
    TrainingSpec,
)
from mrcjax.spec.tune import TuneSpec
from mrcjax.spec.write import example, example_kinds, json_schema, spec_to_toml
from mrcjax.units import SpecError

__all__ = [
    "MODELS",
    "NETWORK_KINDS",
    "TRAINING_SOURCES",
    "AnyNetwork",
    "Assumption",
    "Collective",
    "Dgx",
    "Dragonfly",
    "EngineSpec",
    "FatTree",
    "FaultsSpec",
    "FlatRails",
    "Graph",
    "GraphLink",
    "Grid",
    "HyperX",
    "Jellyfish",
    "Jitter",
    "Late",
    "LinkFault",
    "Mesh",
    "ModelShape",
    "MrcPlanes",
    "Network",
    "NodeRails",
    "Nvl",
    "OutputSpec",
    "RailOnly",
    "RailShares",
    "RandomFault",
    "RatesPerPort",
    "Record",
    "SecondsPerPort",
    "SlimFly",
    "Slow",
    "Spec",
    "SweepPoint",
    "SweepSpec",
    "SpecError",
    "Torus",
    "Traffic",
    "TrainingHardware",
    "TrainingSpec",
    "TuneSpec",
    "Wafer",
    "example",
    "example_kinds",
    "json_schema",
    "load_spec",
    "load_sweep",
    "node_name",
    "rank_of",
    "spec_from_dict",
    "spec_to_toml",
    "sweep_to_toml",
]
