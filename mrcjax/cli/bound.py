"""`mrcjax bound`: lower bounds without emulating."""

from mrcjax.cli.arguments import AsJson, Overrides, SpecFile
from mrcjax.cli.asking import load, print_json, what, where
from mrcjax.cli.starting import prepare_jax
from mrcjax.cli.waiting import at_once


def bound_command(spec: SpecFile, *, as_json: AsJson = False, overrides: Overrides = ()) -> None:
    """Give every lower bound on the completion time, for any algorithm, without emulating."""
    asked = load(spec, overrides)
    prepare_jax()
    from mrcjax.bound import lower_bounds
    from mrcjax.case import build
    from mrcjax.emulation import precision

    def bounds() -> tuple[int, float, dict[str, float]]:
        with precision(asked.engine.precision):
            case = build(asked)
            return case.wiring.num_physical_links, case.size_bytes, lower_bounds(case)

    num_links, size, bounds_s = at_once(bounds, f"bounding {what(asked)}")
    kind = "traffic" if asked.traffic else asked.the_collective.kind
    largest = max(bounds_s, key=lambda name: bounds_s[name])
    if as_json:
        print_json(
            {
                "schema": 1,
                "network": {
                    "kind": asked.network.kind,
                    "ranks": asked.network.ranks,
                    "links": num_links,
                },
                "collective": {"kind": kind, "bytes": size},
                "lower_bound_s": bounds_s[largest],
                "bound_kind": largest,
                "bounds_s": bounds_s,
            }
        )
        return
    from mrcjax.units import format_bytes, format_seconds

    width = max(map(len, bounds_s))
    means = "algorithm" if asked.traffic is None else "sharing"
    amount = f"{format_bytes(size)} {'per rank' if asked.traffic is None else 'in all'}"
    print(f"{kind} of {amount} on {where(asked)}, by whatever {means}, takes at least\n")
    for name, bound_s in sorted(bounds_s.items(), key=lambda item: -item[1]):
        mark = "  <- the lower bound" if name == largest else ""
        print(f"  {name:<{width}}  {format_seconds(bound_s)}{mark}")
