"""Optimizers."""

# ruff: noqa: F403

from graphls.nn.optimizers.adaptive import *
from graphls.nn.optimizers.base import *
from graphls.nn.optimizers.descent import *
from graphls.nn.optimizers.layerwise import *
from graphls.nn.optimizers.muon import *
