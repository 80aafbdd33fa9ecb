"""infra/broker"""
