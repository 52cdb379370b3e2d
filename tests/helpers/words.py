"""A vocabulary of some hundred words, and sentences that are drawn from it."""

import torch

VOCABULARY = (
    "a the of in on to and is was are with for by from it that river city army king queen music song band film "
    "book school team game player season year day night war battle church village house station road train ship "
    "island mountain sea lake bird fish tree flower plant cell star planet light water fire stone gold iron law "
    "court party vote state nation school teacher student doctor child woman man large small old new first last "
    "long short red green blue white black wrote played won lost built found made said went came born died began "
    "ended"
)
WORDS = VOCABULARY.split()


def sentences(count: int, seed: int = 0) -> list[str]:
    """Distinct sentences of 5 to 14 words, drawn so that a small model can learn to tell them
    apart.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn: dict[str, None] = {}
    while len(drawn) < count:
        length = int(torch.randint(5, 15, (), generator=generator))
        picks = torch.randint(len(WORDS), (length,), generator=generator)
        drawn[" ".join(WORDS[i] for i in picks.tolist())] = None
    return list(drawn)
