# Shared by the scripts of this folder; sourced, never run. Works with bash 3.2.
# shellcheck shell=bash

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${DRYSTONE_CACHE:-$HOME/.cache/drystone}/flink
jars=$cache/jars-$(cksum <"$here/pom.xml" | cut -d' ' -f1)
run=$cache/run # process ids, logs, scratch of the cluster; one cluster a user
services="jobmanager taskmanager jobserver workers"

rest_port=8081 job_port=8099 artifact_port=8098 pool_port=50000

say() { printf '%s\n' "flink: $*" >&2; }

# Exit status of what is not there: callers may skip with the message as the reason.
missing() {
  say "$*"
  exit 69
}

# The interpreter that has the project installed: the first on PATH, else the tree's own .venv.
find_python() {
  local bin
  for bin in "$(dirname "$(command -v python || echo /nowhere/python)")" "$root/.venv/bin"; do
    if [ -x "$bin/python" ] && (cd / && "$bin/python" -c '
import importlib.util, sys
sys.exit(not all(map(importlib.util.find_spec, ("apache_beam", "pipelines"))))') 2>/dev/null; then
      python=$bin/python
      return
    fi
  done
  missing "no environment with drystone installed: python on PATH is $(command -v python || echo absent)," \
    "and $root/.venv is not it; run 'make demo' or put its bin folder first on PATH"
}

require_java() {
  command -v java >/dev/null || missing "java is missing: install a JDK 11 or 17 (Debian: apt-get install default-jre-headless)"
}

# When a process began, so that an id that the system gave to another program is never killed.
began() {
  if [ -r "/proc/$1/stat" ]; then
    sed 's/.*) //' "/proc/$1/stat" | cut -d' ' -f20
  else
    ps -o lstart= -p "$1"
  fi 2>/dev/null || true
}

# Print the process id of a service; fail when it does not run.
pid_of() {
  local pid start
  { read -r pid && read -r start; } 2>/dev/null <"$run/$1.pid" || return 1
  [ -n "$start" ] && [ "$(began "$pid")" = "$start" ] || return 1
  ! grep -q '^State:[[:space:]]*Z' "/proc/$pid/status" 2>/dev/null || return 1
  echo "$pid"
}

# Start a service in a process group of its own, and remember it.
start() {
  local name=$1 pid
  shift
  set -m
  (cd "$run" && exec nohup "$@" </dev/null >>"$run/$name.log" 2>&1) &
  pid=$!
  set +m
  printf '%s\n%s\n' "$pid" "$(began "$pid")" >"$run/$name.pid"
}

# Send a signal to a service and to what it started.
signal() {
  local pid
  pid=$(pid_of "$2") && kill "-$1" -- "-$pid" 2>/dev/null
}

opens=()
for package in lang net io nio lang.reflect text time util util.concurrent util.concurrent.atomic util.concurrent.locks; do
  opens+=("--add-opens=java.base/java.$package=ALL-UNNAMED")
done
opens+=("--add-opens=java.base/sun.nio.ch=ALL-UNNAMED")

start_jobmanager() {
  start jobmanager java "${opens[@]}" -Xmx1g -cp "$jars/*" \
    org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint \
    --configDir "$run/conf" --executionMode cluster -D "io.tmp.dirs=$run/tmp"
}

# Without Flink's own shell scripts, every memory size has to be given.
start_taskmanager() {
  start taskmanager java "${opens[@]}" -Xmx1g -XX:MaxDirectMemorySize=1g -cp "$jars/*" \
    org.apache.flink.runtime.taskexecutor.TaskManagerRunner --configDir "$run/conf" \
    -D "io.tmp.dirs=$run/tmp" -D taskmanager.cpu.cores=2 \
    -D taskmanager.memory.task.heap.size=640mb -D taskmanager.memory.framework.heap.size=128mb \
    -D taskmanager.memory.framework.off-heap.size=128mb -D taskmanager.memory.task.off-heap.size=128mb \
    -D taskmanager.memory.network.min=256mb -D taskmanager.memory.network.max=256mb \
    -D taskmanager.memory.managed.size=512mb -D taskmanager.memory.jvm-metaspace.size=256mb \
    -D taskmanager.memory.jvm-overhead.min=192mb -D taskmanager.memory.jvm-overhead.max=192mb
}

start_jobserver() {
  start jobserver java "${opens[@]}" -Xmx1g -cp "$jars/*" \
    org.apache.beam.runners.flink.FlinkJobServerDriver \
    "--flink-master=localhost:$rest_port" "--flink-conf-dir=$run/conf" --job-host=localhost \
    "--job-port=$job_port" "--artifact-port=$artifact_port" --expansion-port=0 \
    "--artifacts-dir=$run/artifacts"
}

start_workers() {
  start workers "$python" "$here/worker_pool.py" "$pool_port"
}

listening() { (exec 3<>"/dev/tcp/localhost/$1") 2>/dev/null; }

# Number of task slots that the job manager knows; 0 while it does not answer.
slots() {
  "$python" - "http://localhost:$rest_port/v1/overview" <<'PY' 2>/dev/null || echo 0
import json, sys, urllib.request
print(json.load(urllib.request.urlopen(sys.argv[1], timeout=5))["slots-total"])
PY
}

ready() {
  case $1 in
  jobmanager) listening $rest_port ;;
  taskmanager) [ "$(slots)" -ge 2 ] ;;
  jobserver) listening $job_port && listening $artifact_port ;;
  workers) listening $pool_port ;;
  esac
}
