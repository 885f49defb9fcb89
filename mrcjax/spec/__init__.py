"""Turn the TOML file into typed, checked, frozen structs, and back.

Everything that can be refused without building the network is refused here, as SpecError.
"""

from mrcjax.spec.faults import FaultsSpec, Jitter, Late, LinkFault, RandomFault, Slow
from mrcjax.spec.fields import RatesPerPort, SecondsPerPort
from mrcjax.spec.load import load_spec, spec_from_dict
from mrcjax.spec.network import (
    NETWORK_KINDS,
    AnyNetwork,
    Dragonfly,
    FatTree,
    FlatRails,
    MrcPlanes,
    Network,
)
from mrcjax.spec.sections import (
    Collective,
    EngineSpec,
    OutputSpec,
    Spec,
)
from mrcjax.spec.training import (
    MODELS,
    TRAINING_SOURCES,
    Assumption,
    ModelShape,
    TrainingHardware,
    TrainingSpec,
)
from mrcjax.spec.write import example, example_kinds, json_schema, spec_to_toml
from mrcjax.units import SpecError

__all__ = [
    "MODELS",
    "NETWORK_KINDS",
    "TRAINING_SOURCES",
    "AnyNetwork",
    "Assumption",
    "Collective",
    "Dragonfly",
    "EngineSpec",
    "FatTree",
    "FaultsSpec",
    "FlatRails",
    "Jitter",
    "Late",
    "LinkFault",
    "ModelShape",
    "MrcPlanes",
    "Network",
    "OutputSpec",
    "RandomFault",
    "RatesPerPort",
    "SecondsPerPort",
    "Slow",
    "Spec",
    "SpecError",
    "TrainingHardware",
    "TrainingSpec",
    "example",
    "example_kinds",
    "json_schema",
    "load_spec",
    "spec_from_dict",
    "spec_to_toml",
]
