import pytest

from inferometer.dialects.perf_analyzer import main


def test_an_interrupt_before_our_handler_is_installed_ends_cleanly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(words: list[str]) -> int:
        raise KeyboardInterrupt  # from Python's own handler, without the signal number

    monkeypatch.setattr(main, "_run", interrupted)
    assert main.main([]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("Interrupt signal (2) received.\n", "Received exit signal.\n")
