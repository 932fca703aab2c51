//! A declared jump host.

/// `[user@]host[:port]`, with brackets around an IPv6 address.
pub(super) struct JumpHost<'a> {
    pub user: Option<&'a str>,
    pub host: &'a str,
    pub port: Option<&'a str>,
}

impl<'a> JumpHost<'a> {
    pub(super) fn parse(text: &'a str) -> Self {
        let text = text.strip_prefix("ssh://").unwrap_or(text);
        let (user, rest) = match text.rsplit_once('@') {
            Some((user, rest)) => (Some(user), rest),
            None => (None, text),
        };
        let (host, port) = match rest.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            Some((host, after)) => (host, after.strip_prefix(':')),
            None => match rest.split_once(':') {
                Some((host, port)) if !port.contains(':') => (host, Some(port)),
                _ => (rest, None),
            },
        };
        Self { user, host, port }
    }
}
