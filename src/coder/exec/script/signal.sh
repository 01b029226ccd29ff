# Ends a run. Its processes may be in namespaces into which this terminal cannot look, so the run's own watcher ends
# them. The watcher may miss a signal while it is busy, so it is signalled until the run has ended.
cancel() {
  look
  again=100
  while [ "$state" = running ] && [ "$again" -gt 0 ]; do
    poke USR1
    nap 0.1
    again=$((again - 1))
    look
  done
}

# Ends what a supervisor that was killed has left behind.
end_lost() {
  again=100
  while poke USR1 && [ "$again" -gt 0 ]; do
    nap 0.1
    again=$((again - 1))
  done
  cd "$run" && end "$id" "$grace" lost
  read -r pid start <main && lives "$pid" "$start" && kill -s KILL -- "-$pid" "$pid"
}

poke() { read -r pid start rest <"$run/watcher" && lives "$pid" "$start" && kill -s "$1" "$pid"; }
