"""Pages of documentation that are made from the code; `make docs` writes them, a test fails on a difference."""
