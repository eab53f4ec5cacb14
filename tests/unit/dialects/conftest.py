"""Makes the helpers of these folders importable."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.append(str(HERE / "model_analyzer"))  # analyzer
sys.path.append(str(HERE.parent / "tune"))  # scripted
