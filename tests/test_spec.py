"""The spec: what loads, what is refused with which words, and that writing it back keeps it."""

import ast
import copy
import datetime
import pickle
import tomllib
from pathlib import Path

import jsonschema
import msgspec
import pytest

import mrcjax.spec as spec_package
from mrcjax.spec import (
    TRAINING_SOURCES,
    FlatRails,
    SpecError,
    TrainingSpec,
    example,
    example_kinds,
    json_schema,
    load_spec,
    spec_from_dict,
    spec_to_toml,
)

ONE_RUN = [kind for kind in example_kinds() if kind != "sweep"]
COLLECTIVE = '[collective]\nkind = "all_reduce"\nsize = "1 GB"\n'
FLAT = (
    '[network]\nkind = "flat_rails"\nranks = 1024\nrails = 8\nrail_rate = "400 Gbit/s"\n'
    + COLLECTIVE
)
TREE = (
    '[network]\nkind = "fat_tree"\nranks = 1024\nradix = 128\nlink_rate = "400 Gbit/s"\n'
    + COLLECTIVE
)
PLANES = (
    '[network]\nkind = "mrc_planes"\nranks = 1024\nplanes = 8\nradix = 512\n'
    'plane_rate = "100 Gbit/s"\n' + COLLECTIVE
)
NODES = TREE.replace("ranks = 1024", 'ranks = 1024\nnode_size = 8\nnode = "nvlink4"')
TRAINING = NODES + "[training]\n"


def _with(base: str, old: str, new: str) -> str:
    assert old in base
    return base.replace(old, new)


def _collective(base: str, lines: str) -> str:
    return _with(base, COLLECTIVE, f"[collective]\n{lines}\n")


def _traffic(lines: str) -> str:
    return FLAT.replace(COLLECTIVE, f'[traffic]\n{lines}\n[engine]\nkind = "fluid"\n')


def _graph(lines: str) -> str:
    return f'[network]\nkind = "graph"\n{lines}\n' + COLLECTIVE


# (name, TOML text, what the message must contain: place, value, remedy)
BAD_SPECS: list[tuple[str, str, tuple[str, ...]]] = [
    ("empty", "\n", ("empty", "mrcjax spec --example")),
    ("syntax", "[network]\nranks = = 4\n", ("TOML", "line 2", "column 9", "ranks = = 4")),
    (
        "unquoted",
        FLAT.replace('"400 Gbit/s"', "400 Gbit/s"),
        ("TOML", "line 5", "rail_rate = 400 Gbit/s", "double quotes"),
    ),
    ("no_network", COLLECTIVE, ("[network] is missing", "mrcjax spec --example")),
    ("no_collective", FLAT.split("[collective]")[0], ("[collective] is missing",)),
    (
        "unknown_section",
        FLAT + "[fault]\n",
        ("fault is not a known section", 'did you mean "faults"?', "training"),
    ),
    (
        "section_is_number",
        "network = 3\n" + COLLECTIVE,
        ("network must be a table", "got 3", "[network]"),
    ),
    (
        "unknown_key",
        _with(FLAT, "rails = 8", "railz = 8"),
        ("network.railz", "got 8", 'did you mean "rails"?', "rail_rate"),
    ),
    (
        "key_of_another_kind",
        _with(FLAT, "rails = 8", "rails = 8\nplanes = 4"),
        ("network.planes", "got 4", 'belongs to kind = "mrc_planes", not "flat_rails"'),
    ),
    (
        "late_is_number",
        FLAT + "[faults]\nlate = [5]\n",
        ("faults.late[0] must be a table", "got 5", "{ key = value"),
    ),
    (
        "unknown_nested_key",
        FLAT + '[faults]\nlate = [{ rank = 5, bye = "3 ms" }]\n',
        ("faults.late[0].bye", "3 ms", 'did you mean "by"?'),
    ),
    (
        "no_kind",
        _with(FLAT, 'kind = "flat_rails"\n', ""),
        ("network.kind is missing", "flat_rails", "dragonfly"),
    ),
    (
        "unknown_kind",
        _with(FLAT, '"flat_rails"', '"flat_rail"'),
        ("network.kind", '"flat_rail"', 'did you mean "flat_rails"?'),
    ),
    ("kind_is_number", _with(FLAT, '"flat_rails"', "7"), ("network.kind", "got 7", "fat_tree")),
    ("no_ranks", _with(FLAT, "ranks = 1024\n", ""), ("network.ranks is missing", "ranks = 1024")),
    ("zero_ranks", _with(FLAT, "1024", "0"), ("network.ranks", ">= 1", "got 0", "ranks = 1024")),
    ("ranks_text", _with(FLAT, "1024", '"1024"'), ("network.ranks", "whole number", '"1024"')),
    ("ranks_float", _with(FLAT, "1024", "1024.5"), ("network.ranks", "whole number", "1024.5")),
    ("ranks_bool", _with(FLAT, "1024", "true"), ("network.ranks", "whole number", "true")),
    ("ranks_huge", _with(FLAT, "1024", "99999999999999"), ("network.ranks", "<= 2147483647")),
    ("no_rails", _with(FLAT, "rails = 8\n", ""), ("network.rails is missing", "rails = 8")),
    (
        "no_rate",
        _with(FLAT, 'rail_rate = "400 Gbit/s"\n', ""),
        ("network.rail_rate is missing", "400 Gbit/s", "ethernet_400g"),
    ),
    (
        "two_rates",
        _with(FLAT, "rails = 8", 'rails = 8\nrail = "ethernet_400g"'),
        ("network.rail and network.rail_rate", "keep one"),
    ),
    (
        "unknown_part",
        _with(FLAT, 'rail_rate = "400 Gbit/s"', 'rail = "ethernet_400"'),
        ("network.rail", '"ethernet_400"', 'did you mean "ethernet_400g"?'),
    ),
    (
        "unknown_switch",
        _with(FLAT, "rails = 8", 'rails = 8\nswitch = "tomahawk"'),
        ("network.switch", '"tomahawk"', "switch_51t2"),
    ),
    (
        "rate_without_unit",
        _with(FLAT, '"400 Gbit/s"', "400"),
        ("network.rail_rate has no unit", "got 400", '"400 Gbit/s"'),
    ),
    (
        "rate_wrong_case",
        _with(FLAT, "400 Gbit/s", "400 gbps"),
        ("network.rail_rate", "unknown unit", '"400 gbps"', "400 Gbit/s"),
    ),
    (
        "rate_is_size",
        _with(FLAT, "400 Gbit/s", "400 GB"),
        ("network.rail_rate", "a data rate", "is a size", '"400 GB"'),
    ),
    (
        "rate_zero",
        _with(FLAT, "400 Gbit/s", "0 GB/s"),
        ("network.rail_rate", "above zero", '"0 GB/s"'),
    ),
    (
        "rate_list_entry",
        _with(FLAT, '"400 Gbit/s"', '["400 Gbit/s", 5]'),
        ("network.rail_rate[1]", "no unit", "got 5", '"400 Gbit/s"'),
    ),
    (
        "rate_list_length",
        _with(FLAT, '"400 Gbit/s"', '["400 Gbit/s", "200 Gbit/s"]'),
        ("network.rail_rate", "2 values for 8 rails", "one per rail"),
    ),
    (
        "rate_list_empty",
        _with(FLAT, '"400 Gbit/s"', "[]"),
        ("network.rail_rate", "empty list", "400 Gbit/s"),
    ),
    (
        "latency_without_unit",
        _with(FLAT, "rails = 8", "rails = 8\nlatency = 500"),
        ("network.latency has no unit", "got 500", '"500 ns"'),
    ),
    (
        "latency_negative",
        _with(FLAT, "rails = 8", 'rails = 8\nlatency = "-1 us"'),
        ("network.latency", "negative", '"-1 us"'),
    ),
    (
        "latency_list_length",
        _with(FLAT, "rails = 8", 'rails = 8\nlatency = ["1 us"]'),
        ("network.latency", "1 values for 8 rails"),
    ),
    (
        "goodput_above_one",
        _with(FLAT, "rails = 8", "rails = 8\ngoodput = 1.5"),
        ("network.goodput", "<= 1", "got 1.5", "goodput = 0.96"),
    ),
    (
        "goodput_nan",
        _with(FLAT, "rails = 8", "rails = 8\ngoodput = nan"),
        ("network.goodput", "finite", "nan"),
    ),
    (
        "nodes_without_rate",
        _with(FLAT, "rails = 8", "rails = 8\nnode_size = 8"),
        ("network.node_rate is missing", "node_size = 8", "nvlink4"),
    ),
    (
        "nodes_with_two_rates",
        _with(NODES, "node_size = 8", 'node_size = 8\nnode_rate = "450 GB/s"'),
        ("network.node", "node_rate", "keep one"),
    ),
    (
        "nodes_not_full",
        _with(
            _with(NODES, "ranks = 1024", "ranks = 1020"),
            'kind = "all_reduce"',
            'kind = "all_reduce"\nalgorithm = "hierarchical"',
        ),
        ("collective.algorithm", "full nodes", "1020", "1024 ranks"),
    ),
    (
        "placement",
        _with(FLAT, "rails = 8", 'rails = 8\nplacement = "leaf"'),
        ("network.placement", '"leaf"', '"node", "rail"'),
    ),
    (
        "reach_word",
        _with(FLAT, "rails = 8", 'rails = 8\nreach = "every"'),
        ("network.reach", '"every"', '"all", "direct"'),
    ),
    (
        "reach_number",
        _with(FLAT, "rails = 8", "rails = 8\nreach = 32"),
        ("network.reach", '"all", "direct"', "a list", "got 32"),
    ),
    (
        "reach_group_of_one",
        _with(FLAT, "rails = 8", "reach = [1024, 1]"),
        ("network.reach[1]", ">= 2", "got 1"),
    ),
    (
        "reach_empty",
        _with(FLAT, "rails = 8", "rails = 8\nreach = []"),
        ("network.reach", "empty", "[32, 32]"),
    ),
    (
        "reach_product",
        _with(FLAT, "rails = 8", "reach = [32, 16]"),
        ("network.reach", "512", "1024", "[32, 16]", "product"),
    ),
    (
        "reach_rails",
        _with(FLAT, "rails = 8", "rails = 8\nreach = [32, 32]"),
        ("network.rails must be 62", "got 8", "leave rails out"),
    ),
    (
        "full_mesh",
        _with(FLAT, "rails = 8", 'rails = 8\nreach = "direct"'),
        ("network.rails must be 1023", "523776 cables", 'reach = "all"'),
    ),
    (
        "optical_direct",
        _with(FLAT, "rails = 8", 'reach = [32, 32]\nplane = "optical"'),
        ("network.plane", '"optical"', "leave plane out"),
    ),
    (
        "reach_too_wide",
        _with(FLAT.replace("1024", "1073741824"), "rails = 8", "reach = [1073741824]"),
        ("network.reach", "1073741823 rails", "smaller groups"),
    ),
    ("rails_huge", _with(FLAT, "rails = 8", "rails = 2_000_000_000"), ("network.rails", "<= ")),
    ("digits", _with(FLAT, "1024", "9" * 5000), ("TOML", "digits")),
    ("nesting", "x = " + "[" * 5000 + "]" * 5000, ("nested too deeply",)),
    ("odd_radix", _with(TREE, "128", "63"), ("network.radix must be even", "got 63", "use 64")),
    (
        "four_tiers",
        _with(TREE, "radix", "tiers = 4\nradix"),
        ("network.tiers", "got 4", "use one of 2, 3"),
    ),
    (
        "oversubscription_below_one",
        _with(TREE, "radix", "oversubscription = 0.5\nradix"),
        ("network.oversubscription", ">= 1", "got 0.5"),
    ),
    (
        "oversubscription_list",
        _with(TREE, "radix", "oversubscription = [1, 2]\nradix"),
        ("network.oversubscription", "1 values for 2 tiers", "[1", "lowest first"),
    ),
    (
        "load_balancing",
        _with(TREE, "radix", 'load_balancing = "sprays"\nradix'),
        ("network.load_balancing", '"sprays"', 'did you mean "spray"?'),
    ),
    (
        "paths_without_spray",
        _with(TREE, "radix", "paths = 64\nradix"),
        ("network.paths", "got 64", 'load_balancing = "spray"'),
    ),
    ("negative_seed", _with(PLANES, "radix", "seed = -1\nradix"), ("network.seed", ">= 0", "-1")),
    ("planes_missing", _with(PLANES, "planes = 8\n", ""), ("network.planes is missing", "8")),
    (
        "no_size",
        _collective(FLAT, 'kind = "all_reduce"'),
        ("collective.size is missing", '"1 GB"'),
    ),
    (
        "size_without_unit",
        _collective(FLAT, 'kind = "all_reduce"\nsize = 1_000_000_000'),
        ("collective.size has no unit", "1000000000", '"1 GB"'),
    ),
    (
        "size_kilobytes",
        _collective(FLAT, 'kind = "all_reduce"\nsize = "64 KB"'),
        ("collective.size", '"64 KB"', "k M G T or Ki Mi Gi Ti"),
    ),
    (
        "broadcast",
        _collective(FLAT, 'kind = "broadcast"\nsize = "1 GB"'),
        ("collective.kind is not supported yet", '"broadcast"', "all_reduce"),
    ),
    (
        "collective_typo",
        _collective(FLAT, 'kind = "allreduce"\nsize = "1 GB"'),
        ("collective.kind", 'did you mean "all_reduce"?'),
    ),
    (
        "all_to_all_ring",
        _collective(FLAT, 'kind = "all_to_all"\nalgorithm = "ring"\nsize = "1 GB"'),
        ("collective.algorithm", '"ring"', 'algorithm = "direct"'),
    ),
    (
        "stripe_ring",
        _collective(FLAT, 'kind = "all_reduce"\nalgorithm = "ring"\nsize = "1 GB"\nstripe = true'),
        ("collective.stripe", "true", 'algorithm = "direct"'),
    ),
    (
        "stripe_text",
        _collective(FLAT, 'kind = "all_reduce"\nsize = "1 GB"\nstripe = "yes"'),
        ("collective.stripe must be true or false", '"yes"'),
    ),
    (
        "element_bytes",
        _collective(FLAT, 'kind = "all_reduce"\nsize = "1 GB"\nelement_bytes = 3'),
        ("collective.element_bytes", "1000000000 B", "got 3", "leave element_bytes out"),
    ),
    (
        "group_size",
        _collective(FLAT, 'kind = "all_reduce"\nsize = "1 GB"\ngroup_size = 100'),
        ("collective.group_size", "1024", "got 100", "leave group_size out"),
    ),
    (
        "group_stride_alone",
        _collective(FLAT, 'kind = "all_reduce"\nsize = "1 GB"\ngroup_stride = 8'),
        ("collective.group_stride", "got 8", "group_size = 128"),
    ),
    (
        "hierarchical_without_nodes",
        _collective(FLAT, 'kind = "all_reduce"\nalgorithm = "hierarchical"\nsize = "1 GB"'),
        ("collective.algorithm", "node_size", 'node_rate = "450 GB/s"', "direct"),
    ),
    (
        "hierarchical_graph",
        '[network]\nkind = "graph"\nlink_rate = "1 GB/s"\nlinks = [{ from = "0", to = "1" }]\n'
        + _with(COLLECTIVE, "size", 'algorithm = "hierarchical"\nsize'),
        ("collective.algorithm", "; name collective.dimensions"),
    ),
    (
        "in_network_without_a_switch_that_could",
        _collective(FLAT, 'kind = "all_reduce"\nalgorithm = "in_network"\nsize = "1 GB"'),
        ("collective.algorithm", "a flat_rails like this has none", "another network.kind"),
    ),
    (
        "in_network_not_switched_on",
        _collective(NODES, 'kind = "all_reduce"\nalgorithm = "in_network"\nsize = "1 GB"'),
        ("collective.algorithm", "set network.in_network = true"),
    ),
    (
        "hierarchical_gather",
        _collective(NODES, 'kind = "all_gather"\nalgorithm = "hierarchical"\nsize = "1 GB"'),
        ("collective.algorithm", "all_gather", "name the dimensions", '"direct"'),
    ),
    (
        "hierarchical_group",
        _collective(
            NODES,
            'kind = "all_reduce"\nalgorithm = "hierarchical"\nsize = "1 GB"\ngroup_size = 128',
        ),
        ("collective.group_size", "got 128", "leave group_size out"),
    ),
    (
        "between_without_hierarchical",
        _collective(NODES, 'kind = "all_reduce"\nsize = "1 GB"\nbetween = "ring"'),
        ("collective.between", '"ring"', 'algorithm = "hierarchical"'),
    ),
    (
        "chunks_without_hierarchical",
        _collective(NODES, 'kind = "all_reduce"\nsize = "1 GB"\nalgorithm = "ring"\nchunks = 4'),
        ("collective.chunks", "got 4", 'algorithm = "hierarchical"'),
    ),
    (
        "packet",
        FLAT + '[engine]\nkind = "packet"\n',
        ("engine.kind is not supported yet", '"packet"', '"fluid"'),
    ),
    (
        "fluid_store_and_forward",
        FLAT + '[engine]\nkind = "fluid"\nswitching = "store_and_forward"\n',
        ("engine.switching has no meaning", '"fluid"', "store_and_forward"),
    ),
    (
        "fluid_order",
        FLAT + '[engine]\nkind = "fluid"\norder = "arrival"\n',
        ("engine.order has no meaning", "arrival"),
    ),
    (
        "fluid_reduction_rate",
        _with(FLAT, "rails = 8", 'rails = 8\nreduction_rate = "1 TB/s"')
        + '[engine]\nkind = "fluid"\n',
        ("network.reduction_rate has no meaning", "1 TB/s", '"chunk"'),
    ),
    (
        "chunk_quantum",
        FLAT + '[engine]\nquantum = "1 us"\n',
        ("engine.quantum has no meaning", "1 us", "chunk"),
    ),
    (
        "traffic_by_chunk",
        _collective(FLAT, "").replace("[collective]", "[traffic]\nkind = 'all_to_all'\nsize='1 B'"),
        ("engine.kind does not emulate [traffic]", '"chunk"', '"fluid"'),
    ),
    (
        "traffic_and_collective",
        FLAT + '[traffic]\nkind = "all_to_all"\nsize = "1 B"\n[engine]\nkind = "fluid"\n',
        ("[traffic] does not go with [collective]",),
    ),
    ("traffic_no_size", _traffic('kind = "incast"'), ("traffic.size is missing", "100 MB")),
    (
        "traffic_no_file",
        _traffic('kind = "file"'),
        ("traffic.file is missing", "flows.csv"),
    ),
    (
        "traffic_foreign_key",
        _traffic('kind = "all_to_all"\nsize = "1 B"\nseed = 3'),
        ("traffic.seed has no effect", "all_to_all", "got 3"),
    ),
    (
        "traffic_stride",
        _traffic('kind = "nearest_neighbour"\nsize = "1 B"\nstrides = [1024]'),
        ("traffic.strides", "itself", "got 1024"),
    ),
    (
        "traffic_to",
        _traffic('kind = "incast"\nsize = "1 B"\nto = 1024'),
        ("traffic.to must be below network.ranks = 1024", "got 1024"),
    ),
    (
        "graph_no_links",
        _graph(""),
        ("network.file is missing", "links = [{"),
    ),
    (
        "graph_self_loop",
        _graph('links = [{ from = "0", to = "rank 0", rate = "1 GB/s" }]'),
        ("network.links[0]", 'joins "rank 0" to itself'),
    ),
    (
        "graph_no_rate",
        _graph('links = [{ from = "0", to = "1" }]'),
        ("network.links[0] has no rate", "link_rate"),
    ),
    (
        "graph_zero_rate",
        _graph('links = [{ from = "0", to = "1", rate = "0 GB/s" }]'),
        ("network.links[0].rate", "above zero", "0 GB/s"),
    ),
    (
        "graph_negative_rate",
        _graph('links = [{ from = "0", to = "1", rate = "-5 GB/s" }]'),
        ("network.links[0].rate", "negative", "-5 GB/s"),
    ),
    (
        "graph_gap",
        _graph('links = [{ from = "0", to = "2", rate = "1 GB/s" }]'),
        ("name ranks up to 2, but not rank 1", "network.ranks = 3"),
    ),
    (
        "graph_too_many_ranks",
        _graph('ranks = 2\nlinks = [{ from = "0", to = "2", rate = "1 GB/s" }]'),
        ("network.links[0]", 'has "rank 2"', "network.ranks is 2"),
    ),
    (
        "graph_no_rank",
        _graph('links = [{ from = "a", to = "b", rate = "1 GB/s" }]'),
        ("name no rank", '"0" to "n - 1"'),
    ),
    (
        "graph_name_twice",
        _graph(
            'links = [{ from = "0", to = "1", rate = "1 GB/s", name = "x" }, '
            '{ from = "1", to = "0", rate = "1 GB/s", name = "x" }]'
        ),
        ("network.links[0], name names two links", '"x"'),
    ),
    (
        "graph_nodes",
        _graph('node_size = 2\nlinks = [{ from = "0", to = "1", rate = "1 GB/s" }]'),
        ("network.node_size does not go with a graph", "got 2"),
    ),
    (
        "graph_switch",
        _graph('switch = "switch_51t2"\nlinks = [{ from = "0", to = "1", rate = "1 GB/s" }]'),
        ("network.switch has no effect on a graph", "switch_51t2"),
    ),
    (
        "graph_no_file",
        _graph('file = "nowhere.csv"'),
        ("network.file cannot be read", "no such file", "nowhere.csv"),
    ),
    (
        "graph_file_kind",
        _graph('file = "net.xlsx"'),
        ("network.file must name a links file", ".csv, .json, .graphml", "net.xlsx"),
    ),
    (
        "switching",
        FLAT + '[engine]\nswitching = "wormhole"\n',
        ("engine.switching", '"wormhole"', "cut_through"),
    ),
    (
        "late_out_of_range",
        FLAT + '[faults]\nlate = [{ rank = 1024, by = "3 ms" }]\n',
        ("faults.late[0].rank", "got 1024", "0 to 1023"),
    ),
    (
        "late_twice",
        FLAT + '[faults]\nlate = [{ rank = 1, by = "3 ms" }, { rank = 1, by = "1 ms" }]\n',
        ("faults.late[1].rank", "twice", "one entry per rank"),
    ),
    (
        "late_without_unit",
        FLAT + "[faults]\nlate = [{ rank = 1, by = 3 }]\n",
        ("faults.late[0].by has no unit", "got 3", "500 ns"),
    ),
    (
        "late_is_table",
        FLAT + '[faults.late]\nrank = 1\nby = "3 ms"\n',
        ("faults.late must be a list", "late = [{ rank = 5"),
    ),
    (
        "late_without_time",
        FLAT + "[faults]\nlate = [{ rank = 1 }]\n",
        ("faults.late[0].by is missing", '"3 ms"'),
    ),
    (
        "fault_rate",
        FLAT + '[faults]\nlinks = [{ match = "*", rate = 2.0 }]\n',
        ("faults.links[0].rate", "<= 1", "got 2.0"),
    ),
    (
        "fault_match_empty",
        FLAT + '[faults]\nlinks = [{ match = "", rate = 0.5 }]\n',
        ("faults.links[0].match", "empty", "rank 5 egress rail *"),
    ),
    (
        "training_gpu",
        TRAINING + 'gpu = "h1000"\n',
        ("training.gpu", '"h1000"', 'did you mean "h100"?'),
    ),
    (
        "training_gpu_without_price",
        TRAINING + 'gpu = "a100"\n',
        ("training.achievable_fraction is missing", '"a100"', "add training.achievable_fraction"),
    ),
    (
        "training_peak",
        TRAINING + 'peak_flops = "989 TB/s"\n',
        ("training.peak_flops", "a computing rate", "is a data rate", "989 TFLOP/s"),
    ),
    (
        "training_ranks",
        TRAINING + "tensor_parallel = 64\npipeline_parallel = 80\n",
        ("training.tensor_parallel", "1024", "got 64", "5120"),
    ),
    (
        "training_batch",
        TRAINING + "global_batch_tokens = 4_096_000\n",
        ("training.global_batch_tokens", "524288", "got 4096000", "4194304"),
    ),
    (
        "training_batch_too_small",
        _with(TRAINING, "ranks = 1024", "ranks = 16384"),
        ("training.global_batch_tokens", "8388608", "2048 replicas", "got 4194304"),
    ),
    (
        "training_layers",
        TRAINING + "pipeline_parallel = 3\n",
        ("training.pipeline_parallel", "layers = 80", "got 3"),
    ),
    (
        "training_interleave",
        TRAINING + "interleave = 5\n",
        ("training.interleave", "got 5", "pipeline_parallel"),
    ),
    ("training_pue", TRAINING + "pue = 0.9\n", ("training.pue", ">= 1", "got 0.9", "1.3")),
    ("training_heads", TRAINING + "heads = 60\n", ("training.tensor_parallel", "heads = 60")),
    ("output_file", FLAT + '[output]\nfile = ""\n', ("output.file", "empty", "run.h5")),
    (
        "output_figures",
        FLAT + "[output]\nfigures = 1\n",
        ("output.figures", "true or false", "got 1"),
    ),
]


@pytest.mark.parametrize(("name", "text", "parts"), BAD_SPECS, ids=[bad[0] for bad in BAD_SPECS])
def test_bad_spec_is_refused_with_place_value_and_remedy(name, text, parts):
    with pytest.raises(SpecError) as caught:
        load_spec(text)
    message = str(caught.value)
    for part in parts:
        assert part in message
    # one line on a terminal, without the words of the library underneath
    assert "\n" not in message
    assert "`str`" not in message
    assert "$" not in message


ODD_VALUES = [
    0, -1, 1, 3, 2**63, 10**400, 0.5, -2.5, 1e308, float("nan"), float("inf"), True, "", " ",
    "x", "-1 s", "1e99999999999999999999 B", "1e-99999999999999999999 s", "1e400 GB/s", "5 s", "5",
    [], [[]], [1], ["5 GB/s"], [{}], {}, {"kind": "x"}, {"rank": {}}, datetime.date(2026, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize("kind", ONE_RUN)
def test_any_odd_value_loads_or_is_a_spec_error(kind):
    raw = tomllib.loads(spec_to_toml(load_spec(example(kind))))
    for section in raw:
        for place in [(section,), *((section, key) for key in raw[section])]:
            for value in ODD_VALUES:
                changed = copy.deepcopy(raw)
                if len(place) == 1:
                    changed[section] = value
                else:
                    changed[section][place[1]] = value
                try:
                    spec_from_dict(changed)
                except SpecError as error:
                    assert section in str(error)  # noqa: PT017


def test_bad_specs_are_many_and_distinct():
    assert len({bad[0] for bad in BAD_SPECS}) == len(BAD_SPECS) >= 30


@pytest.mark.parametrize("kind", ONE_RUN)
def test_example_loads_and_round_trips(kind):
    spec = load_spec(example(kind))
    text = spec_to_toml(spec)
    twin = load_spec(text)
    assert twin == spec
    assert spec_to_toml(twin) == text
    assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.parametrize("kind", ONE_RUN)
def test_schema_accepts_examples_as_written_and_as_written_back(kind):
    validator = jsonschema.Draft202012Validator(json_schema())
    for text in (example(kind), spec_to_toml(load_spec(example(kind)))):
        validator.validate(tomllib.loads(text))


@pytest.mark.parametrize(
    "text",
    [
        _with(FLAT, "rails = 8", "railz = 8"),
        _with(FLAT, "1024", "0"),
        _with(FLAT, '"400 Gbit/s"', "400"),
        _with(FLAT, '"flat_rails"', '"ring"'),
        _with(FLAT, 'size = "1 GB"\n', ""),
    ],
)
def test_schema_refuses(text):
    validator = jsonschema.Draft202012Validator(json_schema())
    assert not validator.is_valid(tomllib.loads(text))


def test_schema_describes_every_field():
    for name, definition in json_schema()["$defs"].items():
        for key, field in definition["properties"].items():
            is_described = "description" in field or "$ref" in field or "anyOf" in field
            assert is_described or key == "kind", f"{name}.{key}"


def test_unknown_example_lists_the_known():
    with pytest.raises(SpecError, match="flat_rails, mrc_planes, fat_tree, dragonfly"):
        example("flat")


@pytest.mark.parametrize(
    ("override", "read", "value"),
    [
        ("network.ranks=4096", lambda s: s.network.ranks, 4096),
        (" network.ranks = 4_096 ", lambda s: s.network.ranks, 4096),
        ("network.rails=4", lambda s: s.network.ports, 4),
        ("network.rail_rate=50 GB/s", lambda s: s.network.port_rates[0], 50e9),
        ('network.rail_rate="50 GB/s"', lambda s: s.network.port_rates[0], 50e9),
        ("network.goodput=0.5", lambda s: s.network.goodput, 0.5),
        ("collective.size=64 KiB", lambda s: s.collective.size, 65536.0),
        ("collective.algorithm=ring", lambda s: s.collective.algorithm, "ring"),
        ("collective.stripe=true", lambda s: s.collective.stripe, True),
        ("engine.precision=float32", lambda s: s.engine.precision, "float32"),
        ("output.file=2026-01-01", lambda s: s.output.file, "2026-01-01"),
        ('faults.late=[{rank=1, by="3 ms"}]', lambda s: s.faults.late[0].by, 3e-3),
    ],
)
def test_override(override, read, value):
    assert read(load_spec(FLAT, set=[override])) == value


def test_overrides_apply_in_order_and_reach_into_lists():
    base = FLAT + '[faults]\nlate = [{ rank = 5, by = "3 ms" }]\n'
    spec = load_spec(base, set=["faults.late.0.rank=6", "faults.late.0.rank=7"])
    assert spec.faults.late[0].rank == 7


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("network.ranks", ("key=value", "network.ranks=4096")),
        ("network.ranks=", ("key=value",)),
        ("=4", ("key=value",)),
        ("network..ranks=4", ("key=value",)),
        ("network.ranks.x=4", ("ranks", "no table")),
        ("network.rank=4", ("network.rank", 'did you mean "ranks"?')),
        ("network.latency=500", ("network.latency has no unit", '"500 ns"')),
        ("faults.late.3.by=1 s", ("late", "3")),
    ],
)
def test_bad_override(override, parts):
    with pytest.raises(SpecError) as caught:
        load_spec(FLAT, set=[override])
    for part in parts:
        assert part in str(caught.value)


def test_a_file_of_sends_in_no_text_is_not_sent_to_graphml(tmp_path):
    path = tmp_path / "sends.csv"
    path.write_bytes(b"\xff")
    spec = load_spec(_traffic(f'kind = "file"\nfile = "{path}"'))
    assert spec.traffic is not None
    with pytest.raises(SpecError, match="not UTF-8.*name a CSV or JSON file"):
        spec.traffic.records()


def test_spec_from_a_file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("\ufeff" + FLAT, encoding="utf-8")
    assert load_spec(path) == load_spec(str(path)) == load_spec(FLAT)


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda folder: folder / "rum.toml", ("no spec file", "rum.toml", "run.toml")),
        (lambda folder: folder / "x" / "nothing", ("no spec file", "mrcjax spec --example")),
        (lambda folder: folder, ("is a folder",)),
        (lambda folder: folder / "run.h5", ("not UTF-8",)),
        (lambda folder: "", ("empty",)),
    ],
)
def test_unreadable_file(tmp_path, make, parts):
    (tmp_path / "run.toml").write_text(FLAT, encoding="utf-8")
    (tmp_path / "run.h5").write_bytes(b"\x89HDF\r\n\xff\xfe")
    target = make(tmp_path)
    with pytest.raises(SpecError) as caught:
        load_spec(str(target))
    for part in parts:
        assert part in str(caught.value)


def test_rates_per_rail():
    rates = '["400 Gbit/s", "200 Gbit/s"]'
    text = _with(_with(FLAT, '"400 Gbit/s"', rates), "rails = 8", "rails = 2")
    spec = load_spec(_with(text, "rails = 2", 'rails = 2\nlatency = ["500 ns", "1 us"]'))
    assert spec.network.port_rates == (50e9, 25e9)
    assert spec.network.port_latencies == (5e-7, 1e-6)
    assert "400 Gbit/s" in spec_to_toml(spec)


def test_rails_follow_from_reach():
    spec = load_spec(_with(FLAT, "rails = 8", "reach = [4, 4, 4, 4, 4]"))
    assert spec.network.ports == 15
    assert len(spec.network.port_rates) == 15


def test_full_mesh_with_enough_rails():
    text = _with(_with(FLAT, "1024", "8"), "rails = 8", 'rails = 7\nreach = "direct"')
    assert load_spec(text).network.ports == 7


def test_parts_give_rates():
    network = load_spec(example("nodes")).network
    assert network.kind == "fat_tree"
    assert network.port_rates == (50e9,)
    assert network.node_bytes_per_s == 450e9


def test_port_values_are_plain_floats():
    for kind in ONE_RUN:
        network = load_spec(example(kind)).network
        assert {type(v) for v in network.port_rates + network.port_latencies} == {float}
        assert len(network.port_rates) == len(network.port_latencies) == network.ports


def test_network_checks_itself_when_made_in_python():
    with pytest.raises(SpecError, match="network.rails is missing"):
        FlatRails(ranks=8, rail="ethernet_400g")
    assert FlatRails(ranks=8, rails=2, rail="ethernet_400g").port_rates == (50e9, 50e9)


def test_text_with_odd_characters_round_trips():
    name = 'rank "5" \\ caf\u00e9 \U0001f600 \x7f \t*'
    base = load_spec(FLAT + "[faults]\nlinks = [{ match = '*', rate = 0.5 }]\n")
    faults = msgspec.structs.replace(
        base.faults, links=(msgspec.structs.replace(base.faults.links[0], match=name),)
    )
    spec = msgspec.structs.replace(base, faults=faults)
    assert load_spec(spec_to_toml(spec)) == spec


def test_every_training_field_has_a_source_and_mark():
    assert set(TRAINING_SOURCES) == set(TrainingSpec.__struct_fields__)
    for line in TrainingSpec().explain():
        assert line.value is not None
        assert line.source
        assert line.mark in {"A", "B", "C", "X"}


def test_training_defaults_and_overrides():
    training = load_spec(TRAINING + 'gpu = "b200"\nhidden = 4096\n').training
    assert training is not None
    assert training.shape.hidden == 4096
    assert training.shape.layers == 80
    assert training.hardware.peak_flops_per_s == 2250e12
    assert training.data_parallel(1024) == 128
    assert training.micro_batches(1024) == 8
    lines = {line.field: line for line in training.explain()}
    assert lines["hidden"].source == "spec"
    assert lines["gpu_hour_usd"].value == 3.5


def test_training_on_a_gpu_without_catalogue_values():
    lines = 'gpu = "a100"\nachievable_fraction = 0.5\ngpu_hour_usd = 1.2\n'
    training = load_spec(TRAINING + lines + 'server_watts = "600 W"\nserver_load = 1\n').training
    assert training is not None
    assert training.hardware.server_watts == 600.0


def test_spec_imports_no_jax():
    package = Path(spec_package.__file__).parent
    sources = [*package.glob("*.py"), package.parent / "units.py"]
    sources.append(package.parent / "hardware" / "__init__.py")
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not [n for n in names if n.split(".")[0] in {"jax", "jaxlib"}], source
