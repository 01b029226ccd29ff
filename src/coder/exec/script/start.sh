# Starts the run unless it exists, and waits until its supervisor has claimed it: a terminal that closes earlier ends
# processes that are not yet in a session of their own. Needs: id, attempt, limit, grace, kill_limit, once, most, and
# functions that print the files.
start() {
  look
  [ "$state" = unknown ] || return
  why=$(mkdir -p "$run/$attempt" 2>&1) || { state="refused $why"; return; }
  cd "$run" && give_supervise >"$attempt/supervise" && give_command >"$attempt/command" &&
    give_input >"$attempt/in" ||
    { state='refused cannot write the files of the run'; return; }
  [ -z "$once" ] || true >once
  # The supervisor prints a line after the claim, and closes the pipe when the run has ended.
  { launch setsid -f; } | { read -r word && [ -n "$once" ] && read -r word; }
  [ -e claim ] || launch_job
  look
}

launch() {
  "$@" sh "$attempt/supervise" "$id" "$attempt" "$limit" "$grace" "$kill_limit" "$base" "$most" \
    5>&1 </dev/null >/dev/null
}

# Without setsid the job keeps this session: job control gives it a group of its own and leaves its signals unchanged,
# and it ignores the hangup.
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
