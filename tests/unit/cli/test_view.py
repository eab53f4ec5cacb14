"""`inferometer view`: which files it writes, and what it refuses."""

import pytest

from inferometer.base.answer_file import write
from inferometer.cli.main import main
from inferometer.report.saved import to_html, to_markdown
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
def test_without_options_the_page_lies_beside_the_file(report, tmp_path, capsys):
    write(report, tmp_path / "saved.json")
    assert main(["view", str(tmp_path / "saved.json")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'saved.html'}\n"
    assert (tmp_path / "saved.html").read_text() == to_html(report)


def test_a_file_of_another_name_is_never_written_over(tmp_path):
    write(RESULT, tmp_path / "run.html")
    assert main(["view", str(tmp_path / "run.html")]) == 0
    assert (tmp_path / "run.html.html").read_text() == to_html(RESULT)


def test_only_what_is_asked_for_is_written(saved, capsys):
    page, text = saved.with_name("page.html"), saved.with_name("text.md")
    assert main(["view", str(saved), "--markdown", str(text)]) == 0
    assert text.read_text() == to_markdown(RESULT)
    assert sorted(path.name for path in saved.parent.iterdir()) == ["run.json", "text.md"]
    assert main(["view", str(saved), "--html", str(page), "--markdown", str(text)]) == 0
    assert capsys.readouterr().out == f"{text}\n{page}\n{text}\n"


def test_a_dash_writes_markdown_to_the_terminal(saved, capsys):
    assert main(["view", str(saved), "--markdown", "-"]) == 0
    assert capsys.readouterr().out == to_markdown(RESULT)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["missing.json"], "'missing.json' cannot be read: No such file or directory"),
        (["run.json", "--html", "run.json"], "'run.json' is the result itself"),
        (["run.json", "--markdown", "no/where.md"], "the folder 'no' does not exist"),
        (["text.json"], "'text.json' is not JSON"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(words, complaint, saved, monkeypatch, capsys):
    monkeypatch.chdir(saved.parent)
    saved.with_name("text.json").write_text("hello")
    assert main(["view", *words]) == 2
    assert complaint in capsys.readouterr().err


def test_a_picture_without_a_browser_names_the_package_and_writes_nothing(saved, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(saved.parent))
    assert main(["view", str(saved), "--png", str(saved.with_name("it.png"))]) == 70
    assert "install the package chromium" in capsys.readouterr().err
    assert [path.name for path in saved.parent.iterdir()] == ["run.json"]
