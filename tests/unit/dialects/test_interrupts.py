import pytest

from inferometer.dialects.perf_analyzer import main


def test_an_interrupt_before_our_own_handler_is_there_ends_like_any_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(words: list[str]) -> int:
        raise KeyboardInterrupt  # of Python's own handler, which does not say the number

    monkeypatch.setattr(main, "_run", interrupted)
    assert main.main([]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("Interrupt signal (2) received.\n", "Received exit signal.\n")
