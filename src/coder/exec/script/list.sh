# Prints id and state of every durable run.
list() {
  for run in "$runs"/*; do
    [ -e "$run/claim" ] && [ ! -e "$run/once" ] || continue
    look
    [ "$state" = removed ] || printf '%s %s\n' "${run##*/}" "$state"
  done
  say ''
}
