"""All families."""

from tests.fuzz import fuzz_control, fuzz_data, fuzz_foreign, fuzz_replies, fuzz_saved, fuzz_tuner, fuzz_wire

FAMILIES = (
    *fuzz_wire.FAMILIES,
    *fuzz_replies.FAMILIES,
    *fuzz_control.FAMILIES,
    *fuzz_data.FAMILIES,
    *fuzz_saved.FAMILIES,
    *fuzz_foreign.FAMILIES,
    *fuzz_tuner.FAMILIES,
)
