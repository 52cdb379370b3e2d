"""DCLR's instance weights as its public code applies them: to the logit, not to the exponential.

The paper (Zhou et al., ACL 2022, Eq. 5 and 6; https://aclanthology.org/2022.acl-long.423) removes the candidate:
``scores/instance_weight.py``.
"""

from dataclasses import replace

from isotrope.scores.instance_weight import InstanceWeight
from isotrope.types import Scores


class ZeroLogit(InstanceWeight):
    """The *cosine* of a false negative becomes 0: its term is e⁰, not none. All terms see it. BibTeX: zhou2022dclr."""

    def __call__(self, scores: Scores) -> Scores:
        return replace(scores, cosines=scores.cosines * self.weights(scores))
