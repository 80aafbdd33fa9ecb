"""The ledger's tables and views as numbered SQL files, and what applies them."""
