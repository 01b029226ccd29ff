# Forgets an ended run. The claim stays, marked, so that a start which comes late does not run it again.
remove() {
  [ -e "$run/claim" ] || return
  printf removed >"$run/claim"
  rm -rf "$run"/[!c]*
}
