# The directory of runs and the state of one run. Needs: id, mark. Sets: runs, run.
exec 2>/dev/null
umask 077
base=$PWD
runs=${FLEET_AGENT_DIR%/fleet}/runs
[ -n "$FLEET_AGENT_DIR" ] && [ -d "$runs" ] || runs=$HOME/.fleet/runs
run=$runs/$id

say() { printf '%s%s' "$1" "$mark"; }
# Some implementations of sleep accept whole seconds only.
nap() { sleep "$1" || sleep 1; }

# Whether exactly this process still runs: its pid may have been reused.
lives() {
  began=$2
  read -r line <"/proc/$1/stat" || return 1
  set -- ${line##*) }
  [ "${20}" = "$began" ] && [ "$1" != Z ]
}

supervised() {
  read -r boot </proc/sys/kernel/random/boot_id
  read -r pid start booted <"$run/supervisor" && [ "$booted" = "$boot" ] && lives "$pid" "$start"
}

# Sets state. Checks the supervisor before its result: a supervisor that ends in between has written the result.
look() {
  state=unknown
  [ -e "$run/claim" ] || return
  state=removed
  [ -s "$run/claim" ] && return
  turns=500
  until [ -s "$run/supervisor" ] || [ "$turns" = 0 ]; do
    nap 0.01
    turns=$((turns - 1))
  done
  state=lost
  supervised && state=running
  [ -s "$run/exit" ] && read -r state <"$run/exit"
}
