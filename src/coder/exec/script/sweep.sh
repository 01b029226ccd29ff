# Removes unneeded files: remains of removed runs, attempts that never began, and results of single calls that no
# client fetched. Ids begin with their time. Needs: before.
sweep() {
  for old in "$runs"/*; do
    [ "${old##*/}" \< "$before" ] || continue
    [ -e "$old/claim" ] && [ ! -s "$old/claim" ] && { [ ! -e "$old/once" ] || [ ! -s "$old/exit" ]; } && continue
    rm -rf "$old"
  done
}
