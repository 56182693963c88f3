"""DuckDB: files, frames and DuckDB databases."""
