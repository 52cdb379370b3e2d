"""Small real parts: a two-layer BERT with its own tokenizer, text, pairs; the data folder where
there is one.
"""

import gc
import logging
import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from helpers.commands import Said, Shell, in_process
from helpers.paths import DATA
from helpers.small_bert import build_bert, with_prompts
from helpers.words import WORDS, sentences

pytest_plugins = ["helpers.web"]  # a web server on this machine

os.environ["HF_HUB_OFFLINE"] = "1"  # no test may reach for a network
os.environ["TOKENIZERS_PARALLELISM"] = "false"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background of a script
    signal.signal(signal.SIGINT, signal.default_int_handler)
# small models: threads cost more than they give, and tests run beside each other
torch.set_num_threads(1)


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
