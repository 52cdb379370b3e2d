"""Terms: Scores → one summand of the loss."""

from typing import TYPE_CHECKING

from isotrope.contract.exports import lazy_exports

if TYPE_CHECKING:
    from isotrope.terms.alignment import Alignment as Alignment
    from isotrope.terms.alignment import Uniformity as Uniformity
    from isotrope.terms.arc import Arc as Arc
    from isotrope.terms.consistency import Consistency as Consistency
    from isotrope.terms.ct import CT as CT
    from isotrope.terms.diffcse import DiffCSE as DiffCSE
    from isotrope.terms.group import Group as Group
    from isotrope.terms.group import PeerLists as PeerLists
    from isotrope.terms.infocse import InfoCSE as InfoCSE
    from isotrope.terms.infonce import InfoNCE as InfoNCE
    from isotrope.terms.listmle import ListMLE as ListMLE
    from isotrope.terms.listnet import ListNet as ListNet
    from isotrope.terms.masked_words import MaskedWords as MaskedWords
    from isotrope.terms.multi_positive_inside import MultiPositiveInside as MultiPositiveInside
    from isotrope.terms.mutual_information import MutualInformation as MutualInformation
    from isotrope.terms.nt_xent import NTXent as NTXent
    from isotrope.terms.paser import PaSeR as PaSeR
    from isotrope.terms.queue_kl import Distillation as Distillation
    from isotrope.terms.queue_kl import QueueKL as QueueKL
    from isotrope.terms.self_guided import SelfGuided as SelfGuided
    from isotrope.terms.self_guided import Translated as Translated
    from isotrope.terms.triplet import MarginBand as MarginBand
    from isotrope.terms.triplet import Triplet as Triplet
    from isotrope.terms.tsdae import TSDAE as TSDAE
    from isotrope.terms.vascl import VaSCL as VaSCL
    from isotrope.terms.vector_match import VectorMatch as VectorMatch

# Class -> its module; imported when it is first used, so that names do not wait for torch.
COMPONENTS = {
    "Alignment": "alignment",
    "Uniformity": "alignment",
    "Arc": "arc",
    "Consistency": "consistency",
    "CT": "ct",
    "DiffCSE": "diffcse",
    "Group": "group",
    "PeerLists": "group",
    "InfoCSE": "infocse",
    "InfoNCE": "infonce",
    "ListMLE": "listmle",
    "ListNet": "listnet",
    "MaskedWords": "masked_words",
    "MultiPositiveInside": "multi_positive_inside",
    "MutualInformation": "mutual_information",
    "NTXent": "nt_xent",
    "PaSeR": "paser",
    "QueueKL": "queue_kl",
    "Distillation": "queue_kl",
    "SelfGuided": "self_guided",
    "Translated": "self_guided",
    "Triplet": "triplet",
    "MarginBand": "triplet",
    "TSDAE": "tsdae",
    "VaSCL": "vascl",
    "VectorMatch": "vector_match",
}
__getattr__, __dir__ = lazy_exports(__name__, COMPONENTS)
