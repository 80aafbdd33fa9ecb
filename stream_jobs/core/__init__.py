"""stream_jobs/core"""
