# Forgets an ended run. The claim stays, marked, so that a start which comes late does not run it again.
remove() {
  [ -e "$run/claim" ] || return
  printf removed >"$run/claim"
  rm -rf "$run"/[!c]*
}

# Takes the claim of a run that has not begun, as if it had been removed.
forestall() {
  mkdir -p "$run"
  (set -C; printf removed >"$run/claim")
  look
}
