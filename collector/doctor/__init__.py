"""What is wrong on a node before it is metered: checks with evidence, what each fault costs in truth, and its fix."""
