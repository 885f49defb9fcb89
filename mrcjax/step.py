"""From a spec with a `[training]` section to its training step: its buckets emulated, added up."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from mrcjax import training
from mrcjax.emulation import run
from mrcjax.network.inventory import Inventory, inventory
from mrcjax.outcome import Outcome
from mrcjax.spec import Spec, SpecError, TrainingSpec
from mrcjax.training import Bucket, Buckets, RunCost, TrainingStep
from mrcjax.units import Bytes


@dataclass(frozen=True)
class TrainingOutcome:
    """A training step on a network, what a whole run costs, and the runs behind both."""

    step: TrainingStep
    cost: RunCost | None  # None where the network or the GPU is not priced
    buckets: Buckets
    t_rs_s: float  # of one gradient bucket; 0 where there is none
    t_ag_s: float  # of one parameter bucket; 0 where there is none
    outcomes: dict[str, Outcome]  # by collective: "reduce_scatter", "all_gather" or "all_reduce"
    inventory: Inventory
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The object under "training" of `mrcjax run --json`."""
        sent = self.buckets
        return {
            "step": vars(self.step) | {"exposed_s": self.step.exposed_s, "mfu": self.step.mfu},
            "cost": None if self.cost is None else dataclasses.asdict(self.cost),
            "buckets": {
                "of": {b.collective: b.size_bytes for b in sent.distinct},
                "num_buckets": sent.num_buckets,
                "group_size": sent.group_size,
                "group_stride": sent.group_stride,
                "num_groups": sent.num_groups,
                "sent_bytes": sent.sent_bytes,
            },
            "runs": {name: outcome.to_json() for name, outcome in self.outcomes.items()},
            "inventory": {
                "realisation": self.inventory.realisation,
                "switches": self.inventory.switches,
                "cables": self.inventory.cables,
                "nics": self.inventory.nics,
                "watts": self.inventory.watts,
                "usd": self.inventory.usd,
            },
            "warnings": list(self.warnings),
        }


def train(
    spec: Spec, algorithm: str | None = None, *, emulate: Callable[[Spec], Outcome] = run
) -> TrainingOutcome:
    """Emulate the buckets of a training step, all data-parallel groups at once, and price it.

    The buckets replace kind, size and groups of `spec.collective`; the rest of it stays.

    Args:
        spec: a spec with a `[training]` section.
        algorithm: of the buckets; None: that of `spec.collective`.
        emulate: what runs a bucket's spec; one that remembers saves running the same twice.

    Raises:
        SpecError: there is no `[training]` section, or a bucket or the network cannot be built.
    """
    if spec.training is None:
        raise SpecError(
            "section [training] is missing",
            remedy="`mrcjax spec --example training` prints one to start from",
        )
    ranks = spec.network.ranks
    # whatever can be refused is refused before the first run
    sent, wanted = _wanted(spec, spec.training, algorithm)
    materials = inventory(spec.network)
    outcomes = {name: emulate(each) for name, each in wanted.items()}
    step = step_of(spec, sent, {name: outcome.time_s for name, outcome in outcomes.items()})
    cost, unpriced = None, ()
    watts, usd = network_watts(materials), materials.usd_with_nics
    missing = spec.training.hardware.unpriced
    if missing:
        keys = " and ".join(f"training.{key}" for key in missing)
        unpriced = (
            f"the cost of the run is not known: the catalogue has no price or power of gpu = "
            f'"{spec.training.gpu}"; give {keys} to have it',
        )
    elif watts is None or usd is None:
        unpriced = (f"the cost of the run is not known: {'; '.join(materials.notes)}",)
    else:
        cost = training.run_cost(spec.training, step, ranks, watts, usd)
    said = dict.fromkeys(text for outcome in outcomes.values() for text in outcome.warnings)
    return TrainingOutcome(
        step=step,
        cost=cost,
        buckets=sent,
        t_rs_s=step.gradient_bucket_s,
        t_ag_s=step.parameter_bucket_s,
        outcomes=outcomes,
        inventory=materials,
        warnings=(*sent.warnings, *unpriced, *said),
    )


def _wanted(
    spec: Spec, asked: TrainingSpec, algorithm: str | None
) -> tuple[Buckets, dict[str, Spec]]:
    """Buckets of a training step, and by collective the specs whose runs it needs."""
    sent = training.buckets(
        asked,
        spec.network.ranks,
        node_size=spec.network.node_size,
        port_bytes_per_s=math.fsum(spec.network.port_rates) * spec.network.goodput,
    )
    return sent, {b.collective: bucket_spec(spec, sent, b, algorithm) for b in sent.distinct}


def step_of(spec: Spec, sent: Buckets, times_s: Mapping[str, float]) -> TrainingStep:
    """Return the step whose buckets take so long; times_s: seconds by collective, of `sent`."""
    assert spec.training is not None
    t_rs_s, t_ag_s = (
        0.0 if bucket is None else times_s[bucket.collective]
        for bucket in (sent.gradient, sent.parameter)
    )
    slowest = max((slow.factor for slow in spec.faults.slow), default=1.0)
    return training.step(spec.training, spec.network.ranks, t_rs_s, t_ag_s, slowest)


def run_with_step(
    spec: Spec, *, emulate: Callable[[Spec], Outcome] = run
) -> tuple[Outcome, TrainingOutcome | None]:
    """Emulate a spec, and the training step around it where it has a `[training]` section.

    emulate: what runs a spec, of those that `runs_of` names.

    Raises:
        SpecError: for what cannot be built, and where a link that is down is needed.
    """
    if spec.training is None:
        return emulate(spec), None
    trained = train(spec, emulate=emulate)
    # the collective of the spec may be one of the step's buckets
    same = next((each for each in trained.outcomes.values() if each.spec == spec), None)
    return same or emulate(spec), trained


def runs_of(spec: Spec) -> list[Spec]:
    """Return the specs that `run_with_step` emulates, each once.

    Raises:
        SpecError: a bucket of the training step cannot be built.
    """
    if spec.training is None:
        return [spec]
    _, wanted = _wanted(spec, spec.training, None)
    return [*wanted.values(), *([] if spec in wanted.values() else [spec])]


def bucket_spec(spec: Spec, sent: Buckets, bucket: Bucket, algorithm: str | None = None) -> Spec:
    """Return the spec whose collective is this bucket, in all data-parallel groups at once."""
    everyone = sent.group_size == spec.network.ranks
    keys = {
        "kind": bucket.collective,
        "size": Bytes(bucket.size_bytes),
        "algorithm": spec.the_collective.algorithm if algorithm is None else algorithm,
        "group_size": None if everyone else sent.group_size,
        "group_stride": 1 if everyone else sent.group_stride,
    }
    try:
        collective = msgspec.structs.replace(spec.the_collective, **keys)
        return msgspec.structs.replace(spec, collective=collective)
    except SpecError as error:
        raise _asked_by_training(error, bucket) from None


def _asked_by_training(error: SpecError, bucket: Bucket) -> SpecError:
    """The same error, told of a collective that stands nowhere in the file."""
    return SpecError(
        f"{error.what} (which [training] asks for: its buckets are a {bucket.collective})",
        where=error.where,
        value=error.value,
        remedy=error.remedy,
    )


def network_watts(materials: Inventory) -> float | None:
    """Power that the measured power of a server does not contain; None when not priced.

    Switches and modules, and adapters beyond the one per rank that a server comes with.
    """
    watts = materials.watts_without_nics
    if watts is None or materials.nics <= materials.ranks:
        return watts
    return watts + materials.watts["nics"] * (1 - materials.ranks / materials.nics)
