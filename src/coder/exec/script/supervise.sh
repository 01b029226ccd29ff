# Runs one command to its end, also after its terminal has closed. Arguments: id, attempt, seconds to live, seconds of
# grace, seconds of kills, the directory to start in, the bytes of each stream to keep at least or nothing for all. The
# working directory is the run's; descriptor 5 leads to the waiting starter.
id=$1 attempt=$2 limit=$3 grace=$4 kill_limit=$5 base=$6 most=$7
exec 2>/dev/null
umask 077
# Only one of several attempts claims the run.
set -C
true >claim || exit 0
set +C
true >out
true >err
read -r boot </proc/sys/kernel/random/boot_id
note() {
  read -r pid line </proc/self/stat
  set -- "$1" ${line##*) }
  printf '%s %s %s\n' "$pid" "${21}" "$boot" >"$1"
}
note supervisor
# A closed terminal must not end the supervisor; the command gets SIGPIPE as usual.
trap : PIPE
echo claimed >&5
trap - PIPE

# Ends the run at its time limit or on a cancel. A descendant that holds the output of an ended command open is
# terminated; one that cannot be found loses the output.
watch() {
  trap 'kill "$pause"; exit' TERM
  trap 'told=cancel' USR1
  note watcher
  left=$limit
  while [ "$left" -gt 0 ]; do
    step=5
    [ "$left" -lt 5 ] && step=$left
    sleep "$step" &
    pause=$!
    [ -n "$told" ] || wait "$pause"
    [ -z "$told" ] || heed
    left=$((left - step))
    # A running command has read its files.
    [ ! -s main ] || rm -f "$attempt/command" "$attempt/in"
    [ -z "$over" ] || end "$id" 0 output
    [ -s "$attempt/code" ] && end "$id" "$grace" leftovers && over=yes
  done
  end "$id" "$grace" timeout
  drain
}

# Output of ended processes ends by itself; otherwise a process that was not found holds it open.
drain() {
  seek "FLEET_OUTPUT=$id"
  clock
  until=$((now + 2))
  while [ "$now" -lt "$until" ] && members; do
    nap 0.05
    clock
  done
  end "$id" 0 output
}

heed() {
  kill "$pause"
  step=0
  end "$id" "$grace" cancel && drain && exit
  told=
}
# Keeps the beginning of a stream as it comes, and counts the rest: a flood must not fill the disk. What is read at
# once is not cut, so up to ten megabytes more than asked for are kept.
keep() {
  export FLEET_OUTPUT="$id" LC_ALL=C
  [ -n "$most" ] && command -v dd >/dev/null && command -v wc >/dev/null || exec cat >"$1"
  size=0
  while [ "$size" -lt "$most" ]; do
    dd bs=65536 count=160 >>"$1" 2>"$attempt/$1"
    # Fewer reads than permitted: the output has ended, or a signal ended dd.
    n_reads=0
    while read -r n word rest; do [ "$word $rest" = 'records in' ] && n_reads=$(($n)); done <"$attempt/$1"
    [ "$n_reads" = 160 ] || return
    size=$(($(wc -c <"$1")))
  done
  wc -c >"$1.rest"
}
watch 5>&- &
watch=$!

# By its path, since the command may bring a search path of its own.
own=$(command -v setsid)
# What the shell has to say about a command that died of a signal tells it from one that returned such a number.
exec 2>"$attempt/note"
{
  {
    (. "./$attempt/command") <"$attempt/in" 2>&3 3>&- 5>&-
    echo $? >"$attempt/code"
    read -r main rest <main
    { [ -z "$own" ] || [ -s why ] || kill -s 0 -- "-$main"; } 2>/dev/null &&
      end "$id" "$grace" leftovers >/dev/null 2>&1 3>&-
  } | (keep out) 2>/dev/null 3>&- 5>&-
} 3>&1 | (keep err) 2>/dev/null 5>&-
exec 2>/dev/null

read -r code <"$attempt/code"
word="code $code"
[ "$code" = 130 ] || [ "$code" = 141 ] || { [ "$code" -gt 128 ] && [ -s "$attempt/note" ]; } &&
  word="signal $((code - 128))"
[ -s why ] && read -r word <why
printf '%s\n' "$word" >exit
exec 5>&-
kill "$watch"
rm -rf "$attempt"
# Terminates processes that left the command's group and closed its output: no process outlives its run.
end "$id" "$grace" leftovers
