"""Pages to PDF and drawings to PNG, all in one browser: starting it is the slow part."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from inferometer.base.errors import LocalError
from inferometer.base.writing import Outputs, write_file, writing
from inferometer.report.chromium import Tab, browsing, pdf, picture


@dataclass(frozen=True, slots=True)
class _Job:
    page: str
    target: Path
    width: int = 0  # of a picture; 0 prints a PDF
    height: int = 0


@dataclass(slots=True)
class ReportFiles:
    """Collects what is to be printed; `print_all` does it, and says what kept it from doing so.

    Files that cannot be written are in `outputs`, which says so when it is settled.
    """

    written: list[Path] = field(default_factory=list)
    outputs: Outputs = field(default_factory=Outputs)
    _jobs: list[_Job] = field(default_factory=list)

    def text(self, path: Path, content: str) -> None:
        """A file that needs no browser."""
        self.outputs.attempt(path, lambda: self._write(path, content))

    def _write(self, path: Path, content: str | bytes) -> None:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)
        self.written.append(path)

    def pdf(self, path: Path, page: str) -> None:
        self._jobs.append(_Job(page, path))

    def png(self, path: Path, drawing: str, *, width: int, height: int) -> None:
        page = (
            f"<!doctype html><meta charset='utf-8'><style>*{{margin:0}}svg{{display:block}}</style>{drawing}"
        )
        self._jobs.append(_Job(page, path, width, height))

    def print_all(self) -> str | None:
        """None when all went well; without a browser, drawings stay SVG and reports stay pages."""
        jobs, self._jobs = self._jobs, []
        if not jobs:
            return None
        try:
            with tempfile.TemporaryDirectory(prefix="inferometer-files-") as folder, browsing() as tab:
                for number, job in enumerate(jobs):
                    page = Path(folder) / f"{number}.html"
                    write_file(page, job.page)
                    self._print(tab, page, job)
        except LocalError as error:
            for job in jobs:
                if job.width and job.target not in self.written:
                    self.text(job.target.with_suffix(".svg"), job.page[job.page.index("<svg") :])
            return f"{error.message}; pictures are SVG and reports are HTML instead ({error.remedy})"
        return None

    def _print(self, tab: Tab, page: Path, job: _Job) -> None:
        content = picture(tab, page, width=job.width, height=job.height) if job.width else pdf(tab, page)
        self.outputs.attempt(job.target, lambda: self._write(job.target, content))
