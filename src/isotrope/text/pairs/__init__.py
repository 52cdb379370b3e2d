"""Pairs: from a document to an anchor and its positive, before any model reads them."""

from typing import TYPE_CHECKING

from isotrope.contract.exports import lazy_exports

if TYPE_CHECKING:
    from isotrope.text.pairs.crops import Crops as Crops
    from isotrope.text.pairs.passages import Passages as Passages
    from isotrope.text.pairs.passages import Queries as Queries
    from isotrope.text.pairs.sentences import Neighbours as Neighbours
    from isotrope.text.pairs.sentences import Sentence as Sentence
    from isotrope.text.pairs.spans import Spans as Spans
    from isotrope.text.pairs.title_body import TitleBody as TitleBody

# Class -> its module; imported when it is first used, so that names do not wait for torch.
COMPONENTS = {
    "Crops": "crops",
    "Passages": "passages",
    "Queries": "passages",
    "Neighbours": "sentences",
    "Sentence": "sentences",
    "Spans": "spans",
    "TitleBody": "title_body",
}
__getattr__, __dir__ = lazy_exports(__name__, COMPONENTS)
