"""Flink SQL embedded in a JVM of this process: tumbling windows per pod, checkpoints every 5 s, sums to a topic.

Usage: python -m infra.bench.peers.flink BROKER SAMPLES LIBJVM CLASSPATH CHECKPOINTS. Parallelism 1. CPU counts from
where the job was submitted: planning is start-up, the compiling of its loops is not. Checkpoints are files: in memory,
the default, one of over 5 MiB fails the job. It is not restarted, since a figure with a restart in it is none.
"""

import sys
from glob import glob
from pathlib import Path

import jpype

from infra.bench.peers.watch import Watch

_OPEN = (
    "java.util", "java.lang", "java.nio", "java.time", "java.net", "java.io", "java.util.concurrent",
    "java.util.concurrent.atomic", "sun.nio.ch",
)  # fmt: skip
_KAFKA = "'connector'='kafka','properties.bootstrap.servers'='{broker}','format'='json',"
_SAMPLES = (
    "CREATE TABLE samples (ts BIGINT, node STRING, gpu INT, pod STRING, sm_util INT, rt AS TO_TIMESTAMP_LTZ(ts, 3), "
    "WATERMARK FOR rt AS rt - INTERVAL '10' SECOND) WITH (" + _KAFKA + "'topic'='samples',"
    "'properties.group.id'='flink','scan.startup.mode'='earliest-offset','scan.bounded.mode'='latest-offset')"
)
_SUMS = (
    "CREATE TABLE sums (w BIGINT, pod STRING, n BIGINT, s BIGINT) WITH (" + _KAFKA + "'topic'='sums',"
    "'sink.delivery-guarantee'='at-least-once')"
)
_JOB = (
    "INSERT INTO sums SELECT UNIX_TIMESTAMP(CAST(window_start AS STRING)) * 1000, pod, COUNT(*), "
    "SUM(CAST(sm_util AS BIGINT)) FROM TABLE(TUMBLE(TABLE samples, DESCRIPTOR(rt), INTERVAL '60' SECOND)) "
    "GROUP BY window_start, window_end, pod"
)
SETTINGS = {
    "parallelism.default": "1",
    "execution.checkpointing.interval": "5 s",
    "table.exec.source.idle-timeout": "5 s",
    "table.local-time-zone": "UTC",
    "restart-strategy.type": "none",
}


def main(bootstrap: str, samples: int, library: str, classpath: str, checkpoints: str) -> None:
    """Runs to the end of the topic; exit code 1 with all causes on stderr where the job fails."""
    watch = Watch("flink", samples)
    jpype.startJVM(
        library,
        "-Xmx1200m",
        "--enable-native-access=ALL-UNNAMED",
        "-Duser.timezone=UTC",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        *[f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPEN],
        classpath=[jar for place in classpath.split(":") for jar in glob(place)],  # noqa: PTH207 a class path's own form
    )
    configuration = jpype.JClass("org.apache.flink.configuration.Configuration")()
    for name, value in (SETTINGS | {"execution.checkpointing.dir": Path(checkpoints).absolute().as_uri()}).items():
        configuration.setString(name, value)
    settings = jpype.JClass("org.apache.flink.table.api.EnvironmentSettings").newInstance().inStreamingMode()
    environment = jpype.JClass("org.apache.flink.table.api.TableEnvironment")
    tables = environment.create(settings.withConfiguration(configuration).build())
    for statement in (_SAMPLES, _SUMS):
        tables.executeSql(statement.format(broker=bootstrap))
    job = tables.executeSql(_JOB)
    watch.begin()
    try:
        job.await_()
    except jpype.JException as error:
        sys.exit(error.stacktrace())
    watch.end()
    watch.report()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
