# Starts the run unless it is known, and waits until its supervisor has claimed it: a terminal that closes sooner
# takes with it who is not yet in a session of its own. Needs: id, attempt, limit, grace, once, most, and
# functions that print the files.
start() {
  look
  [ "$state" = unknown ] || return
  why=$(mkdir -p "$run/$attempt" 2>&1) || { state="refused $why"; return; }
  cd "$run" && give_supervise >"$attempt/supervise" && give_command >"$attempt/command" &&
    give_input >"$attempt/in" ||
    { state='refused cannot write the files of the run'; return; }
  [ -z "$once" ] || true >once
  # The supervisor says a word when it has the run, and lets go of the pipe when the run has ended.
  { launch setsid -f; } | { read -r word && [ -n "$once" ] && read -r word; }
  [ -e claim ] || launch_job
  look
}

launch() {
  "$@" sh "$attempt/supervise" "$id" "$attempt" "$limit" "$grace" "$base" "$most" 5>&1 </dev/null >/dev/null
}

# Without setsid the job keeps our session: it gets a group of its own by job control, which also leaves its signals
# alone, and does not hear the hang-up.
launch_job() {
  set -m
  (trap '' HUP; launch exec >/dev/null) &
  set +m
  turns=500
  until [ -e claim ] || [ "$turns" = 0 ]; do
    nap 0.01
    turns=$((turns - 1))
  done
}
