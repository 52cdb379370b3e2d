"""Embeddings of texts of any number: a row out for each row in, in constant memory.

After a stop, the same call goes on.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import torch
from rich.console import Console
from sentence_transformers import SentenceTransformer

from isotrope.console.plain import plain_console
from isotrope.console.progress import progress as progress_bar
from isotrope.console.progress import watch
from isotrope.console.threads import threads_line, usable_cores
from isotrope.encoder import load
from isotrope.encoder.checksum import located
from isotrope.encoder.embed import Vectors
from isotrope.encoder.fast.dtype import AUTO, DTYPES, choose_dtype, dtype_of, quantise
from isotrope.encoder.prompts import Prompts, used_prompt
from isotrope.encoding.engines import Engine, WorkerModel, encode_by_ray, encode_here
from isotrope.encoding.index import VectorStore
from isotrope.encoding.manifest import IDENTITY, MANIFEST, Identity, Manifest
from isotrope.encoding.model import (
    LoadOptions,
    ModelLike,
    encoder_checksum,
    first_vector,
    model_name,
    open_model,
)
from isotrope.encoding.output import (
    KEYED_FILES,
    KIND,
    Destination,
    PartFiles,
    parse_destination,
)
from isotrope.encoding.rows import TEXT, write_rows
from isotrope.encoding.shards import ShardTask
from isotrope.errors import UserError, check_known, needs
from isotrope.store.files import check_space, clear_drafts, draft_path, file_checksum, writing
from isotrope.store.job import AGAIN, Job
from isotrope.store.remote import lies_within
from isotrope.text import TextLike, TextSource, read_text
from isotrope.text.coverage import STRANGE, unknown_warning
from isotrope.text.files import not_read
from isotrope.types import Encoder

# With fewer texts, all are encoded before it is known which dtype is faster.
MIN_TEXTS_TO_MEASURE = 2000
ENGINES = ("one", "ray")
_BYTES = 4  # of a number


def encode(
    model: ModelLike,
    texts: TextLike,
    output: str | Path | None = None,
    *,
    text_column: str | None = None,
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
) -> Vectors | Path | str:
    """Embed every text, in order, with at most one shard of text and vectors in memory.

    There is one row out for each row in: a blank line or a null is the empty text. The output is

    - None: the result is an array (N, D) in memory;
    - ``OUT.parquet``: columns ``text``, those kept, and ``embedding`` (a fixed-size list of
      float32), a row group for each shard;
    - a folder, or its URL: such Parquet files, ``part-00000.parquet`` …, which pyarrow, pandas,
      DuckDB and datasets open as one table. ``_manifest.json`` says rows, dimension, model and key,
      and has a checksum of each part. It comes last.

    A file appears only whole, in place of an older one; until then, its shards are in
    ``OUT.parquet.parts/``. After a kill, Ctrl-C or a full disk, the same call encodes only the
    shards that are missing, or that are not as they were written.

    Args:
        model: what `isotrope.load` takes, or an object with ``encode(list[str]) -> (n, D)``, which
            is handed ``batch_size`` texts at a time (a sentence-transformers model more, to batch
            itself).
        texts: a list of texts, a `datasets.Dataset`, a pandas DataFrame or Series, files, folders
            or URLs (see `isotrope.text.files.SUPPORTED`). A document has a row for each of its
            blocks.
        output: where to.
        text_column: the column of the texts in tables; see
            `isotrope.text.tables.Columns.choose` for the default.
        batch_size: texts of a forward pass, at most (see `vectors_of`); changes the vectors by
            rounding only.
        shard: rows of a shard.
        pooling: as in `isotrope.load`, and so are the next four.
        normalize: end with unit rows or not.
        device: where the model runs.
        prompt: words before every text; by default the model's default prompt.
        prompt_name: the same, by its name in the model.
        keep: columns of the input to carry beside the vectors, of any type; a string names them
            with commas.
        engine: ``one`` process; or ``ray``, for Ray Data here or on a cluster, whose machines must
            all see the model and the output. The files are those of one process with as many
            threads as a worker has.
        workers: of Ray, which share the threads; by default one for each usable core.
        address: of a Ray cluster, such as ``auto`` or ``ray://host:10001``; default: Ray is started
            on this machine.
        progress: called with the number of rows done so far, of them all.
        console: where a progress bar is shown; None: nowhere.
        restart: begin anew, whatever is there.
        dtype: ``float32``; ``bf16`` or ``int8``, for CPUs that have instructions for them; or
            ``auto``: for 2,000 texts or more, what a first measurement on them finds faster: bf16
            if every cosine is above 0.999, otherwise int8 if 98 % of the first ten hits stay the
            same (see `isotrope.encoder.fast.dtype`). int8 rounds by steps that it measures on the
            first texts.

    Returns:
        The vectors, or where they were written: a path or a URL.

    Raises:
        UserError: anything wrong with model, texts (with file and line), columns, output or encoder
            (with the row); shards that were begun with another model, other texts or other options.
    """
    check_counts(batch_size=batch_size, shard=shard, workers=workers)
    check_known("dtype =", dtype, DTYPES)
    crew = _check_engine(model, engine, workers, address)
    destination = None if output is None else parse_destination(output)
    if destination is not None:
        destination.check(_names(keep), restart)
    source = read_text(texts, text_column=text_column)
    _check_apart(output, source)

    encoding = _Encoding(
        model=model,
        source=source,
        load_options=LoadOptions(pooling, normalize, device, prompt, prompt_name),
        dtype=dtype,
        keep=_names(keep),
        shard=shard,
        batch_size=batch_size,
        crew=crew,
        restart=restart,
        progress=progress or (lambda done: None),
        console=console or plain_console(quiet=True),
    )
    if destination is not None:
        return encoding.write(destination)
    with tempfile.TemporaryDirectory(prefix="isotrope-") as folder:
        vectors = Path(folder, "vectors")
        encoding.write(Destination(str(vectors), vectors, is_temporary=True))
        return VectorStore(vectors).vectors()


def check_counts(**counts: int | None) -> None:
    """UserError if one of them is less than 1."""
    for name, value in counts.items():
        if value is not None and value < 1:
            problem = f"{name} = {value!r} is impossible"
            raise UserError(problem, "choose a whole number from 1", "below-one")


@dataclass(frozen=True, slots=True)
class _Crew:
    """Workers of Ray."""

    workers: int
    address: str | None  # of a cluster


def _check_engine(
    model: ModelLike, engine: str, workers: int | None, address: str | None
) -> _Crew | None:
    """The workers; None: this process encodes. UserError if options contradict each other."""
    check_known("engine =", engine, ENGINES)
    if engine == "one":
        if workers not in (None, 1) or address is not None:
            option = "address" if address is not None else "workers"
            remedy = "workers and an address need --engine ray"
            raise UserError(f"the engine one takes no {option}", remedy, "engine-options")
        return None
    if not isinstance(model, str | Path | SentenceTransformer):
        problem = "the engine ray needs a sentence-transformers model"
        raise UserError(problem, "leave the engine out", "engine-options")
    needs("ray", "ray")
    return _Crew(workers or usable_cores(), address)


def _names(keep: Sequence[str] | str) -> list[str]:
    """The columns to keep, each once."""
    names = keep.split(",") if isinstance(keep, str) else keep
    stripped = [name.strip() for name in names]
    return list(dict.fromkeys(name for name in stripped if name))


def _check_apart(output: str | Path | None, source: TextSource) -> None:
    if output is None:
        return
    for path in source.paths:
        if lies_within(output, path):
            problem = f"output {output} lies in the input {path}"
            raise UserError(problem, "write elsewhere", "output-in-input")


@dataclass(frozen=True)
class _Work:
    """What is encoded, once the texts are read and the model is open."""

    encoder: Encoder
    options: LoadOptions  # that gave the encoder
    sizes: list[int]  # rows of each shard
    dimension: int
    identity: Identity


@dataclass(frozen=True)
class _Encoding:
    """All that the user asked for, checked and opened."""

    model: ModelLike
    source: TextSource
    load_options: LoadOptions
    dtype: str
    keep: list[str]
    shard: int
    batch_size: int
    crew: _Crew | None
    restart: bool
    progress: Callable[[int], None]
    console: Console

    def write(self, destination: Destination) -> Path | str:
        """Encode the texts into the parts of an output -> its path or URL."""
        unread = not_read(self.source.paths)
        if unread:
            self.console.print(unread)

        with _rows_draft(destination.folder.resolve()) as draft:  # "." has no name
            work = self._prepare(destination, draft)
            job = Job(
                destination.folder,
                KIND,
                asdict(work.identity),
                [self.source],
                restart=self.restart,
                names=(IDENTITY, MANIFEST),
                harmless=KEYED_FILES,
                shown=destination.shown,
            )
            with job.held(), destination.tidied():
                return self._finish(job, destination, draft, work)

    def _prepare(self, destination: Destination, draft: Path) -> _Work:
        """Open the model, and write the rows into the draft."""
        dtype_begun = None if self.restart else destination.dtype_begun()  # which goes on
        options = self._options(dtype_begun)
        with watch("reading the texts", self.console):
            encoder = open_model(self.model, options)
            first = first_vector(encoder)  # (1, D)
            sizes = write_rows(draft, self.source, self.keep, self.shard)
        if not sizes:
            raise UserError(f"{self.source.name} has no rows", "give a file with texts", "no-rows")

        first_texts = _first_texts(draft)
        self._warn(encoder, first_texts)
        may_choose = self.dtype == AUTO and dtype_begun is None
        if options.dtype == "int8":
            quantise(encoder, first_texts)
        elif may_choose and sum(sizes) >= MIN_TEXTS_TO_MEASURE:
            encoder = self._with_faster_dtype(encoder, first_texts)

        dtype = _dtype_of(encoder)
        sample = tuple(first_texts) if dtype == "int8" else None
        options = replace(options, dtype=dtype, sample=sample)
        identity = Identity(
            output="folder" if destination.file is None else destination.file.suffix,
            pooling=options.pooling,
            normalize=options.normalize,
            shard=self.shard,
            keep=self.keep or None,
            prompt=_prompt_of(encoder),
            dtype=options.dtype,
            model=encoder_checksum(encoder, first),
            input=file_checksum(draft),
        )
        return _Work(encoder, options, sizes, first.shape[1], identity)

    def _options(self, dtype_begun: str | None) -> LoadOptions:
        dtype = dtype_begun if self.dtype == AUTO else self.dtype
        is_loaded = isinstance(self.model, SentenceTransformer) and dtype == dtype_of(self.model)
        if is_loaded and dtype != "int8":  # its steps were measured on other texts
            dtype = None  # it need not be loaded anew
        return replace(self.load_options, dtype=dtype)

    def _warn(self, encoder: Encoder, first_texts: list[str]) -> None:
        """Tell of prompts that are not used, and of a script that the model does not know."""
        prompts = Prompts(self.load_options.prompt, self.load_options.prompt_name)
        lines = [prompts.note(encoder, model_name(self.model))]
        if isinstance(encoder, SentenceTransformer):
            lines.append(unknown_warning(encoder, first_texts))
        for line in lines:
            if line:
                self.console.print(line)

    def _with_faster_dtype(self, encoder: Encoder, first_texts: list[str]) -> Encoder:
        if not isinstance(encoder, SentenceTransformer):
            return encoder
        with watch("comparing dtypes", self.console):
            if encoder is self.model:  # the user's stays as it is
                encoder = load(located(encoder), frozen=True)
            reason = choose_dtype(encoder, first_texts)
        if reason:
            self.console.print(reason)
        return encoder

    def _finish(self, job: Job, destination: Destination, draft: Path, work: _Work) -> Path | str:
        """Encode the shards that are missing, and publish the output."""
        record = job.result()
        parts = PartFiles(destination, work.identity.key, record)
        missing = parts.missing(work.sizes)
        job.begin()
        if missing:
            self._encode_shards(destination, draft, work, parts, missing)
            if parts.missing(work.sizes):
                problem = f"{destination.shown} lacks parts that were written, or they have changed"
                remedy = "give the same command again, and a folder or URL that all machines see"
                raise UserError(problem, remedy, "parts-are-gone")

        manifest = self._manifest(destination, work, parts)
        is_changed = bool(missing) or record is None
        if is_changed:
            job.finish(manifest.as_record(), announced=())
        return destination.publish(manifest, changed=is_changed)

    def _encode_shards(
        self,
        destination: Destination,
        draft: Path,
        work: _Work,
        parts: PartFiles,
        missing: Sequence[int],
    ) -> None:
        """Encode the missing shards, and add each to the parts, after a look at the room on the
        disk.
        """
        missing_rows = sum(work.sizes[shard] for shard in missing)
        if not destination.url:
            copies = 1 if destination.file is None else 2  # the file is written beside its parts
            needed = _BYTES * work.dimension * missing_rows * copies
            check_space(destination.folder, needed, "the output")

        is_shared = self.crew is not None and self.crew.address is not None
        task = destination.task(draft, work.dimension, self.batch_size, shared=is_shared)
        engine = self._engine(task, work)
        self.console.print(threads_line())

        total = sum(work.sizes)
        done = total - missing_rows
        with progress_bar("encoded", total, self.console) as bar:

            def report(count: int = 0) -> None:
                """``count`` rows of a shard are done that is not written yet."""
                bar.update(done + count)
                self.progress(done + count)

            report()
            with closing(engine(missing, report)) as results:
                for part in results:
                    parts.add(part)
                    done += part.rows
                    report()

    def _engine(self, task: ShardTask, work: _Work) -> Engine:
        if self.crew is None:
            return partial(encode_here, task, work.encoder)
        name = located(self.model)
        if Path(name).is_dir():
            name = str(Path(name).absolute())  # wherever a worker runs
        threads = max(1, torch.get_num_threads() // self.crew.workers)
        options = tuple(asdict(work.options).items())
        model = WorkerModel(name, options, work.identity.model, threads)
        return partial(encode_by_ray, task, model, self.crew.workers, self.crew.address)

    def _manifest(self, destination: Destination, work: _Work, parts: PartFiles) -> Manifest:
        model_folder = None
        if isinstance(self.model, SentenceTransformer) and not destination.is_temporary:
            model_folder = located(self.model)  # so that a search can load it
        return Manifest(
            key=work.identity.key,
            rows=sum(work.sizes),
            dimension=work.dimension,
            model=model_name(self.model),
            shards=len(work.sizes),
            made_from=work.identity,
            model_folder=model_folder,
            parts=parts.checksums_of(len(work.sizes)),
        )


def _first_texts(rows: Path) -> list[str]:
    with pq.ParquetFile(rows) as file:
        batch = next(file.iter_batches(STRANGE, columns=[TEXT]))
        return batch[0].to_pylist()  # type: ignore[no-any-return]


def _dtype_of(encoder: Encoder) -> str | None:
    return dtype_of(encoder) if isinstance(encoder, SentenceTransformer) else None


def _prompt_of(encoder: Encoder) -> str | None:
    return used_prompt(encoder) or None if isinstance(encoder, SentenceTransformer) else None


@contextmanager
def _rows_draft(folder: Path) -> Iterator[Path]:
    """Where the rows are written before the folder is taken: its identity depends on them."""
    rows = folder.with_name(f"{folder.name}.rows")
    with writing(folder.parent, AGAIN):
        clear_drafts(folder.parent, rows.name)
        try:
            yield draft_path(rows)
        finally:
            draft_path(rows).unlink(missing_ok=True)
