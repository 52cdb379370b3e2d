"""Small real parts: a two-layer BERT with its own tokenizer, text, pairs; the data folder where
there is one.
"""

import gc
import logging
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

pytest_plugins = ["web"]  # a web server on this machine

os.environ["HF_HUB_OFFLINE"] = "1"  # no test may reach for a network
os.environ["TOKENIZERS_PARALLELISM"] = "false"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background of a script
    signal.signal(signal.SIGINT, signal.default_int_handler)
# small models: threads cost more than they give, and tests run beside each other
torch.set_num_threads(1)


ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("ISOTROPE_DATA") or ROOT.parent / "shared" / "data")
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


def build_bert(folder: Path, *, hidden: int = 32, layers: int = 2, dropout: float = 0.1) -> Path:
    """A random BERT in Hugging Face's format: encoder and WordPiece tokenizer."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(c) for c in range(97, 123)]
    pieces = [
        *special,
        *letters,
        *[f"##{c}" for c in letters],
        *sorted({w for w in WORDS if len(w) > 1}),
    ]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = dict(
        zip(
            ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True
        )
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=64, **names
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=2 * hidden,
        max_position_embeddings=64,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True, scope="module")
def _frozen() -> None:
    """What is imported by now is no garbage: no collection looks at it again, which takes half a
    second each time.
    """
    gc.freeze()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the small random BERT."""
    return build_bert(tmp_path_factory.mktemp("tiny-bert"))


def with_prompts(
    model: Path, folder: Path, *, include_prompt: bool = True, default: str | None = None
) -> Path:
    """A copy of a model that wants words before its texts, as e5 does: a query's, a passage's."""
    from sentence_transformers import SentenceTransformer

    own = SentenceTransformer(str(model), device="cpu")
    own.prompts, own.default_prompt_name = (
        {"query": "song of ", "passage": "a short book on "},
        default,
    )
    own.set_pooling_include_prompt(include_prompt)
    own.save_pretrained(str(folder))
    return folder


@pytest.fixture(scope="session")
def prompted_model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small BERT with prompts, whose own words are left out of the mean."""
    return with_prompts(
        tiny_model, tmp_path_factory.mktemp("prompted") / "model", include_prompt=False
    )


@pytest.fixture(scope="session")
def corpus_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 sentences, one a line."""
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n".join(sentences(600)) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def pairs_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 pairs whose score is their word overlap, with noise: labels that an encoder can follow."""
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    generator = torch.Generator().manual_seed(1)
    lines = []
    for text in sentences(120, seed=1):
        words = text.split()
        changed = int(torch.randint(len(words) + 1, (), generator=generator))
        other = [
            WORDS[int(torch.randint(len(WORDS), (), generator=generator))] if i < changed else w
            for i, w in enumerate(words)
        ]
        lines.append(f"{text}\t{' '.join(other)}\t{5 * (1 - changed / len(words)):.2f}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def in_process(command: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of a command, which runs in this process."""
    from isotrope.cli.main import main

    monkeypatch.setattr(sys, "argv", ["isotrope", *command])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def check_line(err: str, expected: str) -> None:
    """One line, in which the parts between … occur in this order."""
    assert err.count("\n") == 1, err
    assert err.startswith("isotrope: "), err
    assert re.search(".*".join(re.escape(part.strip()) for part in expected.split("…")), err), err


class Said(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    def is_mistake(self, expected: str) -> None:
        assert self.code == 2, self.err
        check_line(self.err, expected)


Shell = Callable[..., Said]


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    """Runs a command, given as words. It quiets other libraries for its own process, which here is
    the tests'.
    """
    from transformers.utils.logging import disable_progress_bar, enable_progress_bar

    monkeypatch.delenv("ISOTROPE_DATA", raising=False)
    disable_progress_bar()  # what TRANSFORMERS_VERBOSITY does, for a library not yet imported
    before = dict(os.environ)

    def typed(*words: object) -> Said:
        capfd.readouterr()
        code = in_process([str(word) for word in words], monkeypatch)
        return Said(code, *capfd.readouterr())

    with warnings.catch_warnings():
        yield typed
    logging.disable(logging.NOTSET)
    enable_progress_bar()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The tests' caches are theirs, and only tests that ask for the data find it: small models need
    no test sets.
    """
    os.environ.pop("ISOTROPE_DATA", None)
    os.environ["ISOTROPE_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with the real data; tests that need it are skipped where it is missing."""
    if not (DATA / "senteval").is_dir():
        pytest.skip(f"real data not found ({DATA.name}): set ISOTROPE_DATA")
    return DATA


@pytest.fixture(scope="session")
def golden(data: Path) -> Path:
    """The folder with the golden numbers."""
    folder = data.parent / "golden"
    if not folder.is_dir():
        pytest.skip("golden numbers not found beside the data folder")
    return folder
