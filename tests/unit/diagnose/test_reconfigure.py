"""Other configurations and the way back, on a server that keeps them in a file."""

import json
from pathlib import Path

import pytest

from inferometer.base.errors import PeerError
from inferometer.diagnose.reconfigure import Reconfiguration


class FiledServer:
    """Models and their configurations in a folder, so that another process sees them too."""

    def __init__(self, folder: Path, refusal: str = "") -> None:
        self.folder = folder
        self.refusal = refusal

    def config(self, name, version):
        return json.loads((self.folder / name).read_text())

    def load_model(self, name, config=None):
        if config is not None and config.get("count", 0) > 4:
            raise PeerError(self.refusal or "out of memory")
        (self.folder / name).write_text(json.dumps(config))


@pytest.fixture
def server(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(json.dumps({"name": name, "count": 1}))
    return FiledServer(tmp_path)


def counts(server):
    return server.config("a", "")["count"], server.config("b", "")["count"]


def test_all_is_as_it_was_afterwards(server):
    with Reconfiguration(server) as change:
        change.change("a", {"name": "a", "count": 2})
        change.change("b", {"name": "b", "count": 3})
        change.change("a", {"name": "a", "count": 4})
        assert counts(server) == (4, 3)
        assert change.changed == {"a": {"name": "a", "count": 4}, "b": {"name": "b", "count": 3}}
        assert change.is_restored is False
    assert counts(server) == (1, 1)
    assert change.is_restored is True


def test_also_after_an_error_in_the_middle(server):
    def interrupted():
        with Reconfiguration(server) as change:
            change.change("a", {"name": "a", "count": 2})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert counts(server) == (1, 1)


def test_what_is_to_be_kept_stays(server):
    with Reconfiguration(server) as change:
        change.change("a", {"name": "a", "count": 2})
        change.keep = True
    assert counts(server) == (2, 1)
    assert change.is_restored is False


def test_a_refused_configuration_leaves_the_one_before(server):
    with Reconfiguration(server) as change:
        change.change("a", {"name": "a", "count": 2})
        with pytest.raises(PeerError, match="'a' could not be loaded: out of memory"):
            change.change("a", {"name": "a", "count": 5})
        assert counts(server) == (2, 1)
    assert counts(server) == (1, 1)


def test_a_server_that_allows_no_changes_is_explained(server):
    server.refusal = "explicit model load / unload is not allowed if polling is enabled"
    with Reconfiguration(server) as change, pytest.raises(PeerError) as refused:
        change.change("a", {"name": "a", "count": 5})
    assert "--model-control-mode explicit" in refused.value.remedy
    assert counts(server) == (1, 1)


def test_nothing_changed_is_nothing_to_restore(server):
    with Reconfiguration(server) as change:
        pass
    assert change.is_restored is None
