"""Losses as cells."""

# ruff: noqa: F403

from graphls.nn.losses.base import *
from graphls.nn.losses.classes import *
from graphls.nn.losses.distances import *
from graphls.nn.losses.elements import *
