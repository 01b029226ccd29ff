# Finds the processes whose environment contains a sign. A process that locks its own memory blocks its readers forever,
# so child processes read, and a blocked reader is abandoned. Needs: sign, began. Sets marked.

# The processes whose readers were blocked, by pid and start time.
stuck=

# One reader for all is fast. If it blocks, each process gets a reader of its own.
search() {
  marked=
  choose
  heard=$(race 1 together $files)
  case $heard in *late*) heard=$(race 2 apart $files) ;; esac
  for word in $heard; do
    case $word in
    late:*) began "${word#late:}" && stuck="$stuck ${word#late:}:$began" ;;
    *) word=${word#/proc/} marked="$marked ${word%/environ}" ;;
    esac
  done
}

# Sets files: those of all processes whose readers were not blocked.
choose() {
  files='/proc/[0-9]*/environ'
  [ -n "$stuck" ] || return
  files=
  for file in /proc/[0-9]*/environ; do is_stuck "${file%/environ}" || files="$files $file"; done
}

is_stuck() {
  case "$stuck " in *" ${1#/proc/}:"*) ;; *) return 1 ;; esac
  began "${1#/proc/}"
  case "$stuck " in *" ${1#/proc/}:$began "*) ;; *) return 1 ;; esac
}

# Prints the files that readers find within so many seconds; then kills the readers that have not ended and names them.
# The shell waits for none of them: a reader that the kernel does not release holds only its pipe.
race() {
  seconds=$1
  shift
  {
    sleep "$seconds" &
    timer=$!
    echo "timer $timer"
    "$@"
    wait "$timer"
    echo over
  } 2>/dev/null 3>&- 5>&- | hear
}

together() {
  {
    holding "$@" &
    echo "begun all $!"
    echo all
    wait "$!"
    echo ended all
  } &
}

apart() {
  for file in "$@"; do
    [ -r "$file" ] || continue
    pid=${file#/proc/}
    { carries "$file" && echo "$file"; echo "ended ${pid%/environ}"; } &
    echo "begun ${pid%/environ} $!"
  done
  echo all
}

holding() {
  command -v grep >/dev/null && exec grep -lsF "$sign" "$@"
  for file in "$@"; do carries "$file" && echo "$file"; done
}

carries() {
  while read -r line || [ -n "$line" ]; do
    case $line in *"$sign"*) return 0 ;; esac
  done <"$1"
  return 1
}

hear() {
  timer= all= begun= ended= open=0
  until [ -n "$all" ] && [ -n "$timer" ] && [ "$open" = 0 ]; do
    read -r verb who reader || break
    case $verb in
    timer) timer=$who ;;
    begun) begun="$begun $who:$reader" open=$((open + 1)) ;;
    ended) ended="$ended $who" open=$((open - 1)) ;;
    all) all=yes ;;
    over) timer= && break ;;
    *) echo "$verb" ;;
    esac
  done
  for each in $begun; do
    case "$ended " in
    *" ${each%:*} "*) ;;
    *) kill -s KILL "${each#*:}" && echo "late:${each%:*}" ;;
    esac
  done
  [ -z "$timer" ] || kill "$timer"
}
