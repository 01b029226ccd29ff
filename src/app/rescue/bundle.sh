# Makes a git bundle of all work here that no remote has, and prints it.
# Changes neither the working tree, nor the index, nor any ref or object of the repository: everything is made in a
# repository of our own that borrows the objects. 'git_off', which runs first, keeps git from starting programs. Our
# repository has no configuration, not even the user's, so no filter or hook runs and files are saved unchanged.
# Arguments: the most bytes a bundle may have, the bytes to print at once.
# Output: "saved COMMIT BYTES [NOTE]", "nothing" or "failed REASON" on the first line; then the bundle's first bytes.
set -u
umask 077
max=$1 piece=$2
shelf=${FLEET_AGENT_DIR:-$HOME/.fleet}/rescue
tab=$(printf '\t')
# More branches, or more stashes, would flood the repository that they are restored into.
most=100

fail() {
    rm -rf "$shelf"
    printf 'failed %s\n' "$*"
    exit 0
}

command -v git > /dev/null 2>&1 || fail 'the workspace has no git'
git_off
export GIT_AUTHOR_NAME=fleet-mcp GIT_AUTHOR_EMAIL=fleet-mcp@localhost
export GIT_COMMITTER_NAME=fleet-mcp GIT_COMMITTER_EMAIL=fleet-mcp@localhost
limit=
command -v timeout > /dev/null 2>&1 && limit='timeout 5'

# In the top of a repository. Both are named: settings of the repository could name another working tree.
theirs() {
    GIT_DIR=.git GIT_WORK_TREE=. git "$@" < /dev/null 2> /dev/null
}

ours() {
    GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 \
        git --git-dir="$shelf/repo" "$@" 2> /dev/null
}

absolute() {
    (cd "$1" 2> /dev/null && pwd -P)
}

# Adds a note for people about work that is not saved in its original form.
note() {
    printf '%s, ' "$*" >> "$shelf/notes"
}

# Enters the repository that the agent's own directory is in, or the only one right below it.
enter_repository() {
    start=$PWD
    while ! is_top; do
        [ "$PWD" != / ] && cd .. || break
    done
    is_top && return 0
    cd "$start" && set --
    for found in ./*/.git; do
        [ -e "$found" ] && set -- "$@" "${found%/.git}"
    done
    [ $# -eq 1 ] && cd "$1" && is_top
}

is_top() {
    [ -e .git ] && theirs rev-parse --git-dir > /dev/null
}

make_own() {
    rm -rf "$shelf"
    mkdir -p "$shelf" || return 1
    format=$(theirs rev-parse --show-object-format) || format=sha1
    git init --quiet --bare --template= --object-format="$format" "$shelf/repo" > /dev/null 2>&1 || return 1
    mkdir -p "$shelf/repo/objects/info" "$shelf/repo/info"
}

# Gives our repository the objects and the exclusions of the one here.
borrow() {
    absolute "$(theirs rev-parse --git-path objects)" >> "$shelf/repo/objects/info/alternates" || return 1
    path=$(theirs rev-parse --git-path shallow) && [ -f "$path" ] && cat "$path" >> "$shelf/repo/shallow"
    rm -f "$shelf/repo/info/exclude"
    path=$(theirs rev-parse --git-path info/exclude) && [ -f "$path" ] && cp "$path" "$shelf/repo/info/exclude"
    # What the user ignores everywhere is the one setting that counts.
    excludes=$(theirs config --type=path --get core.excludesFile) || excludes=
    return 0
}

# With the working tree here.
ours_here() {
    # shellcheck disable=SC2086
    GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 \
        $limit git --git-dir="$shelf/repo" --work-tree="$PWD" -c core.quotePath=false ${excludes:+-c} ${excludes:+"core.excludesFile=$excludes"} \
        "$@" < /dev/null 2> /dev/null
}

# Prints the tree of everything here that is not ignored. Argument: a number that no other repository has.
tree_here() (
    index=$(theirs rev-parse --git-path index) && [ -f "$index" ] && cp "$index" "$shelf/index-$1"
    export GIT_INDEX_FILE="$shelf/index-$1"
    ours_here add --all --ignore-errors > /dev/null
    code=$?
    ours_here ls-files --stage | sed -n "s/^160000 [^$tab]*$tab//p" > "$shelf/inner-$1"
    if [ "$code" -ne 0 ]; then
        # Out of time, most likely, unless a repository without any commit is in the way.
        ours_here ls-files --others --modified --exclude-standard > "$shelf/others-$1" || exit 1
        sed -n 's/\/$//p' "$shelf/others-$1" >> "$shelf/inner-$1"
        [ "$code" -ne 124 ] || exit 1
        ! grep -qv '/$' "$shelf/others-$1" || note 'some files could not be read'
    fi
    n=0
    while IFS= read -r inner; do
        n=$((n + 1))
        take_inner "$inner" "$1-$n"
    done < "$shelf/inner-$1"
    ours write-tree
)

# A repository inside of another one is only a name to git: if it has work of its own, its files take that place.
take_inner() {
    case $1 in \"*) note 'a repository with an odd name is not in it' && return 0 ;; esac
    [ -e "$1/.git" ] || return 0
    tree=$(unset GIT_INDEX_FILE && cd "$1" && git_off && borrow && tree_here "$2") || { note "the repository in $1 could not be read"; return 0; }
    (unset GIT_INDEX_FILE && cd "$1" && has_work "$tree") || return 0
    ours_here update-index --force-remove "$1" && ours_here read-tree --prefix="$1/" "$tree" \
        && note "of the repository in $1 only the files" || note "the repository in $1 could not be saved"
}

# Does the repository here, whose files are this tree, hold what no remote has?
has_work() {
    [ "$1" != "$(theirs rev-parse --verify --quiet 'HEAD^{tree}')" ] \
        || [ -n "$(theirs rev-list --max-count=1 HEAD --branches --glob='refs/stash*' --not --remotes)" ]
}

# Everything in the working tree that is not ignored, as a commit on top of where the agent stands.
take_working_tree() {
    tree=$(tree_here 0) && [ -n "$tree" ] || return 1
    if [ -n "$head" ]; then
        [ "$tree" = "$(theirs rev-parse "$head^{tree}")" ] && return 0
        work=$(ours commit-tree -p "$head" -m 'Uncommitted work, saved before the agent was deleted' "$tree")
    else
        [ "$tree" = "$(ours hash-object -t tree /dev/null)" ] && return 0
        work=$(ours commit-tree -m 'Uncommitted work, saved before the agent was deleted' "$tree")
    fi
}

# Whether this clone borrows from a repository that outlives the workspace. The commits there are safe.
has_host() {
    common=$(theirs config --get remote.fleet-here.url) && [ -d "$common" ]
}

# Is this a worktree of a repository that outlives the workspace? On a machine shared with its people the workspace
# is the directory that holds the runs; elsewhere all there is goes with it.
is_guest() {
    home=$(absolute "${FLEET_AGENT_DIR:-/nowhere}/..") && [ -d "$home/runs" ] || return 1
    common=$(absolute "$(theirs rev-parse --git-common-dir)") || return 1
    case $common in "$home"/*) return 1 ;; esac
}

# Whether the working tree outlives the workspace too: runs work in the caller's own directory.
stays() {
    case $(pwd -P) in "$home"/*) return 1 ;; esac
}

nothing() {
    rm -rf "$shelf"
    printf 'nothing\n'
    exit 0
}

# All other branches stay in the host repository: they are not the agent's work, and its commits build on them.
leave_to_host() {
    theirs --git-dir="$common" for-each-ref --format='create refs/remotes/host/%(refname) %(objectname)' refs/heads \
        | ours update-ref --stdin
    own=$(theirs symbolic-ref --quiet HEAD) && ours update-ref -d "refs/remotes/host/$own"
    stands=$(theirs --git-dir="$common" rev-parse --verify --quiet 'HEAD^{commit}') \
        && [ "$(theirs --git-dir="$common" symbolic-ref --quiet HEAD)" != "${own:-}" ] \
        && ours update-ref refs/remotes/host/HEAD "$stands"
}

take_branches() {
    theirs for-each-ref --sort=-committerdate --format='%(objectname) %(refname:lstrip=2)' refs/heads > "$shelf/branches"
    n=0
    for stash in $(theirs rev-parse --verify --quiet refs/stash) $(theirs log -g --skip=1 --format=%H refs/stash --); do
        n=$((n + 1))
        printf '%s %s\n' "$stash" "$n"
    done > "$shelf/stashes"
    take_newest branches
    take_newest stashes
}

# Takes the newest of the list of this name. Others are noted if they hold work that is neither taken nor on a remote.
take_newest() {
    head -n "$most" "$shelf/$1" | sed "s|^\\([^ ]*\\) \\(.*\\)|create refs/rescue/$1/\\2 \\1|" | ours update-ref --stdin
    lost=$(tail -n "+$((most + 1))" "$shelf/$1" | sed 's/ .*//' | ours rev-list --max-count=1 --stdin --not --remotes --glob='refs/rescue/*')
    [ -z "$lost" ] || note "only the newest $most of its $(wc -l < "$shelf/$1" | tr -d ' ') $1"
}

cd "$(pwd -P)" && enter_repository || fail 'no git repository was found where the agent works'
is_guest && guest=yes || guest=
[ -n "$guest" ] && stays && nothing
make_own && borrow || fail 'there is no room for a bundle in the workspace'
theirs for-each-ref --format='create %(refname) %(objectname)' refs/remotes \
    | grep -v '^create refs/remotes/fleet-here/' | ours update-ref --stdin
head=$(theirs rev-parse --verify --quiet 'HEAD^{commit}') || head=
work=$head
take_working_tree || { work=$head; note 'uncommitted work could not be read in time'; }
[ -n "$work" ] && ours update-ref refs/rescue/work "$work"
if [ -n "$guest" ]; then
    leave_to_host
else
    has_host && leave_to_host
    take_branches
fi
said=$(cat "$shelf/notes" 2> /dev/null)
said=${said%, }
if [ -z "$(ours rev-list --max-count=1 --glob='refs/rescue/*' --not --remotes)" ]; then
    [ -z "$said" ] || fail "$said"
    nothing
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
printf 'saved %s %s %s\n' "$work" "$bytes" "$said"
dd if="$shelf/work.bundle" bs="$piece" count=1 2> /dev/null
[ "$bytes" -le "$piece" ] && rm -rf "$shelf"
exit 0
