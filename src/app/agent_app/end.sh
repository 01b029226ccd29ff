# Runs after the functions of `coder/exec/script/end.sh`. Terminates the engine of a runner that does not respond, and
# resumes a stopped runner. The runner itself ends processes that the engine started in other sessions. A note tells
# the runner that this is no failure of the engine. Prints `gone` or `left`.
# Arguments: tenths of a second after TERM and after KILL.
exec 2>/dev/null
note=${FLEET_AGENT_DIR:-$HOME/.fleet}/engine.pid
read -r engine since runner woke <"$note" || exit 1

# Whether exactly this process still runs: its pid may have been reused.
lives() { began "$1" && [ "$began" = "$2" ]; }

# Signals the engine, its group, and all that these started.
signal() { relatives && tell "$1"; }

word=gone
case $engine in
*[!0-9]* | '') ;;
*)
  seek ''
  main=$engine known=$engine:$since
  # The signal is sent even if the note cannot be written, as on a full disk.
  lives "$engine" "$since" && { echo "$engine $since" >>"$note"; signal TERM; }
  turns=$1
  while [ "$turns" -gt 0 ] && lives "$engine" "$since"; do
    nap 0.1
    turns=$((turns - 1))
  done
  turns=$2
  while [ "$turns" -gt 0 ] && lives "$engine" "$since"; do
    signal KILL
    nap 0.1
    turns=$((turns - 1))
  done
  lives "$engine" "$since" && word=left
  ;;
esac
lives "$runner" "$woke" && kill -s CONT "$runner"
echo "$word"
