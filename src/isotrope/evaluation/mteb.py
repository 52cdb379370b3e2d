"""Any encoder of ours for mteb: `mteb.evaluate(MtebEncoder(encoder, "me/mine"), tasks)`. Needs the
extra `mteb`.

What `isotrope.load` gives is a SentenceTransformer, which mteb takes as it is. This is for other
encoders, and for a model whose prompt for documents is called "passage", a name that mteb does not
know. Mind that mteb's SICK-R has 9,927 pairs where the papers' has 4,927, and that its STS scores
of STS12 … STS16 are not the papers' "all".
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.errors import UserError
from isotrope.types import Encoder

try:
    from mteb.models import ModelMeta
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.types import PromptType
except ImportError as error:
    raise UserError(
        "mteb is not installed", "pip install 'isotrope[mteb]'", code="missing-extra"
    ) from error


class MtebEncoder(AbsEncoder):
    """An encoder with `encode(list[str])` behind mteb's protocol
    (https://github.com/embeddings-benchmark/mteb).

    `name` is what mteb files the results under, "organisation/model". Queries and documents of a
    search are read with the encoder's prompts for them, all other texts with its default prompt.
    """

    def __init__(self, encoder: Encoder, name: str) -> None:
        self.encoder = encoder
        self.mteb_model_meta = ModelMeta.create_empty({"name": name, "revision": "unversioned"})

    def encode(
        self,
        inputs: Iterable[Mapping[str, Sequence[str]]],
        *,
        prompt_type: PromptType | None = None,
        **_: Any,
    ) -> Vectors:
        """Batches of texts → vectors (n, D); UserError if the encoder's output is not (n, D) or
        not finite.
        """
        role = None if prompt_type is None else prompt_type.value
        return vectors_of(
            self.encoder, [text for batch in inputs for text in batch["text"]], role=role
        )
