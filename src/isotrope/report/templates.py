"""The templates of this room: pages, cards, and code for readers."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def templates(**options: Any) -> Environment:
    """The templates, with further options of jinja's environment."""
    return Environment(
        loader=PackageLoader("isotrope.report", ""),
        undefined=StrictUndefined,
        trim_blocks=True,
        **options,
    )
