"""Rails without a common spine."""

from mrcjax.spec.network.dgx import NodeRails


class RailOnly(NodeRails, frozen=True, kw_only=True, tag="rail_only"):
    """A Clos per rail and nothing between rails but the nodes (arXiv:2307.12169)."""
