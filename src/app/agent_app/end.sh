# Comes behind the functions of `coder/exec/script/end.sh`. Ends the engine of a runner that does not respond, and wakes the
# runner if it was stopped. What the engine has put into sessions of its own is ended by the runner, which knows it by its
# environment. The runner is left word, so that it does not take the end for a failure. Prints `gone` or `left`.
exec 2>/dev/null
note=${FLEET_AGENT_DIR:-$HOME/.fleet}/engine.pid
read -r engine since runner woke <"$note" || exit 1

# Whether this very process still runs; its number alone could belong to another one by now.
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
  turns=30
  while [ "$turns" -gt 0 ] && lives "$engine" "$since"; do
    nap 0.1
    turns=$((turns - 1))
  done
  turns=20
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
