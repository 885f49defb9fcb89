"""Where do engines chunk and fluid differ, by how much, and why? Ten cases, 100 MB per rank."""

import argparse
from pathlib import Path

import mrcjax

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "results"
TREE = 'kind = "fat_tree"\nranks = 64\nradix = 16\nlink_rate = "50 GB/s"\n'
RAILS = 'kind = "flat_rails"\nranks = 16\nrails = 2\n'
DRAGONFLY = """kind = "dragonfly"
ranks = 72
hosts_per_router = 2
routers_per_group = 4
global_links_per_router = 2
groups = 9
link_rate = "50 GB/s"
load_balancing = "ecmp"
"""
PLANES = """kind = "mrc_planes"
ranks = 32
planes = 4
radix = 16
plane_rate = "12.5 GB/s"
load_balancing = "spray"
paths = 8
"""
MESH = 'kind = "flat_rails"\nranks = 16\nreach = [4, 4]\nrail_rate = "10 GB/s"\n'
SLOW = '[faults]\nlinks = [{ match = "rank 3 egress rail 0", rate = 0.5 }]\n'

HELD = "chunk frees a lane when its send is through the port, fluid when it has drained"

# name, network, algorithm, faults, why the engines differ or not
CASES = (
    ("ring, rails", RAILS + 'rail_rate = "50 GB/s"\n', "ring", "", "no link is shared"),
    ("direct, rails", RAILS + 'rail_rate = "50 GB/s"\n', "direct", "", "no link is shared"),
    (
        "direct, one slow port",
        RAILS + 'rail_rate = "50 GB/s"\n',
        "direct",
        SLOW,
        HELD,
    ),
    (
        "direct, unequal rails",
        RAILS + 'rail_rate = ["50 GB/s", "25 GB/s"]\n',
        "direct",
        "",
        "rails of unequal rate do not meet",
    ),
    (
        "direct, tree 2:1",
        TREE + "oversubscription = 2\n",
        "direct",
        "",
        HELD,
    ),
    (
        "direct, tree ECMP",
        TREE + 'load_balancing = "ecmp"\n',
        "direct",
        "",
        HELD,
    ),
    (
        "ring, tree ECMP",
        TREE + 'load_balancing = "ecmp"\n',
        "ring",
        "",
        "one send of a round leaves each leaf: none share a cable",
    ),
    ("direct, dragonfly", DRAGONFLY, "direct", "", HELD),
    ("direct, planes sprayed", PLANES, "direct", "", HELD),
    ("direct, wired 4 x 4", MESH, "direct", "", HELD),
)


def rows(count: int | None = None) -> list[tuple[str, float, float, float, str]]:
    """Name, seconds by chunk and fluid, bound of this schedule, reason, of the first cases."""
    found = []
    for name, network, algorithm, faults, why in CASES[:count]:
        text = (
            f'[network]\n{network}[collective]\nkind = "all_reduce"\nalgorithm = "{algorithm}"\n'
            f'size = "100 MB"\n{faults}'
        )
        chunk, fluid = (
            mrcjax.run(mrcjax.load_spec(text, set=f"engine.kind={kind}"), brief=True)
            for kind in ("chunk", "fluid")
        )
        bound = max(chunk.schedule_bound_s, fluid.schedule_bound_s)
        found.append((name, chunk.time_s, fluid.time_s, bound, why))
    return found


def main() -> None:
    """Print the table; write results/engines.txt."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="three cases")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write into")
    asked = parser.parse_args()
    lines = [
        "python experiments/engines/run.py",
        f"{'case':24}{'chunk, ms':>11}{'fluid, ms':>11}{'bound, ms':>11}{'fluid/chunk':>13}  why",
    ]
    for name, chunk, fluid, bound, why in rows(3 if asked.short else None):
        times = "".join(f"{1e3 * s:11.4f}" for s in (chunk, fluid, bound))
        lines.append(f"{name:24}{times}{fluid / chunk - 1:+12.2%}   {why}")
    text = "\n".join(lines)
    print(text)
    asked.results.mkdir(parents=True, exist_ok=True)
    (asked.results / "engines.txt").write_text(text + "\n")


if __name__ == "__main__":
    main()
