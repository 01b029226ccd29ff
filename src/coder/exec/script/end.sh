# Ends every process of a run: asks once, waits for the grace, then kills until none is left. Arguments: id, seconds
# of grace, why. Processes are known by a variable in their environment, so those in sessions of their own are too;
# who cleared his environment is known by his parent, and once he was seen by his number and time.
end() {
  sign=FLEET_EXEC=$1
  known=
  main=
  case $3 in
  timeout | cancel) [ -s why ] || printf '%s\n' "$3" >why ;;
  output) sign=FLEET_OUTPUT=$1 ;;
  esac
  [ "$3" = lost ] || [ "$3" = output ] || read -r main rest <main
  members || return 0
  # Some programs take a second request for an order to drop everything.
  [ "$3" = leftovers ] && [ -s why ] || tell TERM
  clock
  until=$((now + $2))
  while [ "$now" -lt "$until" ] && members; do
    nap 0.05
    clock
  done
  # Who is still there after so many kills is stuck in the kernel.
  until=$((now + 5))
  while [ "$now" -lt "$until" ] && members; do
    tell KILL
    nap 0.05
    clock
  done
}

# Sets found, and known for the next look.
members() {
  found=
  for each in $known; do
    began "${each%:*}" && [ "$began" = "${each#*:}" ] && found="$found ${each%:*}"
  done
  for file in $(marked); do
    file=${file#/proc/}
    join "${file%/environ}"
  done
  fresh=$found
  while [ -n "$fresh" ]; do children; done
  known=
  for pid in $found; do began "$pid" && known="$known $pid:$began"; done
  [ -n "$found" ]
}

marked() {
  if command -v grep >/dev/null; then
    grep -lsF "$sign" /proc/[0-9]*/environ
    return
  fi
  for file in /proc/[0-9]*/environ; do carries "$file" && echo "$file"; done
}

# Adds the children of the fresh ones, which are the fresh ones then.
children() {
  older=$fresh fresh=
  for pid in $older; do
    for file in "/proc/$pid/task"/*/children; do
      kids=
      read -r kids <"$file"
      for kid in $kids; do join "$kid" && fresh="$fresh $kid"; done
    done
  done
}

# Who has ended and only waits to be collected is not there any more.
join() {
  case "$found " in *" $1 "*) return 1 ;; esac
  began "$1" && found="$found $1"
}

began() {
  read -r line <"/proc/$1/stat" || return 1
  set -- ${line##*) }
  began=${20}
  [ "$1" != Z ]
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

clock() {
  read -r now rest </proc/uptime
  now=${now%.*}
}

# Not every sleep knows fractions.
nap() { sleep "$1" || sleep 1; }
