"""infra/demo"""
