"""The encoders of the papers' tables, by name: what a new method is compared with.

A name is a source, then any steps behind it, each after a ``+`` as the papers' tables write them:

    MODEL                                    a folder, a hub name, isotrope/tiny: as ``isotrope.load``
    MODEL@first_last                         with another pooling: cls, mean, first_last (embeddings + last layer),
                                             first_layer_last (first layer + last), last_two, cls_head
    glove.6B.300d.txt                        averaged word vectors: a text file of GloVe or word2vec (.gz, .xz, .zst)
    glove.6B.300d.txt+sif:freq=counts.txt    smooth inverse frequency (word vectors alone)
    MODEL@first_last+whitening:k=256         BERT-whitening to 256 dimensions
    MODEL@first_last+flow:epochs=2           BERT-flow
    glove.6B.300d.txt+sif+whitening:k=100    one after the other

Options follow a ``:`` as key=value, with commas. Every step is fitted on sentences, and a name says which: those that
the evaluation gives it (``fit=target``, the default), or a corpus (``fit=wiki.txt.xz,sentences=20000``: its first
20,000). A file whose name holds a ``+`` or a comma cannot be given as an option.
"""

from isotrope.baselines.names import check, open_encoder

__all__ = ["check", "open_encoder"]
