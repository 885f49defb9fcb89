"""Say what is wrong in a run: links, switches and ranks that fail or lag, and what is done then."""

from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct

from mrcjax.spec.fields import Count, Index, default, doc, no_time
from mrcjax.units import Seconds, SpecError

Left = Annotated[float, Meta(ge=0, le=1)]
Loss = Annotated[float, Meta(ge=0, lt=1)]
Chance = Annotated[float, Meta(ge=0, le=1)]
What = Literal["link", "cable", "port", "nic", "switch", "plane", "node", "rank"]


class Late(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rank that starts late."""

    rank: Annotated[Index, doc("Rank, from 0.", 5)]
    by: Annotated[Seconds, doc("How late it starts.", "3 ms")]


class Slow(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rank that computes slowly: it reduces, and in a training step works, at a lower rate."""

    rank: Annotated[Index, doc("Rank, from 0.", 5)]
    factor: Annotated[
        Annotated[float, Meta(ge=1, le=1e9)], doc("Times as long as the others take.", 1.5)
    ]


class LinkFault(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Links, chosen by name, that are slower, farther, lossy or down.

    ``match`` is a glob on link names, the name of a component ("plane 3", "leaf 3", "node 2",
    "rank 5", "rank 5 rail 2": all its links), "component / glob on its links' names", or a cable of
    a trunk ("leaf 3 up cable 17").
    """

    match: Annotated[
        str, Meta(min_length=1), doc("Which links, by name.", "rank 5 egress rail *", "plane 3 / *")
    ]
    rate: Annotated[Left, doc("Fraction of the rate left; 0: down.", 0.5)] = 1.0
    down: Annotated[bool, doc("Nothing is left; the same as rate = 0.", True)] = False
    add_latency: Annotated[Seconds, doc("Latency added.", "500 us")] = default(no_time)
    loss: Annotated[Loss, doc("Share of packets lost.", 1e-3)] = 0.0

    def check(self, where: str):
        """Refuse what contradicts itself; `where` is the entry's place in the file."""
        if self.down and self.rate not in (0.0, 1.0):
            raise SpecError(
                "does not go with down = true",
                where=f"{where}.rate",
                value=self.rate,
                remedy="keep one of the two",
            )

    @property
    def left(self) -> float:
        """Fraction of the rate left, 0..1."""
        return 0.0 if self.down else self.rate


class RandomFault(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Components drawn at random that fail or are worse than built.

    Without a state they are down. Scale-up links inside nodes are never drawn as "link" or
    "cable". A link is one direction of a cable; a cable or a port is both.
    """

    what: Annotated[What, doc("Kind of component.", "cable")]
    match: Annotated[
        str, Meta(min_length=1), doc("Glob on the components' names.", "rank * rail 3")
    ] = "*"
    rate: Annotated[Chance | None, doc("Chance of each to be hit.", 0.01)] = None
    count: Annotated[Index | None, doc("How many are hit.", 4)] = None
    seed: Annotated[Index, doc("Seed of the draw; scenario s takes seed + s.", 7)] = 0
    down: Annotated[bool, doc("Nothing is left.", True)] = False
    left: Annotated[Left | None, doc("Fraction of the rate left; 0: down.", 0.5)] = None
    add_latency: Annotated[Seconds, doc("Latency added.", "500 us")] = default(no_time)
    loss: Annotated[Loss, doc("Share of packets lost.", 1e-3)] = 0.0

    def check(self, where: str):
        """Refuse what contradicts itself; `where` is the entry's place in the file."""
        if (self.rate is None) == (self.count is None):
            raise SpecError(
                "and rate are both missing" if self.rate is None else "and rate are both given",
                where=f"{where}.count",
                remedy="give one of count = 4 (how many) and rate = 0.01 (chance of each)",
            )
        if self.down and self.left not in (None, 0.0):
            raise SpecError(
                "does not go with down = true",
                where=f"{where}.left",
                value=self.left,
                remedy="keep one of the two",
            )

    @staticmethod
    def kinds() -> tuple[str, ...]:
        """Return what may be written for `what`."""
        return get_args(What)

    @property
    def rate_left(self) -> float:
        """Fraction of the rate left, 0..1."""
        if self.left is not None:
            return self.left
        has_state = self.add_latency > 0 or self.loss > 0
        return 0.0 if self.down or not has_state else 1.0


class Jitter(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Random delays: of every rank's start, or of a rank's sends in every round.

    A draw below zero counts as zero.
    """

    at: Annotated[Literal["start", "round"], doc("What is delayed.", "start")]
    kind: Annotated[
        Literal["normal", "exponential", "log_normal"], doc("Distribution.", "log_normal")
    ] = "exponential"
    mean: Annotated[Seconds, doc("Mean of the delay.", "100 us")]
    sigma: Annotated[
        Seconds | None, doc("Standard deviation; an exponential's is its mean.", "20 us")
    ] = None
    seed: Annotated[Index, doc("Seed of the draw; scenario s takes seed + s.", 7)] = 0

    def check(self, where: str):
        """Refuse what contradicts itself; `where` is the entry's place in the file."""
        if (self.sigma is None) != (self.kind == "exponential"):
            raise SpecError(
                "is missing" if self.sigma is None else 'has no effect with kind = "exponential"',
                where=f"{where}.sigma",
                remedy='add for example sigma = "20 us"'
                if self.sigma is None
                else "leave it out: it equals the mean",
            )
        if self.kind == "log_normal" and self.mean <= 0:
            raise SpecError(
                "must be above zero for a log-normal delay",
                where=f"{where}.mean",
                value=str(self.mean),
                remedy='write for example mean = "100 us"',
            )


class FaultsSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is wrong in this run, and what is done about links that are down."""

    late: Annotated[
        tuple[Late, ...], doc("Ranks that start late.", [{"rank": 5, "by": "3 ms"}])
    ] = ()
    slow: Annotated[
        tuple[Slow, ...], doc("Ranks that compute slowly.", [{"rank": 5, "factor": 1.5}])
    ] = ()
    jitter: Annotated[
        tuple[Jitter, ...],
        doc("Random delays.", [{"at": "start", "kind": "exponential", "mean": "100 us"}]),
    ] = ()
    links: Annotated[
        tuple[LinkFault, ...],
        doc("Links that are worse than built.", [{"match": "rank 5 *", "rate": 0.5}]),
    ] = ()
    random: Annotated[
        tuple[RandomFault, ...],
        doc("Components that fail at random.", [{"what": "port", "count": 4, "seed": 7}]),
    ] = ()
    reroute: Annotated[
        Literal["none", "spread", "neighbour"],
        doc(
            "What a port or cable that is down does to its traffic: refused, spread over what is "
            "left of the same tier, or moved to one neighbour.",
            "spread",
        ),
    ] = "none"
    transport: Annotated[
        Literal["selective_repeat", "go_back_n"], doc("How lost packets are sent again.")
    ] = "selective_repeat"
    window: Annotated[Count | None, doc("Packets in flight (go_back_n only).", 108)] = None
    scenarios: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)],
        doc("Seeds to run; with more than one the outcome has their spread.", 256),
    ] = 1

    def __post_init__(self):
        for key in ("late", "slow"):
            _refuse_twice(key, getattr(self, key))
        for key in ("links", "random", "jitter"):
            for i, each in enumerate(getattr(self, key)):
                each.check(f"faults.{key}[{i}]")
        if (self.window is None) == (self.transport == "go_back_n"):
            raise SpecError(
                'is missing with transport = "go_back_n"'
                if self.window is None
                else f'has no effect with transport = "{self.transport}"',
                where="faults.window",
                remedy="add for example window = 108"
                if self.window is None
                else 'leave it out or set transport = "go_back_n"',
            )
        if sum(each.at == "round" for each in self.jitter) > 1:
            raise SpecError(
                'has more than one entry with at = "round"',
                where="faults.jitter",
                remedy="keep one; several entries with at = 'start' add up",
            )
        if self.scenarios > 1 and not (self.random or self.jitter):
            raise SpecError(
                "has no effect where nothing is random",
                where="faults.scenarios",
                value=self.scenarios,
                remedy="add faults.random or faults.jitter, or leave scenarios out",
            )

    def check(self, ranks: int, *, reduces_in_time: bool, trains: bool):
        """Refuse ranks that do not exist, and slow ranks where nothing takes computing time."""
        for key in ("late", "slow"):
            for i, each in enumerate(getattr(self, key)):
                if each.rank >= ranks:
                    raise SpecError(
                        f"must be below network.ranks = {ranks}",
                        where=f"faults.{key}[{i}].rank",
                        value=each.rank,
                        remedy=f"ranks count from 0 to {ranks - 1}",
                    )
        if self.slow and not (reduces_in_time or trains):
            raise SpecError(
                "has no effect: reducing takes no time and there is no [training]",
                where="faults.slow",
                remedy='add network.reduction_rate = "1 TB/s" or a [training] section',
            )

    def check_fluid(self):
        """Refuse what engine fluid does not know: losses, delays of a round, scenarios."""
        lossy = [
            f"{key}[{i}].loss"
            for key in ("links", "random")
            for i, each in enumerate(getattr(self, key))
            if each.loss > 0
        ]
        by_round = [f"jitter[{i}].at" for i, each in enumerate(self.jitter) if each.at == "round"]
        many = ["scenarios"] if self.scenarios > 1 else []
        for key in (*lossy, *by_round, *many):
            raise SpecError(
                'is not known to engine.kind = "fluid"',
                where=f"faults.{key}",
                remedy='use engine.kind = "chunk"',
            )

    @property
    def seeds(self) -> dict[str, int]:
        """Seed of each random thing, by its place in the file."""
        return {
            f"faults.{key}[{i}]": each.seed
            for key in ("random", "jitter")
            for i, each in enumerate(getattr(self, key))
        }


def _refuse_twice(key: str, entries: tuple[Any, ...]):
    seen: set[int] = set()
    for i, each in enumerate(entries):
        if each.rank in seen:
            raise SpecError(
                "is listed twice",
                where=f"faults.{key}[{i}].rank",
                value=each.rank,
                remedy="keep one entry per rank",
            )
        seen.add(each.rank)
