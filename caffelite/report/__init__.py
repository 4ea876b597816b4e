"""What a test tells: scores with their uncertainty, and for classifiers who is taken for whom, how sure, and where it
is most wrong."""
