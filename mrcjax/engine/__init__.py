"""The only jitted code: links, schedule and numbers in, completion times out."""

from mrcjax.engine.chunk import emulate
from mrcjax.engine.params import Config, Params, Shares, Times

__all__ = ["Config", "Params", "Shares", "Times", "emulate"]
