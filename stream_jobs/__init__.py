"""stream_jobs"""
