"""Passes for overflow windows of loss scaling: placement, checks in parts, rescaling and watching."""
