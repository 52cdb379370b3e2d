"""IS-BERT (Zhang et al., EMNLP 2020, Sec. 3). https://aclanthology.org/2020.emnlp-main.124"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotrope.contract.context import BuildContext, StatefulComponent
from isotrope.contract.distributed import (
    average_over_ranks,
    averaged,
    gather_rows,
    mean_of_all,
    process_rank,
)
from isotrope.contract.features import token_table
from isotrope.terms._words import own_states
from isotrope.types import Count, Counts, NonNegative, Scores


def mutual_information(
    products: Tensor,  # (T, N) of local windows with sentences
    is_own: Tensor,  # (T, N) bool: the window is of that sentence
) -> tuple[Tensor, Tensor]:
    """The two parts of the Jensen-Shannon bound, to be averaged and added: softplus(-x) of own,
    softplus(x) of others -> (T,), (rest,).
    """
    own_losses = F.softplus(-products[is_own])
    other_losses = F.softplus(products[~is_own])
    return own_losses, other_losses


@dataclass(eq=False, repr=False)
class MutualInformation(StatefulComponent):
    """A sentence has more in common with its own windows of words than with others'. BibTeX:
    zhang2020unsupervised.

    Convolutions over the token states of the first pass give the windows, of ``widths`` tokens and
    ``channels`` each; their mean is the sentence. They are thrown away after training.
    """

    stage = "terms"
    one_view = True
    token_states = True
    widths: Counts = (1, 3, 5)
    channels: Count = 256
    weight: NonNegative = 1.0

    def begin(self, context: BuildContext) -> None:
        token_table(context.needed("student"))  # it has states of tokens
        self.width = int(context.needed("width"))
        self.windows = nn.ModuleList()
        for width in self.widths:
            window = nn.Conv1d(self.width, self.channels, width, padding="same")
            self.windows.append(window)
        averaged(self)

    def forward(self, scores: Scores) -> Tensor:
        reading = scores.views.readings[0]
        mask = reading.read["attention_mask"].bool()
        states = own_states(reading, self.width, "mutual_information")  # (n, L, H)
        windows = self.window_vectors(states, mask)  # (n, L, C)

        lengths = mask.sum(dim=1, keepdim=True)
        sums = (windows * mask[..., None]).sum(dim=1)
        sentences = gather_rows(sums / lengths)  # (N, C) of all processes
        if sentences.requires_grad:  # each process compares them with its own windows
            sentences.register_hook(average_over_ranks)  # type: ignore[no-untyped-call]

        products = windows[mask] @ sentences.T  # (T, N)
        is_own = _is_own(mask, len(sentences))
        own_losses, other_losses = mutual_information(products, is_own)
        loss = mean_of_all(own_losses) + mean_of_all(other_losses)
        return self.weight * loss

    def window_vectors(self, states: Tensor, mask: Tensor) -> Tensor:
        """Token states (n, L, H) -> (n, L, C): a vector of the words around each token."""
        weight = next(self.parameters())
        states = states * mask[..., None]  # 0 where there is padding
        signal = states.to(weight.dtype).mT  # (n, H, L)
        channels = [window(signal) for window in self.windows]
        return torch.cat(channels, dim=1).mT


def _is_own(mask: Tensor, count: int) -> Tensor:
    """Whether each window of this process (T,) is of each of ``count`` sentences: (T, N) bool."""
    sentences = torch.arange(count, device=mask.device)
    first = process_rank() * len(mask)
    own_sentences = sentences[first : first + len(mask)]  # (n,)
    windows_per_sentence = mask.sum(dim=1)
    sentence_of_window = own_sentences.repeat_interleave(windows_per_sentence)  # (T,)
    return sentence_of_window.unsqueeze(-1) == sentences
