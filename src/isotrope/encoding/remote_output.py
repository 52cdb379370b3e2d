"""Vectors written to a URL: each shard is uploaded when it is whole, and the manifest when all of them are."""

from __future__ import annotations

import xxhash

from isotrope.encoder.embed import Vectors
from isotrope.encoding.kept import Kept
from isotrope.encoding.output import MANIFEST, Manifest, Parts
from isotrope.errors import UserError
from isotrope.store.cache import cache_folder
from isotrope.store.mark import remove
from isotrope.store.remote import fetch_file, remote_names, upload, without_secrets


class RemoteParts(Parts):
    """Parquet parts in a folder behind a URL.

    The state of the work lies in the cache of this machine, so it goes on only here. An object store has no locks:
    nothing keeps two machines from writing to one URL. ``manifest.json`` comes last. A folder that has it is whole.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        super().__init__(cache_folder("outputs", xxhash.xxh3_64_hexdigest(self.url.encode())))
        self.shown = without_secrets(self.url)

    def begin(self, resume: bool) -> None:
        """See what is at the URL. A finished manifest is fetched, so that the same call finds its work done.

        Raises:
            UserError: anything is there that was not begun on this machine, or that shall be begun anew.
        """
        there, state = remote_names(self.url), self.folder / MANIFEST
        if not there:
            state.unlink(missing_ok=True)
        elif resume and MANIFEST in there and not state.exists():
            fetch_file(f"{self.url}/{MANIFEST}", state)
        elif not (resume and state.exists()):
            problem = f"{self.shown} holds files, and their work was not begun here"
            raise UserError(problem, "delete them to start again, or write to another folder")

    def append(self, manifest: Manifest, texts: list[str], vectors: Vectors, kept: Kept) -> None:
        """Write a part, upload it, and delete it here."""
        super().append(manifest, texts, vectors, kept)
        part = self._part(manifest.shards)
        upload(part, f"{self.url}/{part.name}")
        part.unlink()

    def holds(self, manifest: Manifest) -> bool:
        """Whether all shards are there that the manifest counts. An object appears only whole."""
        return {self._part(shard).name for shard in range(manifest.shards)} <= remote_names(self.url)

    def finish(self, manifest: Manifest, kept: Kept) -> str:
        """The URL."""
        upload(self.folder / MANIFEST, f"{self.url}/{MANIFEST}")
        remove(self.folder)
        return self.url


def remote_destination(url: str) -> RemoteParts:
    """What a URL names as an output: a folder.

    Raises:
        UserError: a file, or the web.
    """
    shown = without_secrets(url)
    if url.startswith(("http://", "https://")):
        raise UserError(
            f"output {shown} is a web address, which cannot be written to", "name an object store (s3://, …)"
        )
    if url.endswith((".npy", ".parquet")):
        raise UserError(f"output {shown} is a file: behind a URL only a folder grows safely", "end it in /")
    return RemoteParts(url)
