"""Deployment: converts a train net to a deploy net, verifies it, preprocesses images and reads answers from its
output."""
