# Ends every process of a run: asks once, waits for the grace, then kills until none is left. Arguments: id, seconds
# of grace, why. Processes are known by a variable in their environment, so those in sessions of their own are too.
id=$1 grace=$2 why=$3
exec 2>/dev/null
sign=FLEET_EXEC=$id
case $why in
timeout | cancel) [ -s why ] || printf '%s\n' "$why" >why ;;
output) sign=FLEET_OUTPUT=$id ;;
esac
main=
[ "$why" = lost ] || [ "$why" = output ] || read -r main <main

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
nap() { sleep "$1" || { sleep 1; tries=$((tries - 19)); }; }

members || exit 0
tell TERM
tries=$((grace * 20))
while [ "$tries" -gt 0 ] && members; do
  nap 0.05
  tries=$((tries - 1))
done
tries=100
while [ "$tries" -gt 0 ] && members; do
  tell KILL
  nap 0.05
  tries=$((tries - 1))
done
