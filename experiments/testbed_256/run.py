"""At which rails, bytes and latency does an all-reduce reach the article's share of peak?"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import mrcjax
from experiments import figures
from experiments.common import Asked, Claim, array, asked, finish, swept
from mrcjax import hardware
from mrcjax.archive import Column, Sweep, Table
from mrcjax.comparison import load_article
from mrcjax.comparison.article import Testbed
from mrcjax.spec import spec_from_dict
from mrcjax.units import format_bytes, format_seconds

HERE = Path(__file__).parent
ALGORITHMS = ("direct", "ring")
AXES = ("collective.algorithm", "network.rails", "network.endpoint_latency", "collective.size")
SHORT = (
    "network.ranks=32",
    "network.rails=1,8",
    "network.endpoint_latency=1 us,20 us",
    "collective.size=1 MB,100 MB,1 GB,10 GB",
)


class Shares:
    """Share of a GPU's line rate that the bus bandwidth comes to, over the axes of the sweep.

    Completion time is affine in bytes and in latency here, so that a line through two points says
    at which either of them a share is reached; `bend` is how far any point lies off it.
    """

    def __init__(self, found: Sweep, rail_bytes_per_s: float, ranks: int):
        self.ranks = ranks
        self.algorithms, rails, latencies, sizes = (found.coords[key] for key in AXES)
        self.rails = [int(n) for n in rails]
        self.latencies_s, self.sizes = latencies, sizes
        self.time_s = array(found, "time_s", *AXES)
        peak = np.array(self.rails)[None, :, None, None] * rail_bytes_per_s
        self.peak_s = 2 * (ranks - 1) / ranks * self.sizes / peak
        self.share = self.peak_s / self.time_s

    @property
    def bend(self) -> float:
        """Farthest that a time lies off the line through the smallest and largest size."""
        slope, start = self._lines()
        line = start[..., None] + slope[..., None] * self.sizes
        return float(np.abs(self.time_s / line - 1).max())

    def _lines(self) -> tuple[np.ndarray, np.ndarray]:
        t, s = self.time_s, self.sizes
        slope = (t[..., -1] - t[..., 0]) / (s[-1] - s[0])
        return slope, t[..., 0] - slope * s[0]

    def size_for(self, share: float) -> np.ndarray:
        """Bytes from which the share is reached, (algorithms, rails, latencies); NaN: never."""
        slope, start = self._lines()
        ideal = self.peak_s[..., -1] / self.sizes[-1]
        room = ideal / share - slope
        return np.where(room > 0, start / np.where(room > 0, room, 1), np.nan)

    def latency_for(self, share: float, size: float) -> np.ndarray:
        """Latency of a message up to which it is reached, (algorithms, rails); NaN: never."""
        slope, start = self._lines()
        time_s = start + slope * size
        per_s = (time_s[..., -1] - time_s[..., 0]) / (self.latencies_s[-1] - self.latencies_s[0])
        ideal = self.peak_s[..., 0, -1] / self.sizes[-1] * size
        most = (ideal / share - time_s[..., 0]) / per_s + self.latencies_s[0]
        return np.where(most >= 0, most, np.nan)

    def at(self, algorithm: str, size: float) -> np.ndarray:
        """Shares at a size of the sweep, (rails, latencies)."""
        place = int(np.abs(self.sizes / size - 1).argmin())
        return self.share[list(self.algorithms).index(algorithm), :, :, place]


def table(shares: Shares, algorithm: str, said: Testbed) -> Table:
    """Return share of peak and what it takes for the claimed one, by rails."""
    number = list(shares.algorithms).index(algorithm)
    at_size, sizes = shares.at(algorithm, said.size_bytes), shares.size_for(said.peak_share)
    latency = shares.latency_for(said.peak_share, said.size_bytes)
    lines, columns = [], [Column("rails", "rails")]
    for i, rails in enumerate(shares.rails):
        line = {"rails": rails, "latency": float(latency[number, i])}
        for j in range(len(shares.latencies_s)):
            line |= {f"share{j}": float(at_size[i, j]), f"size{j}": float(sizes[number, i, j])}
        lines.append(line)
    named = [format_seconds(s) for s in shares.latencies_s]
    columns += [
        Column(f"share{j}", f"of peak at {name}", "%", 0.01) for j, name in enumerate(named)
    ]
    columns += [
        Column(f"size{j}", f"from, at {name}", "MB", 1e6, digits=3) for j, name in enumerate(named)
    ]
    columns.append(Column("latency", "latency up to", "us", 1e-6, digits=3))
    share, size = f"{100 * said.peak_share:.3g} %", format_bytes(said.size_bytes)
    notes = [
        f'"of peak": of {size} at this latency of a message; "from": bytes from which {share} is '
        f'reached; "latency up to": at which {size} still reaches it; -: at none.'
    ]
    title = f"All-reduce over {shares.ranks} GPUs by {algorithm}: bus bandwidth over line rate"
    return Table(lines, columns, title=title, notes=notes)


def algorithm_share(ranks: int, said: Testbed, *, reducing: bool) -> float:
    """Share of line rate that bytes over time come to, with or without reducing switches.

    One 400 Gbit/s port per GPU on a single tree; on rails of equal total rate it is the same.
    """
    collective = {"kind": "all_reduce", "size": f"{said.size_bytes:.0f} B"}
    network = {"kind": "fat_tree", "ranks": ranks, "radix": 512, "link_rate": "400 Gbit/s"}
    if reducing:
        network |= {"in_network": True}
        collective |= {"algorithm": "in_network", "chunks": 64}
    outcome = mrcjax.run(spec_from_dict({"network": network, "collective": collective}))
    return outcome.algbw_bytes_per_s / 50e9


def claimed(shares: Shares, said: Testbed) -> list[Claim]:
    """Put the prototype's share beside what came out, by the ways to read it."""
    direct, ring = (shares.at(algorithm, said.size_bytes) for algorithm in ALGORITHMS)
    latency = shares.latency_for(said.peak_share, said.size_bytes)
    what = f"{format_bytes(said.size_bytes)} over {shares.ranks} GPUs"
    share = f"{100 * said.peak_share:.3g} % of peak"
    best = [n for n, most in zip(shares.rails, latency[0], strict=True) if most >= 1e-6]
    rings = [n for n, most in zip(shares.rails, latency[1], strict=True) if most >= 1e-6]
    plain, reduced = (algorithm_share(shares.ranks, said, reducing=r) for r in (False, True))
    port = hardware.link("ethernet_800g")
    assert port.effective_bytes_per_s is not None
    goodput = port.effective_bytes_per_s / port.rate_bytes_per_s
    return [
        Claim(
            f"{what}, direct; peak = line rate, bus bandwidth",
            share,
            f"{_range(direct)} over all rails and latencies; reached from 1 us of latency with "
            f"{_some(best)} rails",
            "two latencies in all, so it holds nearly everywhere; what is lost besides is that "
            f"{shares.ranks - 1} peers do not divide over the rails in whole rounds",
        ),
        Claim(
            f"{what}, ring; peak = line rate, bus bandwidth",
            share,
            f"{_range(ring)}; reached from 1 us of latency with {_some(rings)} rails",
            f"{2 * (shares.ranks - 1)} latencies one after the other: the faster the GPU's rails, "
            "the more of the time is latency",
        ),
        Claim(
            f"{what}; peak = line rate, where payload gets {100 * goodput:.4g} % of it",
            share,
            f"at most {100 * goodput:.4g} %",
            "headers: this is what the deployed MRC measures point to point "
            "(arXiv:2605.04333); the claim then needs another definition of peak",
        ),
        Claim(
            f"{what}; peak = line rate, algorithm bandwidth (bytes over time)",
            share,
            f"{100 * plain:.3g} %; {100 * reduced:.3g} % where switches reduce",
            "without them every byte leaves a GPU nearly twice, so that this reading has an upper "
            "limit of about a half",
        ),
    ]


def _range(shares: np.ndarray) -> str:
    return f"{100 * shares.min():.3g} to {100 * shares.max():.3g} %"


def _some(rails: Sequence[int]) -> str:
    return ", ".join(map(str, rails)) if rails else "no number of"


def draw(given: Asked, shares: Shares, said: Testbed) -> None:
    """Share of peak against bytes, a line per latency, for both algorithms at two rail counts."""
    drawn = figures.figure(
        f"{100 * said.peak_share:.3g} % of peak over {shares.ranks} GPUs: a matter of bytes, "
        "latency and algorithm",
        given.command,
        height=3.9,
        caption="All-reduce on flat rails of 400 Gbit/s; share of the line rate that the bus "
        "bandwidth comes to. Diamond: the article's claim.",
    )
    panels = drawn.subplots(1, 2, sharey=True)
    rails = shares.rails.index(8)
    for panel, algorithm in zip(panels, ALGORITHMS, strict=True):
        lines = shares.share[list(shares.algorithms).index(algorithm), rails]
        for number, share in enumerate(lines):
            figures.line(panel, shares.sizes, 100 * share, number)
        figures.log_axis(panel.xaxis, [1e6, 1e7, 1e8, 1e9, 1e10], format_bytes)
        panel.set_ylim(0, 106)
        figures.claim(panel, 100 * said.peak_share, f"article: {100 * said.peak_share:.3g} %")
        panel.plot(said.size_bytes, 100 * said.peak_share, "D", mfc="w", mec=figures.CLAIM, ms=8)
        title = f"{algorithm}, {shares.rails[rails]} rails"
        figures.tidy(panel, x="bytes of a GPU", title=title)
        places = np.abs(lines - 0.6).argmin(axis=1)
        for number, (share, place) in enumerate(zip(lines, places, strict=True)):
            panel.annotate(
                format_seconds(shares.latencies_s[number]),
                (shares.sizes[place], 100 * share[place]),
                (7, -7),
                textcoords="offset points",
                fontsize=8.5,
                color=figures.COLOURS[number],
            )
    panels[0].set_ylabel("bus bandwidth over line rate / %", fontsize=9.5)
    figures.save(drawn, given.path(""))


def main(argv: Sequence[str] | None = None) -> None:
    """Print tables and claims; write results/testbed_256.txt, .h5, .png and .svg."""
    given, said = asked("testbed_256", __doc__, argv), load_article().testbed
    found = swept(given, HERE / "spec.toml", set=SHORT if given.short else ())
    shares = Shares(found, 50e9, 32 if given.short else said.ranks)
    tables = {algorithm: table(shares, algorithm, said) for algorithm in ALGORITHMS}
    finish(given, tables, claimed(shares, said))
    draw(given, shares, said)


if __name__ == "__main__":
    main()
