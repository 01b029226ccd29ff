# Ends every process of a run: asks once, waits for the grace, then kills until none is left. Arguments: id, seconds
# of grace, why. Processes are known by a variable in their environment, so those in sessions of their own are too;
# who cleared his environment is known by his parent, and once he was seen by his number and time.
end() {
  seek "FLEET_EXEC=$1"
  case $3 in
  timeout | cancel) [ -s why ] || printf '%s\n' "$3" >why ;;
  output) sign=FLEET_OUTPUT=$1 ;;
  esac
  [ "$3" = lost ] || [ "$3" = output ] || read -r main start rest <main
  # Some programs take a second request for an order to drop everything.
  polite=yes
  [ "$3" = leftovers ] && [ -s why ] && polite=
  # Who is known without a search is told first: a search can take seconds.
  if [ -n "$polite" ] && [ -n "$main" ] && began "$main" && [ "$began" = "$start" ]; then
    known=$main:$start
    relatives
    tell TERM
    asked=$found
  fi
  members || return 0
  [ -z "$polite" ] || tell TERM
  asked=
  clock
  until=$((now + $2))
  while [ "$now" -lt "$until" ] && { relatives || members; }; do
    nap 0.05
    clock
  done
  # Who is still there after so many kills is stuck in the kernel.
  until=$((now + 5))
  while [ "$now" -lt "$until" ] && { relatives || members; }; do
    tell KILL
    members && tell KILL
    nap 0.05
    clock
  done
}

# Begins a search for the processes that carry this sign.
seek() { sign=$1 known= asked= main=; }

# Sets found, and known for the next look: who was known and still runs, and their children.
relatives() {
  found=
  for each in $known; do
    began "${each%:*}" && [ "$began" = "${each#*:}" ] && found="$found ${each%:*}"
  done
  complete
}

# The same with all that carry the sign.
members() {
  relatives
  search
  for pid in $marked; do join "$pid"; done
  complete
}

complete() {
  fresh=$found
  while [ -n "$fresh" ]; do children; done
  known=
  for pid in $found; do began "$pid" && known="$known $pid:$began"; done
  [ -n "$found" ]
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
  began=${20} group=$3
  [ "$1" != Z ]
}

# Tells all that were found and not asked before. A stopped process hears nothing until it goes on.
tell() {
  for pid in $found; do
    [ -z "$asked" ] || is_new "$pid" || continue
    kill -s "$1" "$pid"
    kill -s CONT "$pid"
  done
  [ -n "$asked" ] || [ -z "$main" ] || kill -s "$1" -- "-$main"
}

# The whole group of the main process was asked with it.
is_new() {
  case "$asked " in *" $1 "*) return 1 ;; esac
  began "$1" && [ "$group" != "$main" ]
}

clock() {
  read -r now rest </proc/uptime
  now=${now%.*}
}

# Not every sleep knows fractions.
nap() { sleep "$1" || sleep 1; }
