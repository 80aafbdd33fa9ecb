"""The command `gpumeter`: a module for each subcommand, loaded when it is called."""
