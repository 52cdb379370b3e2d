"""Embeddings of files of any size: a row out for each row in, in constant memory, resumable after a kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from rich.console import Console
from sentence_transformers import SentenceTransformer

from isotrope.console.plain import plain_console
from isotrope.console.progress import Bar, watch
from isotrope.console.progress import progress as progress_bar
from isotrope.console.threads import threads_line
from isotrope.encoder.embed import Vectors
from isotrope.encoder.prompts import Prompts, used_prompt
from isotrope.encoding.engines import Engine, Shard, WorkerModel, Workers, check_engine, one_process, shards_in_order
from isotrope.encoding.inputs import encoder_checksum, every_text, first_vector, opened, shown_name
from isotrope.encoding.kept import Kept, check_names
from isotrope.encoding.output import MANIFEST, Manifest, OneArray, Parts, beside, destination, held
from isotrope.encoding.processes import Processes
from isotrope.encoding.remote_output import remote_destination
from isotrope.errors import UserError
from isotrope.store.mark import remove
from isotrope.store.remote import is_url, lies_within
from isotrope.text.files import TextFile, content_checksum, find_sources, not_read, passed_over
from isotrope.types import Encoder

SHARD_CHARACTERS = 1 << 26  # a shard ends early here, so that rows of whole books fit into memory too


def encode(
    model: str | Path | Encoder,
    files: Sequence[str | Path] | str | Path,
    output: str | Path,
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
    jobs: int | None = None,
    address: str | None = None,
    progress: Callable[[int], None] | None = None,
    console: Console | None = None,
    resume: bool = True,
) -> Path | str:
    """Embed every row of the files, in order, with at most one shard of text and vectors in memory.

    There is one row out for each row in: nothing is cleaned away. A blank line or a null is the empty sentence. The
    encoder embeds it like any other. Equal sentences of a shard are encoded once. The output is

    - ``OUT.npy``: one float32 array (N, D); with ``keep``, the kept columns of the same rows in ``OUT.kept.parquet``;
    - ``OUT.parquet``: columns ``text``, those kept, and ``embedding`` (a fixed-size list of float32), a row group a
      shard;
    - a folder: such Parquet files, ``part-00000.parquet`` …, and ``manifest.json`` with rows, dimension, model and key.
      It may be a URL: see `isotrope.encoding.remote_output.RemoteParts`.

    A file appears only whole, in place of an older one; until then its shards lie in ``OUT.npy.parts/`` or
    ``OUT.parquet.parts/``. After a kill, Ctrl-C or a full disk the same call goes on after the last whole shard.

    Args:
        model: what `isotrope.load` takes, or an object with ``encode(list[str]) -> (n, D)``, which is handed
            ``batch_size`` sentences at a time (a sentence-transformers model more, to batch itself).
        files: files or folders (see `isotrope.text.files.SUPPORTED`); a document has a row for each of its blocks.
        output: where to; its folder must exist.
        text: the column of the sentences in tables; see `isotrope.text.readers.Columns.choose` for the default.
        batch_size: sentences of a forward pass, at most (see `vectors_of`); changes the vectors by rounding alone.
        shard: rows between two points from which a stopped call can go on.
        pooling: as in `isotrope.load`, and so are the next four; they need the name of a model.
        normalize: end with unit rows or not.
        device: where the model runs.
        prompt: words before every text; by default the model's default prompt.
        prompt_name: the same, by its name in the model.
        keep: columns of the input to carry beside the vectors, of any type; a string names them with commas.
        engine: ``one`` process; several ``processes`` on this machine; actors of ``ray``, here or on a cluster. Workers
            encode whole shards, and the output is that of one process with as many threads as a worker has.
        jobs: workers, which share the threads; by default one a usable core.
        address: of a Ray cluster, such as ``auto`` or ``ray://host:10001``; default: Ray is started on this machine.
        progress: called with the number of rows done so far, of them all.
        console: where a progress bar is shown; None: nowhere.
        resume: False begins anew, whatever is there.

    Returns:
        The path of the output, or its URL.

    Raises:
        UserError: anything wrong with model, files (with file and line), columns, output or encoder (with the row);
            shards that were begun with another model, other files or other options.
    """
    for name, value in (("batch_size", batch_size), ("shard", shard)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UserError(f"{name} = {value!r} is impossible", "choose a whole number from 1")
    jobs = check_engine(engine, jobs, address, str(model) if isinstance(model, Path) else model)
    store = remote_destination(str(output)) if is_url(output) else destination(output)
    shown = console or plain_console(quiet=True)
    files = [files] if isinstance(files, str | Path) else files
    sources = _sources(files, output)
    if left := not_read(passed_over(files)):
        shown.print(left)
    options = {"normalize": normalize, "device": device, "prompt": prompt, "prompt_name": prompt_name}
    kept = _kept(keep, sources, text, store)
    with watch("checking the files", shown):
        encoder = opened(model, {"pooling": pooling, **options})
        first = first_vector(encoder)  # (1, D)
        made_from = {
            "output": Path(output).suffix if store.whole else "folder",
            "text": text,
            "pooling": pooling,
            "normalize": normalize,
            "shard": shard,
            "keep": list(kept.names) or None,
            "prompt": used_prompt(encoder) or None if isinstance(encoder, SentenceTransformer) else None,
            "model": encoder_checksum(encoder, first),
            "files": content_checksum(sources, ""),
        }
    name = shown_name(model)
    if note := Prompts(prompt, prompt_name).note(encoder, name):
        shown.print(note)
    with held(store):
        store.begin(resume)
        manifest = Manifest.read(store.folder) if resume else None
        if manifest is None:
            with watch("counting the rows", shown):  # all of the input is checked before the long work
                count = sum(1 for _ in every_text(sources, text))
            if not count:
                raise UserError(f"{sources[0].path} has a header but no rows", "give a file with sentences")
            (store.folder / MANIFEST).unlink(missing_ok=True)
            store.clear()
            kept.make()
            manifest = Manifest(count, first.shape[1], name, made_from)
            manifest.save(store.folder)
        manifest.check(store.shown, made_from)
        if not store.holds(manifest):
            raise UserError(f"{store.shown} lacks some of its shards", f"delete {store.shown} to start again")
        shown.print(threads_line())
        with progress_bar("encoded", manifest.rows, shown) as bar:
            report = _reports(bar, progress)
            work: Engine
            if engine == "one":
                work = partial(one_process, encoder, batch_size, report)
            else:
                del encoder  # each worker has its own
                loading = {"pooling": pooling, **options}
                threads = max(1, torch.get_num_threads() // jobs)
                place = str(Path(model).absolute()) if Path(model).is_dir() else str(model)  # type: ignore[arg-type]
                made = WorkerModel(place, loading, str(made_from["model"]), batch_size, threads)
                work = partial(_several, engine, made, jobs, address)
            _go_on(manifest, store, kept, every_text(sources, text), work, report)
        if content_checksum(sources, "") != made_from["files"]:
            raise _changed(store.shown)
        written = store.finish(manifest, kept)
        if store.whole:
            store.clear()  # the first shard first: where it is gone, the whole file is there
            remove(store.folder)
        return written


def _sources(files: Sequence[str | Path], output: str | Path) -> list[TextFile]:
    for path in files:
        if lies_within(output, path):  # it would be read as input by the next call, or replace its input
            raise UserError(f"output {output} lies in the input {path}", "write elsewhere")
    return find_sources(files)


def _kept(keep: Sequence[str] | str, sources: list[TextFile], text: str | None, store: Parts | OneArray) -> Kept:
    names = [name.strip() for name in keep.split(",")] if isinstance(keep, str) else list(keep)
    check_names(names, parquet=isinstance(store, Parts))
    if isinstance(store, OneArray) and not names and (older := beside(store.whole)).exists():
        raise UserError(f"{older} would lie beside an array of other rows", "move it away, or keep its columns again")
    return Kept(names, sources, text, store.folder)


def _reports(bar: Bar, progress: Callable[[int], None] | None) -> Callable[[int], None]:
    def report(done: int) -> None:
        bar.update(done)
        if progress:
            progress(done)

    return report


def _several(
    engine: str, model: WorkerModel, jobs: int, address: str | None, shards: Iterator[Shard]
) -> Iterator[tuple[Shard, Vectors]]:
    workers: Workers
    if engine == "ray":
        from isotrope.encoding.ray import Actors

        workers = Actors(model, jobs, address)
    else:
        workers = Processes(model)
    return shards_in_order(workers, jobs, shards)


def _go_on(
    manifest: Manifest,
    store: Parts | OneArray,
    kept: Kept,
    texts: Iterator[str],
    work: Engine,
    report: Callable[[int], None],
) -> None:
    """Shard after shard, from the first that is not yet whole."""
    report(manifest.done)
    if manifest.done == manifest.rows:
        return
    with closing(work(_shards(islice(texts, manifest.done, None), manifest))) as results:  # type: ignore[type-var]
        for shard, vectors in results:  # (n, D)
            if manifest.done + len(shard.sentences) > manifest.rows:
                raise _changed(store.shown)
            if vectors.shape[1] != manifest.dimension:
                problem = f"encode() gave {vectors.shape[1]} dimensions after {manifest.dimension}"
                raise UserError(problem, "return vectors of one dimension")
            store.append(manifest, shard.sentences, vectors, kept)
            manifest.done += len(shard.sentences)
            manifest.shards += 1
            manifest.save(store.folder)  # from here on the shard counts
            report(manifest.done)
    if manifest.done < manifest.rows:
        raise _changed(store.shown)


def _changed(folder: str) -> UserError:
    return UserError("the files have changed while they were read", f"delete {folder} to start again")


def _shards(texts: Iterator[str], manifest: Manifest) -> Iterator[Shard]:
    """The shards that are missing."""
    start = manifest.done
    while sentences := _next_shard(texts, manifest.made_from["shard"]):
        yield Shard(start, sentences)
        start += len(sentences)


def _next_shard(texts: Iterator[str], size: int) -> list[str]:
    shard: list[str] = []
    characters = 0
    while len(shard) < size and characters < SHARD_CHARACTERS and (text := next(texts, None)) is not None:
        shard.append(text)
        characters += len(text)
    return shard
