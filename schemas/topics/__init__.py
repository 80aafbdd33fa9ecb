"""The topic catalogue: one YAML file per topic, read by catalogue.py."""
