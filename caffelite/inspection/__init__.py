"""What can be said of a net or a solver without running it: pure functions of messages, graphs and plans. Nothing here
prints."""
