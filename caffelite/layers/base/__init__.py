"""What every layer type builds on: the base class, its facets, and what compilation decides; no layer type."""
