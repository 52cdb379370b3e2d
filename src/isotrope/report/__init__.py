"""Results in, text, SVG and HTML out: the report of a run. It reads files, and knows nothing of training."""

from isotrope.report.page import report

__all__ = ["report"]
