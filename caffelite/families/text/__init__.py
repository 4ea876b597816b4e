"""Text lines: connectionist temporal classification."""
