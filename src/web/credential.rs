//! The one place where a request's credential is read: a bearer token in its `Authorization` header.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use secrecy::SecretString;

use super::problem::AuthFault;

/// Takes the credential out of the headers: nothing further in needs it, so nothing further in can log or forward it.
pub(super) fn take(headers: &mut HeaderMap) -> Result<SecretString, AuthFault> {
    let token = bearer_token(headers)?;
    headers.remove(AUTHORIZATION);
    Ok(token)
}

fn bearer_token(headers: &HeaderMap) -> Result<SecretString, AuthFault> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let header = given.next().ok_or(AuthFault::MissingToken)?;
    let text = header.to_str().map_err(|_| AuthFault::MalformedHeader)?;
    let (scheme, token) = text.split_once(' ').ok_or(AuthFault::MalformedHeader)?;
    let is_one_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if given.next().is_some() || !scheme.eq_ignore_ascii_case("bearer") || !is_one_token {
        return Err(AuthFault::MalformedHeader);
    }
    Ok(SecretString::from(token))
}
