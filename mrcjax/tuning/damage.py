"""What may be wrong in a run that is tuned: late and slow ranks, other rates and latencies."""

from mrcjax.spec import Spec, SpecError


def check_faults(spec: Spec, *, scenarios: bool = False) -> None:
    """Refuse engines and faults that a search knows nothing of; raises SpecError.

    scenarios: whether it knows of several.
    """
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
        ("faults.jitter", bool(faults.jitter)),
        ("faults.reroute", faults.reroute != "none"),
        ("faults.scenarios", faults.scenarios > 1 and not scenarios),
        *((key, True) for key in lossy),
    ):
        if is_given:
            raise SpecError(
                "is not known to tune",
                where=where,
                remedy="leave it out: known are late and slow ranks, and links of other rates and "
                "latencies, given or drawn at random",
            )
