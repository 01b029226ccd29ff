# Ends every process of a run: asks once, waits for the grace, then kills until none is left. Arguments: id, seconds
# of grace, why. Processes are known by a variable in their environment, so those in sessions of their own are too.
end() {
  sign=FLEET_EXEC=$1
  main=
  case $3 in
  timeout | cancel) [ -s why ] || printf '%s\n' "$3" >why ;;
  output) sign=FLEET_OUTPUT=$1 ;;
  esac
  [ "$3" = lost ] || [ "$3" = output ] || read -r main rest <main
  members || return 0
  # Some programs take a second request for an order to drop everything.
  [ "$3" = leftovers ] && [ -s why ] || tell TERM
  tries=$(($2 * 20))
  while [ "$tries" -gt 0 ] && members; do
    nap 0.05
  done
  tries=100
  while [ "$tries" -gt 0 ] && members; do
    tell KILL
    nap 0.05
  done
}

members() {
  found=
  if command -v grep >/dev/null; then
    for file in $(grep -lsF "$sign" /proc/[0-9]*/environ); do
      file=${file#/proc/}
      found="$found ${file%/environ}"
    done
  else
    for file in /proc/[0-9]*/environ; do
      carries "$file" || continue
      file=${file#/proc/}
      found="$found ${file%/environ}"
    done
  fi
  [ -n "$found" ]
}

carries() {
  while read -r line || [ -n "$line" ]; do
    case $line in *"$sign"*) return 0 ;; esac
  done <"$1"
  return 1
}

# A stopped process hears nothing until it goes on.
tell() {
  for pid in $found; do
    kill -s "$1" "$pid"
    kill -s CONT "$pid"
  done
  [ -z "$main" ] || kill -s "$1" -- "-$main"
}

# Not every sleep knows fractions.
nap() {
  tries=$((tries - 1))
  sleep "$1" && return
  sleep 1
  tries=$((tries - 19))
}
