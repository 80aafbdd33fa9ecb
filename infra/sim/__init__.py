"""infra/sim"""
