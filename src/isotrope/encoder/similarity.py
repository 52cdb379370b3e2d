"""How a model's vectors are compared: by their cosine, unless the model says otherwise."""

from typing import Any, Literal

from sentence_transformers import SentenceTransformer

Similarity = Literal["cosine", "dot", "euclidean", "manhattan"]


def model_similarity(encoder: Any) -> Similarity:
    """The similarity that a model was made for (``similarity_fn_name``); others get the cosine."""
    if isinstance(encoder, SentenceTransformer):
        return encoder.similarity_fn_name  # type: ignore[no-any-return]
    return "cosine"
