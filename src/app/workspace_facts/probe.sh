# Runs after `git_off`. Prints facts about a working directory, each followed by a zero byte: the directory without
# links, the directory of the agent's files if they belong to this start, the repository's notes, the user's Codex
# settings, the repository's two git directories, its commit.
# Arguments: the directory, inside the agent's own; the generation, the name of the notes and `codex`, each empty if
# not requested. Exits with 3 (not a directory) or 4 (outside) after printing the agent's own or the resolved directory.
unset CDPATH
fleet=${FLEET_AGENT_DIR:-$HOME/.fleet} given=
root=$(pwd -P && echo .) && root=${root%?.} || exit 5
refuse() { printf '%s\000' "$1"; exit "$2"; }
cd -- "$1" 2>/dev/null || refuse "$root" 3
here=$(pwd -P && echo .) && here=${here%?.} || refuse "$root" 3
case $here/ in "${root%/}"/*) ;; *) refuse "$here" 4 ;; esac
[ -n "$2" ] && [ -r "$fleet/token" ] && read -r line 2>/dev/null <"$fleet/provisioned.json" &&
  case $line in '{"generation":'"$2",*) given=$fleet ;; esac
printf '%s\000%s\000' "$here" "$given"
# Longer notes would only push the task out of sight; a link may be a way out of the repository.
[ -n "$3" ] && [ -f "$3" ] && [ ! -L "$3" ] && dd bs=65536 count=1 2>/dev/null <"$3" | tr -d '\000'
printf '\000'
codex=${CODEX_HOME:-$HOME/.codex}/config.toml
[ -n "$4" ] && [ -f "$codex" ] && dd bs=4194304 count=1 2>/dev/null <"$codex" | tr -d '\000'
printf '\000'
git_off
own=$(git rev-parse --absolute-git-dir 2>/dev/null) || exit 0
common=$(cd -- "$(git rev-parse --git-common-dir 2>/dev/null)" && pwd -P) || exit 0
printf '%s\000%s\000%s\000' "$own" "$common" "$(git rev-parse --verify --quiet HEAD 2>/dev/null)"
