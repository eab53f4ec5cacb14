"""The journal: everything written can be read by anyone, and only one process may write."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from inferometer.base.errors import LocalError, UsageError
from inferometer.tune import journal as journals
from inferometer.tune.search.search import Proposal
from inferometer.tune.trial import ClientLoad, Status
from inferometer.tune.variant import VariantNames
from tests.unit.tune.scripted import W, answer, server


def proposal(concurrency: int = 4) -> Proposal:
    names = VariantNames()
    variant = names.variant("W", W, {"max_batch_size": 4})
    return Proposal(((variant, ClientLoad(concurrency=concurrency)),))


def test_trials_and_variants_survive_a_round_trip(tmp_path):
    path = tmp_path / "journal.sqlite"
    asked = proposal()
    trial = answer(asked, server, 0)
    with journals.opened(path) as journal:
        journal.add(trial, asked.variants, study="W")
        journal.remember("seed", 7)
    with journals.opened(path) as journal:
        assert journal.trials("W") == (trial,)
        assert journal.variants() == asked.variants
        assert journal.find(asked.key, with_failed=False) == trial
        assert journal.find(proposal(8).key, with_failed=False) is None
        assert journal.recall("seed") == 7
        assert journal.next_number() == 1


def test_a_failed_trial_is_found_only_on_request(tmp_path):
    asked = proposal()
    failed = asked.trial(0, Status.FAILED, "no memory")
    with journals.opened(tmp_path / "journal.sqlite") as journal:
        journal.add(failed, asked.variants, study="W")
        assert journal.find(asked.key, with_failed=True) == failed
        assert journal.find(asked.key, with_failed=False) is None


def test_a_second_tuner_is_rejected_with_the_process_id_of_the_first(tmp_path):
    path = tmp_path / "journal.sqlite"
    with (
        journals.opened(path),
        pytest.raises(UsageError, match=f"in use by another tuner .process {os.getpid()}"),
        journals.opened(path),
    ):
        pass
    with journals.opened(path):
        pass  # released


def test_a_journal_can_be_read_during_a_search(tmp_path):
    path = tmp_path / "journal.sqlite"
    asked = proposal()
    with journals.opened(path) as journal:
        journal.add(answer(asked, server, 0), asked.variants, study="W")
        with journals.read(path) as reader:
            assert len(reader.trials()) == 1


def test_a_journal_survives_kill_9(tmp_path):
    path = tmp_path / "journal.sqlite"
    script = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from pathlib import Path
from tests.unit.tune.scripted import answer, server
from tests.unit.tune.test_journal import proposal
from inferometer.tune import journal as journals
with journals.opened(Path({str(path)!r})) as journal:
    asked = proposal()
    journal.add(answer(asked, server, 0), asked.variants, study="W")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    with journals.opened(path) as journal:
        assert len(journal.trials()) == 1


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to be read as one" * 20])
def test_a_file_that_is_not_a_journal_is_named(tmp_path, content):
    path = tmp_path / "journal.sqlite"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"journal\.sqlite"), journals.opened(path):
        pass


def test_a_missing_journal_is_reported(tmp_path):
    with pytest.raises(UsageError, match="does not exist"), journals.read(tmp_path / "none.sqlite"):
        pass


def test_a_full_disk_is_reported_with_the_journals_name(tmp_path):
    with journals.opened(tmp_path / "journal") as journal:
        (pages,) = journal._db.execute("PRAGMA page_count").fetchone()
        journal._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(LocalError, match=r"cannot write the journal .*/journal': .*full"):
            journal.remember("much", "x" * 100_000)


def test_an_impossible_journal_is_rejected_with_a_message(tmp_path):
    for path, words in ((tmp_path, "is a folder"), (tmp_path / "nowhere" / "journal", "does not exist")):
        with pytest.raises(UsageError, match=words), journals.opened(path):
            pass


def test_a_damaged_journal_can_be_removed_but_not_one_in_use(tmp_path):
    path = tmp_path / "journal"
    path.write_text("not a database")
    journals.remove(path)
    assert not path.exists()
    journals.remove(path)
    with journals.opened(path), pytest.raises(UsageError, match="in use"):
        journals.remove(path)


def test_an_unreadable_file_leaves_no_connection_open(tmp_path, monkeypatch):
    opened = []
    connect = sqlite3.connect

    def recorded(*words, **how):
        opened.append(connect(*words, **how))
        return opened[-1]

    monkeypatch.setattr("inferometer.tune.journal.sqlite3.connect", recorded)
    path = tmp_path / "journal.sqlite"
    path.write_bytes(b"not a database" * 100)
    for use in (journals.opened, journals.read):
        with pytest.raises(UsageError, match=r"journal\.sqlite"), use(path):
            pass
    assert len(opened) == 2
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("select 1")


ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select i as document, 'W' as study from n"


@pytest.mark.parametrize(
    "changes",
    [
        f"drop table trials; create view trials as {ENDLESS}",
        "create trigger t after insert on facts begin delete from trials; end",
        "create table other (a)",
    ],
)
@pytest.mark.parametrize("use", [journals.opened, journals.read])
def test_a_file_with_other_tables_is_not_a_journal(use, changes, tmp_path):
    """It may come with a cloned repository, and reading a view can take forever."""
    path = tmp_path / "journal.sqlite"
    with journals.opened(path):
        pass
    with sqlite3.connect(path) as connection:
        connection.executescript(changes)
    connection.close()
    with pytest.raises(UsageError, match="its tables are not those of a journal"), use(path):
        pass


def test_the_lock_does_not_follow_links(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "journal.sqlite.lock").symlink_to(victim)
    with (
        pytest.raises(UsageError, match=r"cannot write the journal .*: Too many levels of symbolic links"),
        journals.opened(tmp_path / "journal.sqlite"),
    ):
        pass
    assert victim.read_text() == "precious"
