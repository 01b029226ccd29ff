//! Lists refs with the working trees that have them checked out.

/// A listed ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ref {
    pub(crate) commit: String,
    /// In full, from `refs/` on.
    pub(crate) name: String,
    /// The working tree that has it checked out.
    pub(crate) checked_out_in: Option<String>,
}

impl Ref {
    /// The name of a branch without `refs/heads/`; none for other refs.
    pub(crate) fn branch(&self) -> Option<&str> {
        self.name.strip_prefix("refs/heads/")
    }
}

/// The arguments that list the refs of these patterns; options of `for-each-ref` may precede them.
pub(crate) fn list<'a>(patterns: &[&'a str]) -> Vec<&'a str> {
    [&["for-each-ref", "--format=%(objectname) %(refname) %(worktreepath)"], patterns].concat()
}

/// The refs in git's output.
pub(crate) fn read(listing: &str) -> impl Iterator<Item = Ref> {
    listing.lines().filter_map(|line| {
        let mut words = line.splitn(3, ' ').map(str::to_owned);
        let (commit, name) = (words.next()?, words.next()?);
        Some(Ref { commit, name, checked_out_in: words.next().filter(|path| !path.is_empty()) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ref_is_read_with_the_tree_that_has_it_checked_out() {
        let of = |name: &str, tree: Option<&str>| Ref {
            commit: "1f2e".to_owned(),
            name: name.to_owned(),
            checked_out_in: tree.map(str::to_owned),
        };
        let listing = "1f2e refs/heads/main /home/a b\n1f2e refs/heads/fleet/ann \n1f2e refs/stash\n";
        let expected = [
            of("refs/heads/main", Some("/home/a b")),
            of("refs/heads/fleet/ann", None),
            of("refs/stash", None),
        ];
        let refs: Vec<Ref> = read(listing).collect();
        assert_eq!(refs, expected);
        assert_eq!(refs.iter().map(Ref::branch).collect::<Vec<_>>(), [Some("main"), Some("fleet/ann"), None]);
    }
}
