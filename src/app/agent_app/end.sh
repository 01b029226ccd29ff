# Ends the engine of a runner that does not listen, and wakes the runner if somebody stopped it. What the engine has put
# into sessions of its own is ended by the runner, which knows it by its environment. The runner is left word, so that it
# does not take the end for a failure. Prints `gone` or `left`.
exec 2>/dev/null
note=${FLEET_AGENT_DIR:-$HOME/.fleet}/engine.pid
read -r engine began runner woke <"$note" || exit 1

# Whether this very process still runs; its number alone could belong to another one by now.
lives() {
  IFS=' '
  since=$2
  read -r line <"/proc/$1/stat" || return 1
  set -- ${line##*) }
  [ "${20}" = "$since" ] && [ "$1" != Z ]
}

# Sets found: the engine, its group, and all that these started. One look at all processes, since a shell reads files
# byte by byte.
members() {
  IFS='
'
  found=" $engine "
  all=$(cat /proc/[0-9]*/stat)
  size=0
  while [ "$size" != "${#found}" ]; do
    size=${#found}
    for line in $all; do
      pid=${line%% *}
      line=${line##*) }
      line=${line#* }
      parent=${line%% *}
      line=${line#* }
      case $found in *" $pid "*) continue ;; esac
      case $found in *" $parent "*) found="$found$pid " ;; esac
      [ "${line%% *}" = "$engine" ] && found="$found$pid "
    done
  done
  return 0
}

# A stopped process hears nothing until it goes on.
tell() {
  IFS=' '
  for pid in $found; do
    kill -s "$1" "$pid"
    kill -s CONT "$pid"
  done
}

nap() { sleep "$1" || sleep 1; }

word=gone
case $engine in
*[!0-9]* | '') ;;
*)
  lives "$engine" "$began" && echo "$engine $began" >>"$note"
  lives "$engine" "$began" && members && tell TERM
  turns=30
  while [ "$turns" -gt 0 ] && lives "$engine" "$began"; do
    nap 0.1
    turns=$((turns - 1))
  done
  turns=20
  while [ "$turns" -gt 0 ] && lives "$engine" "$began" && members; do
    tell KILL
    nap 0.1
    turns=$((turns - 1))
  done
  lives "$engine" "$began" && word=left
  ;;
esac
lives "$runner" "$woke" && kill -s CONT "$runner"
echo "$word"
