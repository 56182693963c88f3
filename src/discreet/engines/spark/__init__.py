"""Spark: frames, tables of a catalogue and folders of Parquet files."""
