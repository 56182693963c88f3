"""`discreet local`: collections in which every person adds the noise. One file per command."""

from discreet.cli.local.options import local

# in the order of `discreet local --help`
from discreet.cli.local import plan  # isort: skip
from discreet.cli.local import collection  # isort: skip
from discreet.cli.local import encode  # isort: skip
from discreet.cli.local import decode  # isort: skip
from discreet.cli.local import simulate  # isort: skip
from discreet.cli.local import days  # isort: skip
from discreet.cli.local import vectors  # isort: skip
from discreet.cli.local import shuffle  # isort: skip

__all__ = ["collection", "days", "decode", "encode", "local", "plan", "shuffle", "simulate", "vectors"]
