# Shows what is new of both streams and the state, each followed by the mark, once for every line it is sent. The open
# files remember how far they were read. Needs: out_from, err_from, counted from one.
follow() {
  case $state in '' | running) look ;; esac
  case $state in
  unknown | removed | refused*) say '' && say '' && say "$state" && return ;;
  esac
  exec 3<"$run/out" 4<"$run/err"
  [ -s "$run/out" ] && tail -c "+$out_from" <&3
  say ''
  [ -s "$run/err" ] && tail -c "+$err_from" <&4
  say ''
  say "$state"
  while read -r word && [ "$word" = more ]; do
    look
    [ -s "$run/out" ] && cat <&3
    say ''
    [ -s "$run/err" ] && cat <&4
    say ''
    say "$state"
  done
  [ "$word" = remove ] && remove
}
