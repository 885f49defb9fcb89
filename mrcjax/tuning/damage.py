"""What may be wrong in a run that is tuned: late ranks, and links of other rates and latencies."""

from mrcjax.spec import Spec, SpecError


def check_faults(spec: Spec) -> None:
    """Refuse engines and faults that a search knows nothing of; raises SpecError."""
    faults, engine = spec.faults, spec.engine
    lossy = [
        f"faults.{key}[{i}].loss"
        for key in ("links", "random")
        for i, each in enumerate(getattr(faults, key))
        if each.loss > 0
    ]
    for where, is_given in (
        ("engine.kind", engine.kind != "chunk"),
        ("engine.aggregate", engine.aggregate),
        ("engine.devices", engine.devices != 1),
        ("faults.slow", bool(faults.slow)),
        ("faults.jitter", bool(faults.jitter)),
        ("faults.reroute", faults.reroute != "none"),
        ("faults.scenarios", faults.scenarios > 1),
        *((key, True) for key in lossy),
    ):
        if is_given:
            raise SpecError(
                "is not known to tune",
                where=where,
                remedy="leave it out: tune takes one case, with late ranks and links of other "
                "rates and latencies",
            )
