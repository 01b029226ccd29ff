# Runs one command to its end, whoever still listens. Arguments: id, attempt, seconds to live, seconds of grace, the
# directory to start in. The working directory is the run's.
id=$1 attempt=$2 limit=$3 grace=$4 base=$5
umask 077
# Of several attempts one gets through.
set -C
true >claim || exit 0
set +C
true >out
true >err
read -r boot </proc/sys/kernel/random/boot_id
read -r line </proc/$$/stat
set -- ${line##*) }
printf '%s %s %s %s\n' $$ "${20}" "$boot" "$attempt" >supervisor

# Ends the run when its time is over. A process that hides from us and holds the output open would keep a finished
# run open; then the output is cut off instead.
watch() {
  trap 'kill "$pause"; exit' TERM
  left=$limit
  while [ "$left" -gt 0 ]; do
    step=5
    [ "$left" -lt 5 ] && step=$left
    sleep "$step" &
    pause=$!
    wait "$pause"
    left=$((left - step))
    [ -z "$over" ] || sh "$attempt/end" "$id" 0 output
    [ -s "$attempt/code" ] && over=yes
  done
  exec sh "$attempt/end" "$id" "$grace" timeout
}
watch &
watch=$!

own=
command -v setsid >/dev/null && own=setsid
# What the shell has to say about a command that died of a signal tells it from one that returned such a number.
exec 2>"$attempt/note"
{
  {
    FLEET_EXEC=$id $own sh "$attempt/command" "$base" <"$attempt/in" 2>&3 3>&-
    echo $? >"$attempt/code"
    sh "$attempt/end" "$id" "$grace" leftovers >/dev/null 2>&1 3>&-
  } | FLEET_OUTPUT=$id cat >out 3>&-
} 3>&1 | FLEET_OUTPUT=$id cat >err
exec 2>/dev/null

read -r code <"$attempt/code"
word="code $code"
[ "$code" = 130 ] || [ "$code" = 141 ] || { [ "$code" -gt 128 ] && [ -s "$attempt/note" ]; } &&
  word="signal $((code - 128))"
[ -s why ] && read -r word <why
printf '%s\n' "$word" >exit
kill "$watch"
rm -rf "$attempt"
