"""All families."""

import fuzz_control
import fuzz_data
import fuzz_replies
import fuzz_saved
import fuzz_tuner
import fuzz_wire

FAMILIES = (
    *fuzz_wire.FAMILIES,
    *fuzz_replies.FAMILIES,
    *fuzz_control.FAMILIES,
    *fuzz_data.FAMILIES,
    *fuzz_saved.FAMILIES,
    *fuzz_tuner.FAMILIES,
)
