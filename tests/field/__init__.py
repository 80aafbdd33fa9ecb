"""Cases that operators reported against other tools, each from the driver's answers to the rows of the ledger."""
