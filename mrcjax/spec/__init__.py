"""Turn the TOML file into typed, checked, frozen structs, and back.

Everything that can be refused without building the network is refused here, as SpecError.
"""

from mrcjax.spec.fields import RatesPerPort, SecondsPerPort
from mrcjax.spec.load import load_spec, spec_from_dict
from mrcjax.spec.network import (
    NETWORK_KINDS,
    AnyNetwork,
    Dgx,
    Dragonfly,
    FatTree,
    FlatRails,
    MrcPlanes,
    Network,
    NodeRails,
    Nvl,
    RailOnly,
    Wafer,
)
from mrcjax.spec.sections import (
    Collective,
    EngineSpec,
    FaultsSpec,
    Late,
    LinkFault,
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
    "Dgx",
    "Dragonfly",
    "EngineSpec",
    "FatTree",
    "FaultsSpec",
    "FlatRails",
    "Late",
    "LinkFault",
    "ModelShape",
    "MrcPlanes",
    "Network",
    "NodeRails",
    "Nvl",
    "OutputSpec",
    "RailOnly",
    "RatesPerPort",
    "SecondsPerPort",
    "Spec",
    "SpecError",
    "TrainingHardware",
    "TrainingSpec",
    "Wafer",
    "example",
    "example_kinds",
    "json_schema",
    "load_spec",
    "spec_from_dict",
    "spec_to_toml",
]
