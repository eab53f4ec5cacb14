"""Writing that cannot be done is said with the file's name."""

import pytest

from inferometer.base.errors import LocalError
from inferometer.base.writing import writing


def test_what_stands_in_the_way_is_named(tmp_path):
    path = tmp_path / "missing" / "file"
    with pytest.raises(LocalError, match=r"missing/file' could not be written: No such file"), writing(path):
        path.write_text("x")
