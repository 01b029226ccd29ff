# Ends every process of a run: TERM once, a wait for the grace period, then KILL until none is left. Arguments: id,
# seconds of grace, why. Needs: kill_limit, the seconds of kills. A process is found by a variable in its environment,
# also in a session of its own; a process that cleared its environment is found by its parent, and after the first look
# by its pid and start time.
end() {
  seek "FLEET_EXEC=$1"
  case $3 in
  timeout | cancel) [ -s why ] || printf '%s\n' "$3" >why ;;
  output) sign=FLEET_OUTPUT=$1 ;;
  esac
  [ "$3" = lost ] || [ "$3" = output ] || read -r main start rest <main
  # Some programs take a second TERM as an order to exit without cleaning up.
  polite=yes
  [ "$3" = leftovers ] && [ -s why ] && polite=
  # Processes that are known without a search get TERM first: a search can take seconds.
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
  # A process that survives this many KILLs is stuck in the kernel.
  until=$((now + kill_limit))
  while [ "$now" -lt "$until" ] && { relatives || members; }; do
    tell KILL
    members && tell KILL
    nap 0.05
    clock
  done
}

# Begins a search for the processes that carry this sign.
seek() { sign=$1 known= asked= main=; }

# Sets found, and known for the next look: known processes that still run, and their children.
relatives() {
  found=
  for each in $known; do
    began "${each%:*}" && [ "$began" = "${each#*:}" ] && found="$found ${each%:*}"
  done
  complete
}

# The same, with all processes that carry the sign.
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

# Adds the children of the fresh processes; they are the fresh processes of the next round.
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

# Adds a process unless it is a zombie or already listed.
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

# Signals all processes that were found and not signaled before. A stopped process handles a signal only after CONT.
tell() {
  for pid in $found; do
    [ -z "$asked" ] || is_new "$pid" || continue
    kill -s "$1" "$pid"
    kill -s CONT "$pid"
  done
  [ -n "$asked" ] || [ -z "$main" ] || kill -s "$1" -- "-$main"
}

# The group of the main process gets its signal as a group.
is_new() {
  case "$asked " in *" $1 "*) return 1 ;; esac
  began "$1" && [ "$group" != "$main" ]
}

clock() {
  read -r now rest </proc/uptime
  now=${now%.*}
}

# Some implementations of sleep accept whole seconds only.
nap() { sleep "$1" || sleep 1; }
