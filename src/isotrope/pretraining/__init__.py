"""From a text corpus to a small encoder in Hugging Face format: tokenizer, word vectors,
masked-language modelling.
"""

from isotrope.pretraining.run import pretrain

__all__ = ["pretrain"]
