//! Why the cluster's API could not be asked, and what to do about it.

use crate::model::HostName;
use crate::transport::TransportError;
use std::error::Error;

/// Why the cluster's API, or helm, cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct KubeError {
    /// A lowercase fragment. It may hold text of the server: show it escaped.
    pub message: String,
    pub hint: Option<String>,
    /// What was printed before, for people: several lines.
    pub said: Option<String>,
}

impl KubeError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, said: None }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(super) fn said(self, said: impl Into<String>) -> Self {
        Self { said: Some(said.into()).filter(|said| !said.is_empty()), ..self }
    }

    /// Returns what came of asking `server`, by itself or through a host.
    pub(super) fn of(server: &str, through: bool, error: &::kube::Error) -> Self {
        match error {
            ::kube::Error::Api(status) => Self::refused(server, status.code, &status.message),
            other => Self::away(server, through, &innermost(other)),
        }
    }

    /// The host that is gone through is in the way.
    pub fn through(host: &HostName, error: &TransportError) -> Self {
        Self { message: format!("`{host}`: {}", error.message), hint: error.hint.clone(), said: None }
    }

    /// It answered, and not with what was asked for.
    fn refused(server: &str, code: u16, said: &str) -> Self {
        match code {
            401 => Self::new(format!("`{server}` does not know who asks (401)"))
                .hint("the credentials of that context are wrong or too old"),
            403 => Self::new(format!("`{server}` refuses (403): {said}"))
                .hint("give the user of that context the right to do so"),
            code => Self::new(format!("`{server}` answers {code}: {said}")),
        }
    }

    /// It did not answer.
    fn away(server: &str, through: bool, why: &str) -> Self {
        let error = Self::new(format!("`{server}` does not answer: {why}"));
        match why {
            why if why.contains("UnknownIssuer") => {
                error.hint("the certificate is not of the authority that the kubeconfig names")
            }
            why if why.contains("NotValidForName") => {
                error.hint("the certificate is for another name: use that one as `server`, or set `tls-server-name`")
            }
            why if why.contains("Expired") => {
                error.hint("the server's certificate is too old, or this machine's clock is wrong")
            }
            _ if through => {
                error.hint("check `server` of that context, and that sshd of that host has `AllowTcpForwarding`")
            }
            _ => error.hint("check `server` of that context, and that the API can be reached from this machine"),
        }
    }
}

/// Returns the first cause: what stands around it only repeats it.
fn innermost(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_is_told_with_what_to_do() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let error = KubeError::of("https://a:1", false, &::kube::Error::Service(Box::new(refused)));
        assert_eq!(error.message, "`https://a:1` does not answer: connection refused");
        let hint = "check `server` of that context, and that the API can be reached from this machine";
        assert_eq!(error.hint.as_deref(), Some(hint));
        let stranger = KubeError::away("https://a:1", false, "invalid peer certificate: UnknownIssuer");
        assert_eq!(stranger.hint.as_deref(), Some("the certificate is not of the authority that the kubeconfig names"));
    }

    #[test]
    fn who_is_not_known_is_told_apart_from_who_may_not() {
        assert_eq!(
            KubeError::refused("https://a:1", 401, "Unauthorized").message,
            "`https://a:1` does not know who asks (401)"
        );
        let message = KubeError::refused("https://a:1", 403, "no").message;
        assert_eq!(message, "`https://a:1` refuses (403): no");
        assert_eq!(KubeError::refused("https://a:1", 500, "oh").message, "`https://a:1` answers 500: oh");
    }
}
