"""Encoders: load, pool, embed, save."""

from isotrope.encoder.export import save
from isotrope.encoder.load import load

__all__ = ["load", "save"]
