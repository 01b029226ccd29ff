# Makes a git bundle of all work here that no remote has, and prints it.
# Neither the working tree, nor the index, nor any ref or object of the repository is touched: everything is made in
# a repository of our own that borrows the objects. That one has no configuration either, so no filter or hook of the
# repository runs.
# Arguments: the most bytes a bundle may have, the bytes to print at once.
# Output: "saved COMMIT BYTES [NOTE]", "nothing" or "failed REASON" on the first line; then the bundle's first bytes.
set -u
umask 077
max=$1 piece=$2
shelf=${FLEET_AGENT_DIR:-$HOME/.fleet}/rescue
note=

fail() {
    rm -rf "$shelf"
    printf 'failed %s\n' "$*"
    exit 0
}

command -v git > /dev/null 2>&1 || fail 'the workspace has no git'
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_NAMESPACE
export LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0 GIT_NO_LAZY_FETCH=1
export GIT_AUTHOR_NAME=fleet-mcp GIT_AUTHOR_EMAIL=fleet-mcp@localhost
export GIT_COMMITTER_NAME=fleet-mcp GIT_COMMITTER_EMAIL=fleet-mcp@localhost
limit=
command -v timeout > /dev/null 2>&1 && limit='timeout 5'

theirs() {
    git -c core.hooksPath=/dev/null -c core.fsmonitor=false "$@" < /dev/null 2> /dev/null
}

ours() {
    git --git-dir="$shelf/repo" -c core.hooksPath=/dev/null -c gc.auto=0 "$@" 2> /dev/null
}

absolute() {
    (cd "$1" 2> /dev/null && pwd)
}

# The agent's own directory, or the only repository right below it.
find_repository() {
    top=$(theirs rev-parse --show-toplevel) && return 0
    set --
    for found in ./*/.git; do
        [ -e "$found" ] && set -- "$@" "${found%/.git}"
    done
    [ $# -eq 1 ] || return 1
    cd "$1" && top=$(theirs rev-parse --show-toplevel)
}

# A repository of our own with the objects, the exclusions and the remote branches of theirs.
borrow() {
    rm -rf "$shelf"
    mkdir -p "$shelf" || return 1
    format=$(theirs rev-parse --show-object-format) || format=sha1
    git init --quiet --bare --template= --object-format="$format" "$shelf/repo" > /dev/null 2>&1 || return 1
    mkdir -p "$shelf/repo/objects/info" "$shelf/repo/info" || return 1
    absolute "$(theirs rev-parse --git-path objects)" > "$shelf/repo/objects/info/alternates" || return 1
    for name in shallow info/exclude; do
        path=$(theirs rev-parse --git-path "$name") && [ -f "$path" ] && cp "$path" "$shelf/repo/$name"
    done
    theirs for-each-ref --format='create %(refname) %(objectname)' refs/remotes | ours update-ref --stdin
}

# Everything in the working tree that is not ignored, as a commit on top of where the agent stands.
take_working_tree() {
    index=$(theirs rev-parse --git-path index) && [ -f "$index" ] && cp "$index" "$shelf/index"
    export GIT_INDEX_FILE="$shelf/index"
    # shellcheck disable=SC2086
    $limit git --git-dir="$shelf/repo" --work-tree="$top" -c core.hooksPath=/dev/null -c core.fsmonitor=false \
        add --all < /dev/null > /dev/null 2>&1 || return 1
    tree=$(ours write-tree) || return 1
    unset GIT_INDEX_FILE
    if [ -n "$head" ]; then
        [ "$tree" = "$(theirs rev-parse "$head^{tree}")" ] && return 0
        work=$(ours commit-tree -p "$head" -m 'Uncommitted work, saved before the agent was deleted' "$tree")
    else
        [ "$tree" = "$(ours hash-object -t tree /dev/null)" ] && return 0
        work=$(ours commit-tree -m 'Uncommitted work, saved before the agent was deleted' "$tree")
    fi
}

find_repository || fail 'no git repository was found where the agent works'
cd "$top" || fail 'the repository cannot be entered'
borrow || fail 'there is no room for a bundle in the workspace'
head=$(theirs rev-parse --verify --quiet 'HEAD^{commit}') || head=
work=$head
take_working_tree || { unset GIT_INDEX_FILE; work=$head; note='uncommitted work could not be read in time'; }
[ -n "$work" ] && ours update-ref refs/rescue/work "$work"
# In a worktree of another repository the other branches are not the agent's.
if [ "$(absolute "$(theirs rev-parse --git-dir)")" = "$(absolute "$(theirs rev-parse --git-common-dir)")" ]; then
    theirs for-each-ref --format='create refs/rescue/branches/%(refname:lstrip=2) %(objectname)' refs/heads \
        | ours update-ref --stdin
fi
if [ -z "$(ours rev-list --max-count=1 --glob='refs/rescue/*' --not --remotes)" ]; then
    [ -z "$note" ] || fail "$note"
    rm -rf "$shelf"
    printf 'nothing\n'
    exit 0
fi
ours bundle create --quiet "$shelf/work.bundle" --glob='refs/rescue/*' --not --remotes < /dev/null > /dev/null \
    || fail 'git could not make a bundle'
bytes=$(wc -c < "$shelf/work.bundle" | tr -d ' ')
[ "$bytes" -le "$max" ] || fail "it has $bytes bytes, more than the $max that are saved"
heads=$(ours bundle list-heads "$shelf/work.bundle" < /dev/null)
case $heads in
    *" refs/rescue/work"*) ;;
    # Where the agent stood is on a remote; another branch of it is not.
    *) work=${heads%% *} ;;
esac
printf 'saved %s %s %s\n' "$work" "$bytes" "$note"
dd if="$shelf/work.bundle" bs="$piece" count=1 2> /dev/null
[ "$bytes" -le "$piece" ] && rm -rf "$shelf"
exit 0
