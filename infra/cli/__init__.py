"""infra/cli"""
