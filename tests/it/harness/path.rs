//! Matches request paths against patterns such as `/api/v2/workspaces/{id}`.

/// The segments of `path` that stand where `pattern` has `{name}`, or `None` if it does not match.
///
/// A capture may have a literal prefix (`@{user}`); a last segment `**` matches any rest, even none.
pub(crate) fn captures(pattern: &str, path: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut actual = path.split('/');
    for wanted in pattern.split('/') {
        if wanted == "**" {
            return Some(found);
        }
        let segment = actual.next()?;
        match wanted.split_once('{') {
            Some((prefix, _)) => found.push(segment.strip_prefix(prefix)?.to_owned()),
            None if wanted == segment => {}
            None => return None,
        }
    }
    actual.next().is_none().then_some(found)
}
