"""Embeddings of texts of any number: a row out for each row in, in constant memory, going on after
a kill.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
import xxhash
from rich.console import Console
from sentence_transformers import SentenceTransformer

from isotrope.console.plain import plain_console
from isotrope.console.progress import progress as progress_bar
from isotrope.console.progress import watch
from isotrope.console.threads import threads_line, usable_cores
from isotrope.encoder import load
from isotrope.encoder.checksum import located
from isotrope.encoder.fast.half import AUTO, DTYPES, choose_dtype, dtype_of
from isotrope.encoder.prompts import Prompts, used_prompt
from isotrope.encoding import tasks
from isotrope.encoding.output import IDENTITY, KIND, MANIFEST, destination
from isotrope.encoding.rows import TEXT, write_rows
from isotrope.encoding.tasks import Engine, WorkerModel, encoder_checksum, first_vector, shown_name
from isotrope.errors import UserError, check_known, needs
from isotrope.store.files import check_space, clear_drafts, draft_path, file_checksum, writing
from isotrope.store.job import AGAIN, Job
from isotrope.store.remote import lies_within
from isotrope.text import read_text
from isotrope.text.coverage import STRANGE, unknown_warning
from isotrope.text.files import not_read
from isotrope.types import Encoder

FEWEST = 2000  # texts: fewer are done before it is known which dtype is faster
ENGINES = ("one", "processes", "ray")


def encode(
    model: str | Path | Encoder,
    texts: Any,
    output: str | Path | None = None,
    *,
    text: str | None = None,
    batch_size: int = 64,
    shard: int = 50_000,
    pooling: str | None = None,
    normalize: bool | None = None,
    device: str | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    keep: Sequence[str] | str = (),
    engine: str = "one",
    workers: int | None = None,
    address: str | None = None,
    progress: Callable[[int], None] | None = None,
    console: Console | None = None,
    restart: bool = False,
    dtype: str = AUTO,
) -> Any:
    """Embed every text, in order, with at most one shard of text and vectors in memory.

    There is one row out for each row in: a blank line or a null is the empty sentence. The output
    is

    - None: the result is an array (N, D) in memory;
    - ``OUT.npy``: one float32 array (N, D); with ``keep``, the kept columns of the same rows in
      ``OUT.kept.parquet``;
    - ``OUT.parquet``: columns ``text``, those kept, and ``embedding`` (a fixed-size list of
      float32), a row group a shard;
    - a folder, or its URL: such Parquet files, ``part-00000.parquet`` …, which pyarrow, pandas,
      DuckDB and datasets open as one table. ``_manifest.json`` says rows, dimension, model and key.
      It comes last.

    A file appears only whole, in place of an older one; until then, its shards are in
    ``OUT.npy.parts/``. After a kill, Ctrl-C or a full disk, the same call encodes only the shards
    that are missing.

    Args:
        model: what `isotrope.load` takes, or an object with ``encode(list[str]) -> (n, D)``, which
            is handed ``batch_size`` sentences at a time (a sentence-transformers model more, to
            batch itself).
        texts: a list of texts, a `datasets.Dataset`, a pandas DataFrame or Series, files, folders
            or URLs (see `isotrope.text.files.SUPPORTED`). A document has a row for each of its
            blocks.
        output: where to.
        text: the column of the sentences in tables; see `isotrope.text.tables.Columns.choose` for
            the default.
        batch_size: sentences of a forward pass, at most (see `vectors_of`); changes the vectors by
            rounding only.
        shard: rows of a shard.
        pooling: as in `isotrope.load`, and so are the next four.
        normalize: end with unit rows or not.
        device: where the model runs.
        prompt: words before every text; by default the model's default prompt.
        prompt_name: the same, by its name in the model.
        keep: columns of the input to carry beside the vectors, of any type; a string names them
            with commas.
        engine: ``one`` process; several ``processes`` on this machine; ``ray``, for Ray Data here
            or on a cluster, whose machines must all see the model and the output. The files are
            those of one process with as many threads as a worker has.
        workers: processes or actors, which share the threads; by default one a usable core.
        address: of a Ray cluster, such as ``auto`` or ``ray://host:10001``; default: Ray is started
            on this machine.
        progress: called with the number of rows done so far, of them all.
        console: where a progress bar is shown; None: nowhere.
        restart: begin anew, whatever is there.
        dtype: ``float32``; ``bf16``, for CPUs that have it; or ``auto``: for 2,000 texts or more,
            bf16 where a first measurement on them finds it faster, and every cosine above 0.999
            (see `isotrope.encoder.fast.half`).

    Returns:
        The vectors, or where they were written: a path or a URL.

    Raises:
        UserError: anything wrong with model, texts (with file and line), columns, output or encoder
            (with the row); shards that were begun with another model, other texts or other options.
    """
    if output is None:
        options = {
            name: value
            for name, value in locals().items()
            if name not in ("model", "texts", "output")
        }
        with tempfile.TemporaryDirectory(prefix="isotrope-") as folder:
            return np.load(encode(model, texts, Path(folder, "vectors.npy"), **options))
    check_counts(batch_size=batch_size, shard=shard, workers=workers)
    check_known("dtype =", dtype, DTYPES)
    several = _several(
        engine, workers, address, loadable=isinstance(model, str | Path | SentenceTransformer)
    )
    place = destination(output)
    kept = list(
        dict.fromkeys(
            filter(None, map(str.strip, keep.split(",") if isinstance(keep, str) else keep))
        )
    )
    place.check(kept, restart)
    given = read_text(texts, text_column=text)
    if inside := next((path for path in given.paths if lies_within(output, path)), None):
        raise UserError(f"output {output} lies in the input {inside}", "write elsewhere")
    shown = console or plain_console(quiet=True)
    if left := not_read(given.paths):
        shown.print(left)
    options = {"pooling": pooling, "normalize": normalize, "device": device, "prompt": prompt}
    # a job goes on as it was begun
    begun = place.begun("dtype") if dtype == AUTO and not restart else None
    wanted = begun if dtype == AUTO else dtype
    own = dtype_of(model) if isinstance(model, SentenceTransformer) else None
    options |= {"prompt_name": prompt_name, "dtype": None if wanted == own else wanted}
    with _draft(place.folder.resolve()) as draft:  # "." has no name
        with watch("reading the texts", shown):
            encoder = opened(model, options)
            first = first_vector(encoder)  # (1, D)
            sizes = write_rows(draft, given, kept, shard)
        if not sizes:
            raise UserError(f"{given.name} has no rows", "give a file with sentences")
        if note := Prompts(prompt, prompt_name).note(encoder, shown_name(model)):
            shown.print(note)
        first_texts = next(pq.ParquetFile(draft).iter_batches(STRANGE, columns=[TEXT]))[
            0
        ].to_pylist()
        if isinstance(encoder, SentenceTransformer) and (
            warning := unknown_warning(encoder, first_texts)
        ):
            shown.print(warning)
        if (
            dtype == AUTO
            and not begun
            and sum(sizes) >= FEWEST
            and isinstance(encoder, SentenceTransformer)
        ):
            with watch("comparing bf16 with float32", shown):
                if encoder is model:  # the given one stays as it is
                    encoder = load(located(model), frozen=True)
                choose_dtype(encoder, first_texts)
        options["dtype"] = dtype_of(encoder) if isinstance(encoder, SentenceTransformer) else None
        checksum, dimension = encoder_checksum(encoder, first), first.shape[1]
        made_from = {
            "output": "folder" if place.whole is None else place.whole.suffix,
            "pooling": pooling,
            "normalize": normalize,
            "shard": shard,
            "keep": kept or None,
            "prompt": used_prompt(encoder) or None
            if isinstance(encoder, SentenceTransformer)
            else None,
            "dtype": options["dtype"],
            "model": checksum,
            "input": file_checksum(draft),
        }
        names = (IDENTITY, MANIFEST)
        job = Job(
            place.folder, KIND, made_from, [given], restart=restart, names=names, shown=place.shown
        )
        with job.held(), place.tidied():
            todo = place.missing(sizes)
            job.begin()
            if todo:
                if not place.url:  # one file of all parts is written beside them
                    copies = 2 if place.whole else 1
                    check_space(
                        place.folder,
                        4 * sum(sizes[n] for n in todo) * dimension * copies,
                        "the output",
                    )
                task = place.task(draft, dimension, batch_size, shared=address is not None)
                work: Engine = partial(tasks.by_itself, task, encoder)
                if several:
                    del encoder, work  # each worker has its own
                    name = located(model)
                    # wherever a worker runs
                    name = str(Path(name).absolute()) if Path(name).is_dir() else name
                    threads = max(1, torch.get_num_threads() // several)
                    made = WorkerModel(name, tuple(options.items()), checksum, threads)
                    many = (
                        partial(tasks.by_ray, address=address)
                        if engine == "ray"
                        else tasks.by_processes
                    )
                    work = partial(many, task, made, several)
                shown.print(threads_line())
                _go_on(work, sizes, todo, progress, shown)
            record = {
                "key": xxhash.xxh3_128_hexdigest(json.dumps(made_from, sort_keys=True).encode()),
                "rows": sum(sizes),
                "dimension": dimension,
                "model": shown_name(model),
                "shards": len(sizes),
                "made_from": made_from,
            }
            if todo or job.result() is None:
                if place.missing(sizes):
                    remedy = "give a folder or URL that all machines see"
                    raise UserError(
                        f"{place.shown} lacks parts that the workers have written", remedy
                    )
                job.finish(record, announced=())
            return place.finish(record)


def check_counts(**counts: int | None) -> None:
    """Refuse what is less than 1."""
    for name, value in counts.items():
        if value is not None and value < 1:
            raise UserError(f"{name} = {value!r} is impossible", "choose a whole number from 1")


def _several(engine: str, workers: int | None, address: str | None, loadable: bool) -> int:
    """The number of workers, by default one a usable core; 0: this process encodes. Refuse what
    does not fit.
    """
    check_known("engine =", engine, ENGINES)
    reasons = {
        "takes no address": address is not None and engine != "ray",
        "takes no workers": workers not in (None, 1) and engine == "one",
        "needs a sentence-transformers model": engine != "one" and not loadable,
    }
    if wrong := [why for why, holds in reasons.items() if holds]:
        remedy = "workers need --engine processes or ray, and an address --engine ray"
        raise UserError(
            f"the engine {engine} {wrong[0]}", remedy if loadable else "leave the engine out"
        )
    if engine == "ray":
        needs("ray", "ray")
    return 0 if engine == "one" else workers or usable_cores()


def opened(model: str | Path | Encoder, options: dict[str, Any]) -> Encoder:
    """A model by its name, with options of `isotrope.load`. An object without options is taken as
    it is.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(model, str | Path) or (isinstance(model, SentenceTransformer) and given):
        return load(located(model), **given, frozen=True)  # type: ignore[no-any-return]
    if given:
        name, value = next(iter(given.items()))
        raise UserError(f"{name} = {value!r} needs a sentence-transformers model", "leave it out")
    return model


def _go_on(
    work: Engine,
    sizes: Sequence[int],
    todo: Sequence[int],
    progress: Callable[[int], None] | None,
    shown: Console,
) -> None:
    done = sum(sizes) - sum(sizes[number] for number in todo)
    with progress_bar("encoded", sum(sizes), shown) as bar:

        def report(more: int = 0) -> None:
            bar.update(done + more)
            if progress:
                progress(done + more)

        report()
        with closing(work(todo, report)) as results:  # type: ignore[type-var]
            for count in results:
                done += count
                report()


@contextmanager
def _draft(folder: Path) -> Iterator[Path]:
    """Where the rows are written before the folder is ours: they are part of what decides whether
    it is.
    """
    rows = folder.with_name(f"{folder.name}.rows")
    with writing(folder.parent, AGAIN):
        clear_drafts(folder.parent, rows.name)
        try:
            yield draft_path(rows)
        finally:
            draft_path(rows).unlink(missing_ok=True)
