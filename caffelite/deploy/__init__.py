"""Nets in use: a deploy net made from a train net and proven, pictures made its input, and answers read from its
output."""
