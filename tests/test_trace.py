"""Traces: what they tell of single sends is what the engine's clocks say of all of them."""

import json

import jsonschema
import numpy as np
import pytest
from runs import all_reduce, flat, toml

from mrcjax import archive
from mrcjax.cli import main
from mrcjax.emulation import run
from mrcjax.spec import SpecError, load_spec
from mrcjax.tracing import record, trace_events, use_over_time, write_trace

EVERY = 10**9
NUMBER = {"type": "number"}
IDS = {"pid": {"type": "integer"}, "tid": {"type": "integer"}}
# of the trace-event format, what a trace may hold
SCHEMA = {
    "type": "object",
    "required": ["traceEvents", "displayTimeUnit", "otherData"],
    "additionalProperties": False,
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "otherData": {
            "type": "object",
            "required": ["made_by", "spec", "time_us", "left_out", "sampled_ranks"],
        },
        "traceEvents": {"type": "array", "items": {"$ref": "#/$defs/event"}},
    },
    "$defs": {
        "event": {
            "oneOf": [
                {
                    "required": ["ph", "name", "cat", "pid", "tid", "ts", "dur", "args"],
                    "additionalProperties": False,
                    "properties": {
                        "ph": {"const": "X"},
                        "name": {"type": "string"},
                        "cat": {"enum": ["send", "link"]},
                        **IDS,
                        "ts": {"type": "number", "minimum": 0},
                        "dur": {"type": "number", "minimum": 0},
                        "args": {"type": "object"},
                    },
                },
                {
                    "required": ["ph", "name", "pid", "args"],
                    "additionalProperties": False,
                    "properties": {
                        "ph": {"const": "M"},
                        "name": {"enum": ["process_name", "process_sort_index", "thread_name"]},
                        **IDS,
                        "args": {"type": "object"},
                    },
                },
                {
                    "required": ["ph", "name", "pid", "tid", "ts", "s"],
                    "additionalProperties": False,
                    "properties": {
                        "ph": {"const": "i"},
                        "name": {"const": "finished"},
                        "s": {"const": "p"},
                        "ts": NUMBER,
                        **IDS,
                    },
                },
                {
                    "required": ["ph", "name", "pid", "ts", "args"],
                    "additionalProperties": False,
                    "properties": {
                        "ph": {"const": "C"},
                        "name": {"type": "string"},
                        "cat": {"const": "link"},
                        "pid": {"type": "integer"},
                        "ts": NUMBER,
                        "args": {"type": "object", "additionalProperties": NUMBER},
                    },
                },
            ]
        }
    },
}
LATE = "late = [{ rank = 3, by = '3 ms' }]"
CASES = {
    "direct": (flat(8, 3), all_reduce("direct"), LATE),
    "ring": (flat(6, 2), all_reduce("ring"), LATE),
    "shards": (flat(4, 2), all_reduce("direct", shards=[1, 2, 0, 4]), ""),
    "several lanes a port": (flat(5, 2, channels=4), all_reduce("direct"), ""),
    "trunks": (
        {"kind": "fat_tree", "ranks": 8, "radix": 4, "link_rate": "50 GB/s", "latency": "1 us"},
        all_reduce("ring"),
        "jitter = [{ kind = 'exponential', mean = '200 us', at = 'round', seed = 3 }]",
    ),
    "hashed cables": (
        {
            "kind": "fat_tree",
            "ranks": 16,
            "radix": 8,
            "link_rate": "50 GB/s",
            "latency": "1 us",
            "load_balancing": "ecmp",
        },
        all_reduce("direct"),
        "",
    ),
    "nodes": (
        flat(8, 2, node_size=4, node_rate="450 GB/s", node_latency="500 ns"),
        all_reduce("hierarchical", chunks=6),
        LATE,
    ),
    "direct wiring": (flat(6, 3, reach=[3, 2]), all_reduce("direct"), ""),
    "torus": (
        {"kind": "torus", "ranks": 16, "dims": [4, 4], "link_rate": "50 GB/s", "latency": "1 us"},
        all_reduce("ring"),
        "",
    ),
    "rerouted": (
        {"kind": "mrc_planes", "ranks": 16, "planes": 2, "radix": 8, "plane_rate": "50 GB/s"},
        all_reduce("direct"),
        'links = [{ match = "rank 3 egress plane 0", down = true }]\nreroute = "spread"',
    ),
    "switches": (
        {
            "kind": "dgx",
            "ranks": 16,
            "link": "infiniband_ndr",
            "in_network": "network",
            "node_rate": "450 GB/s",
        },
        all_reduce("in_network"),
        LATE,
    ),
}


def text_of(name: str, **engine) -> str:
    network, collective, faults = CASES[name]
    return toml(network=network, collective=collective, engine=engine, faults=faults)


LONG = ("hashed cables", "torus", "rerouted", "direct wiring")  # to compile


@pytest.fixture(
    scope="module",
    params=[pytest.param(n, marks=pytest.mark.slow if n in LONG else ()) for n in CASES],
)
def case(request):
    outcome = run(load_spec(text_of(request.param)))
    return request.param, outcome, record(outcome, ranks=EVERY)


def test_sends_end_when_their_ranks_finish(case):
    name, outcome, seen = case
    sends = seen.sends
    assert (sends.begin_s <= sends.left_s).all()
    assert (sends.left_s <= sends.delivered_s).all()
    finish_s = np.zeros(outcome.ranks)
    np.maximum.at(finish_s, sends.rank, sends.left_s)
    # what switches send back arrives where it came from
    to = np.where(sends.peer >= 0, sends.peer, sends.rank)
    np.maximum.at(finish_s, to, sends.delivered_s)
    np.testing.assert_allclose(finish_s, outcome.finish_s, rtol=1e-12)


def test_links_carry_what_they_carried(case):
    _, outcome, seen = case
    uses = seen.uses
    carried = np.bincount(uses.link, uses.bytes, len(outcome.link_bytes))[seen.links]
    np.testing.assert_allclose(carried, outcome.link_bytes[seen.links], rtol=1e-9)
    ports = [n for n in range(len(outcome.link_bytes)) if outcome.link_name(n).startswith("rank")]
    used = [n for n in ports if outcome.link_bytes[n] > 0]
    assert set(used) <= set(seen.links.tolist())
    busy = uses.bytes / outcome.link_capacity_bytes_per_s[uses.link]
    np.testing.assert_allclose(busy, uses.end_s - uses.begin_s, rtol=1e-6, atol=1e-15)


def test_a_link_does_one_thing_at_a_time(case):
    _, outcome, seen = case
    uses = seen.uses
    same = uses.link[1:] == uses.link[:-1]
    room = 1e-12 * outcome.time_s
    assert (uses.begin_s[1:] + room >= uses.end_s[:-1])[same].all()


def test_channels_send_one_after_another(case):
    name, outcome, seen = case
    if name == "rerouted":
        pytest.skip("sends are handed over to other ports' queues at once")
    sends = seen.sends
    same = (sends.rank[1:] == sends.rank[:-1]) & (sends.lane[1:] == sends.lane[:-1])
    assert same.any() or name == "switches"
    room = 1e-12 * outcome.time_s
    assert (sends.begin_s[1:] + room >= sends.left_s[:-1])[same].all()


def test_events_of_a_thread_never_overlap(case):
    _, _, seen = case
    ends: dict[tuple[int, int], float] = {}
    whole = [event for event in trace_events(seen) if event["ph"] == "X"]
    assert len(whole) == len(seen.sends.rank) + len(seen.uses.link)
    for event in sorted(whole, key=lambda e: (e["ts"], e["ts"] + e["dur"])):
        thread = (event["pid"], event["tid"])
        # rounded to a millionth of a microsecond
        assert event["ts"] >= ends.get(thread, 0.0) - 2e-6, event
        ends[thread] = event["ts"] + event["dur"]


def test_use_over_time_is_what_links_carried(case):
    _, outcome, seen = case
    use = use_over_time(seen, bins=50)
    assert use.share.shape == (len(use.links), 50)
    assert use.share.min() >= -1e-9
    assert use.share.max() <= 1 + 1e-9
    number = {outcome.link_name(int(link)): int(link) for link in seen.links}
    links = [number[name] for name in use.links]
    mean = outcome.link_busy_s[links] / outcome.time_s
    np.testing.assert_allclose(use.share.mean(axis=1), mean, rtol=1e-6, atol=1e-12)


def test_rounds_phases_and_shards():
    outcome = run(load_spec(text_of("direct")))
    sends = record(outcome, ranks=EVERY).sends
    # seven peers in each half, on three rails
    assert len(sends.rank) == 2 * 8 * 7
    assert set(sends.round.tolist()) == {0, 1, 2}
    assert set(sends.phase.tolist()) == {0, 1}
    scatter, gather = sends.phase == 0, sends.phase == 1
    assert (sends.owner[scatter] == sends.peer[scatter]).all()
    assert (sends.owner[gather] == sends.rank[gather]).all()
    np.testing.assert_allclose(sends.bytes, 100e6 / 8)


def test_fluid_sends():
    outcome = run(load_spec(text_of("direct", kind="fluid")))
    seen = record(outcome, ranks=EVERY)
    sends, uses = seen.sends, seen.uses
    assert (sends.begin_s <= sends.left_s).all()
    finish_s = np.zeros(8)
    np.maximum.at(finish_s, sends.rank, sends.left_s)
    np.maximum.at(finish_s, sends.peer, sends.delivered_s)
    np.testing.assert_allclose(finish_s, outcome.finish_s, rtol=1e-12)
    carried = np.bincount(uses.link, uses.bytes, len(outcome.link_bytes))
    np.testing.assert_allclose(carried[seen.links], outcome.link_bytes[seen.links], rtol=1e-9)
    assert {event["ph"] for event in trace_events(seen)} == {"M", "X", "C", "i"}
    # mean rates of sends that share a link add up to what it carried
    use = use_over_time(seen)
    number = {outcome.link_name(int(link)): int(link) for link in seen.links}
    links = [number[name] for name in use.links]
    mean = outcome.link_busy_s[links] / outcome.time_s
    np.testing.assert_allclose(use.share.mean(axis=1), mean, rtol=1e-6)


def test_engines_agree_where_nothing_is_shared():
    begins = []
    for kind in ("chunk", "fluid"):
        text = toml(network=flat(6, 2), collective=all_reduce("ring"), engine={"kind": kind})
        sends = record(run(load_spec(text)), ranks=EVERY).sends
        begins.append(np.sort(sends.begin_s))
    np.testing.assert_allclose(begins[0], begins[1], rtol=1e-9)


def test_traffic_is_traced_too():
    text = toml(
        network=flat(4, 1),
        traffic={"kind": "permutation", "size": "10 MB", "seed": 1},
        engine={"kind": "fluid"},
    )
    outcome = run(load_spec(text))
    sends = record(outcome).sends
    assert outcome.flows is not None
    np.testing.assert_allclose(np.sort(sends.delivered_s), np.sort(outcome.flows.finish_s))


def test_ranks_are_sampled():
    outcome = run(load_spec(text_of("direct")))
    seen = record(outcome, ranks=3)
    assert seen.ranks.size == 3
    # the last to finish, the one that is late, and the first
    first, last = (int(f(outcome.finish_s)) for f in (np.argmin, np.argmax))
    assert seen.ranks.tolist() == list(dict.fromkeys([last, 3, first, *seen.ranks.tolist()]))
    assert set(seen.sends.rank.tolist()) == set(seen.ranks.tolist())
    whole = record(outcome, ranks=EVERY).sends
    kept = np.isin(whole.rank, seen.ranks)
    np.testing.assert_array_equal(seen.sends.begin_s, whole.begin_s[kept])
    ports = {outcome.link_name(int(link)).split()[1] for link in seen.links}
    assert ports == {str(rank) for rank in seen.ranks}


# ---- files


def read_trace(path) -> dict:
    trace = json.loads(path.read_text())
    jsonschema.validate(trace, SCHEMA)
    return trace


@pytest.mark.parametrize("events", [EVERY, 400, 100, 7])
def test_a_trace_is_valid_and_not_too_large(tmp_path, events):
    seen = record(run(load_spec(text_of("nodes"))), ranks=EVERY)
    written = write_trace(tmp_path / "a.json", seen, command="mrcjax run", events=events)
    trace = read_trace(tmp_path / "a.json")
    whole = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(whole) == written.events <= events
    assert written.events > min(events, 200) // 4
    assert tuple(trace["otherData"]["left_out"]) == written.left_out
    assert bool(written.left_out) == (events < EVERY)
    named = {event["pid"] for event in trace["traceEvents"] if event["name"] == "process_name"}
    assert {event["pid"] for event in trace["traceEvents"]} == named


def test_the_schema_refuses_what_is_no_trace():
    event = {"ph": "X", "name": "a", "cat": "send", "pid": 0, "tid": 0, "ts": 1.0, "dur": -1.0}
    trace = {"traceEvents": [{**event, "args": {}}], "displayTimeUnit": "ns", "otherData": {}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(trace, SCHEMA)


def test_run_with_a_trace_and_the_trace_of_an_archive(tmp_path, capsys):
    spec = tmp_path / "spec.toml"
    spec.write_text(text_of("direct"))
    stored, first, second = (str(tmp_path / n) for n in ("a.h5", "first.json", "second.json"))
    assert main(["run", str(spec), "--out", stored, "--trace", first, "--trace-ranks", "4"]) == 0
    said = capsys.readouterr().err
    assert said.startswith(f"mrcjax: {first}: ")
    assert "4 of 8 ranks are left out" in said
    assert main(["trace", stored, "--ranks", "4", "--out", second]) == 0
    traces = [read_trace(tmp_path / n) for n in ("first.json", "second.json")]
    assert traces[0]["traceEvents"] == traces[1]["traceEvents"]
    assert traces[0]["otherData"]["spec"] == traces[1]["otherData"]["spec"]
    use = archive.load_runs(stored).run().link_use
    assert use is not None
    assert use.share.shape == (len(use.links), len(use.edges_s) - 1)
    figure = tmp_path / "use.svg"
    assert main(["trace", stored, "--out", second, "--figure", str(figure)]) == 0
    assert "rank 3 egress rail 0" in figure.read_text()
    capsys.readouterr()
    assert main(["plot", stored]) == 0
    assert "a-flat_rails-direct-8-use.png" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trace", "{tmp}"], "is a folder; name a file in it, such as trace.json"),
        (["--trace-ranks", "4"], "--trace-ranks needs a trace; name it with --trace FILE.json"),
        (["--trace", "a.json", "--trace-ranks", "0"], "--trace-ranks must be a whole number, 1"),
        (["--trace", "{tmp}/spec.toml/a.json"], "cannot be written"),
    ],
)
def test_what_cannot_be_traced_is_refused_first(tmp_path, capsys, words, message):
    spec = tmp_path / "spec.toml"
    spec.write_text(text_of("direct"))
    words = [word.replace("{tmp}", str(tmp_path)) for word in words]
    assert main(["run", str(spec), *words]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert message in found.err


@pytest.mark.parametrize(
    ("name", "engine", "message"),
    [
        ("hashed cables", {"order": "arrival"}, "engine.order serves all sends of a phase at once"),
        (None, {"aggregate": True}, "engine.aggregate gives no single sends"),
    ],
)
def test_engines_without_single_sends_are_refused(name, engine, message):
    if name is None:
        text = toml(
            network=flat(8, 2), collective={"kind": "all_to_all", "size": "1 MB"}, engine=engine
        )
    else:
        text = text_of(name, **engine)
    outcome = run(load_spec(text))
    with pytest.raises(SpecError, match=message):
        record(outcome)
