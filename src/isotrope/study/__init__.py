"""Studies: rows × seeds, each a run; what they differ in, tested; what a paper claims of them,
answered.
"""

from isotrope.study.study import Study, study

__all__ = ["Study", "study"]
