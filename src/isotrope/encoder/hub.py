"""Whether the hub has a model: one question, before the libraries ask for each of its files, again and again."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

from isotrope.encoder.faults import loading_fault

_FILES = ("config.json", "modules.json")
_SECONDS = 30.0  # to wait for an answer


@cache
def check_hub(where: str) -> None:
    """Refuse a hub name that is not on this machine and that the hub does not give. A folder passes.

    A hub that answers with another fault passes too: the libraries ask it again.

    Args:
        where: what `isotrope.encoder.load.locate` gives.

    Raises:
        UserError: there is no such model, or no hub.
    """
    if Path(where).is_dir():
        return
    try:
        if not any(isinstance(try_to_load_from_cache(where, name), str) for name in _FILES):
            get_hf_file_metadata(hf_hub_url(where, _FILES[0]), timeout=_SECONDS)
    except RepositoryNotFoundError as error:
        raise loading_fault(error, where, where) from error
    except HfHubHTTPError:  # such as: too many requests, or this one file is missing
        pass
    except Exception as error:  # each version of the client has its own for a network that is not there
        raise loading_fault(error, where, where) from error
