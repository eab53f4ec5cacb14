"""`inferometer view`: written files and refusals."""

import pytest

from inferometer.base.answer_file import to_json, write
from inferometer.cli.main import main
from inferometer.report.saved import to_csv, to_html, to_junit, to_markdown
from inferometer.store.store import open_store
from tests.support.reports import sample_comparison, sample_diagnosis, sample_result

RESULT = sample_result()


@pytest.fixture
def saved(tmp_path):
    write(RESULT, tmp_path / "run.json")
    return tmp_path / "run.json"


@pytest.mark.parametrize(
    "report",
    [sample_result(), sample_diagnosis(), sample_comparison()],
    ids=["measure", "diagnose", "compare"],
)
def test_without_options_the_page_is_next_to_the_file(report, tmp_path, capsys):
    write(report, tmp_path / "saved.json")
    assert main(["view", str(tmp_path / "saved.json")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'saved.html'}\n"
    assert (tmp_path / "saved.html").read_text() == to_html(report)


def test_the_page_never_overwrites_the_result(tmp_path):
    write(RESULT, tmp_path / "run.html")
    assert main(["view", str(tmp_path / "run.html")]) == 0
    assert (tmp_path / "run.html.html").read_text() == to_html(RESULT)


def test_only_requested_files_are_written(saved, capsys):
    page, text = saved.with_name("page.html"), saved.with_name("text.md")
    assert main(["view", str(saved), "--markdown", str(text)]) == 0
    assert text.read_text() == to_markdown(RESULT)
    assert sorted(path.name for path in saved.parent.iterdir()) == ["run.json", "text.md"]
    assert main(["view", str(saved), "--html", str(page), "--markdown", str(text)]) == 0
    assert capsys.readouterr().out == f"{text}\n{page}\n{text}\n"


FORMS = {
    "--markdown": to_markdown,
    "--html": to_html,
    "--json": to_json,
    "--csv": to_csv,
    "-f": to_csv,
    "--junit": to_junit,
}


@pytest.mark.parametrize("place", ["-", "/dev/stdout"])
@pytest.mark.parametrize("option", FORMS)
def test_standard_output_holds_the_document_and_nothing_else(option, place, saved, capsys, monkeypatch):
    monkeypatch.chdir(saved.parent)
    others = () if option == "--html" else ("--html", "beside.html")
    assert main(["view", str(saved), option, place, *others]) == 0
    assert capsys.readouterr().out == FORMS[option](RESULT)
    assert not (saved.parent / "-").exists()


def test_quiet_prints_no_names(saved, capsys):
    assert main(["view", str(saved), "-q"]) == 0
    assert capsys.readouterr().out == ""
    assert saved.with_suffix(".html").exists()


def test_last_is_the_newest_stored_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INFEROMETER_STORE", "store")
    open_store(None).add(sample_result(), ("measure",))
    assert main(["view", "last"]) == 0
    assert capsys.readouterr().out == "run-last.html\n"
    assert (tmp_path / "run-last.html").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["missing.json"], "'missing.json' cannot be read: No such file or directory"),
        (["run.json", "--html", "run.json"], "'run.json' is the result itself"),
        (["run.json", "--markdown", "no/where.md"], "the folder 'no' does not exist"),
        (["text.json"], "'text.json' is not JSON"),
        (
            ["run.json", "--json", "-", "--html", "/dev/stdout"],
            "--json and --html would all write to standard",
        ),
        (["run.json", "--markdown", "a.x", "--csv", "a.x"], "two reports would be written to"),
        (["why.json", "--junit", "-"], "why.json has no test cases"),
    ],
)
def test_view_refuses_mistakes_in_one_sentence(words, complaint, saved, monkeypatch, capsys):
    monkeypatch.chdir(saved.parent)
    saved.with_name("text.json").write_text("hello")
    write(sample_diagnosis(), saved.with_name("why.json"))
    assert main(["view", *words]) == 2
    assert complaint in capsys.readouterr().err


def test_a_picture_without_a_browser_is_refused(saved, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(saved.parent))
    assert main(["view", str(saved), "--png", str(saved.with_name("it.png"))]) == 70
    assert "install the package chromium" in capsys.readouterr().err
    assert [path.name for path in saved.parent.iterdir()] == ["run.json"]
