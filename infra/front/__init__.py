"""infra/front"""
