"""collector/watcher"""
