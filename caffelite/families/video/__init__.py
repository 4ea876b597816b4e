"""Videos: files, cameras, folders of frames."""
