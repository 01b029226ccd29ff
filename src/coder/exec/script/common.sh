# Where runs live and what became of one. Needs: id, mark. Sets: runs, run.
exec 2>/dev/null
umask 077
base=$PWD
runs=${FLEET_AGENT_DIR%/fleet}/runs
[ -n "$FLEET_AGENT_DIR" ] && [ -d "$runs" ] || runs=$HOME/.fleet/runs
run=$runs/$id

say() { printf '%s%s' "$1" "$mark"; }
nap() { sleep "$1" || sleep 1; }

# Whether the supervisor still runs; its number alone could belong to another process by now.
supervised() {
  read -r boot </proc/sys/kernel/random/boot_id
  read -r sup_pid sup_start sup_boot sup_attempt <"$run/supervisor" && [ "$sup_boot" = "$boot" ] || return 1
  read -r line <"/proc/$sup_pid/stat" || return 1
  set -- ${line##*) }
  [ "${20}" = "$sup_start" ] && [ "$1" != Z ]
}

# Sets state. The supervisor is looked at before its result: one that ends in between has written it by then.
look() {
  state=unknown
  [ -e "$run/claim" ] || return
  state=removed
  [ -s "$run/claim" ] && return
  tries=500
  until [ -s "$run/supervisor" ] || [ "$tries" = 0 ]; do
    nap 0.01
    tries=$((tries - 1))
  done
  state=lost
  supervised && state=running
  [ -s "$run/exit" ] && read -r state <"$run/exit"
}
