# Signals for a run. Its processes may be in namespaces into which this terminal cannot look, so whatever is for all of
# them is done by the run's own watcher. That may miss a word while it is busy, so it is told until it has heard.
signal_main() {
  look
  [ "$state" = running ] || return
  read -r pid start <"$run/main" && lives "$pid" "$start" && kill -s "$1" "$pid"
}

signal_all() {
  look
  [ "$state" = running ] || return
  printf '%s\n' "$1" >"$run/signal"
  turns=50
  while [ -e "$run/signal" ] && supervised && [ "$turns" -gt 0 ]; do
    poke USR2
    nap 0.1
    turns=$((turns - 1))
  done
}

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

poke() { read -r pid start <"$run/watcher" && lives "$pid" "$start" && kill -s "$1" "$pid"; }
