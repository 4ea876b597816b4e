"""The planner's tests use the random nets of the net's tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "net"))
