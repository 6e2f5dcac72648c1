"""Street scenes, segmented."""
