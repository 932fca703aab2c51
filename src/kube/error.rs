//! Errors of the cluster's API and of helm, with hints.

use super::api_message::hide_quoted_objects;
use crate::model::HostName;
use crate::object::ClusterAbsence;
use crate::transport::TransportError;
use std::error::Error;

/// An error from the cluster's API or from helm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct KubeError {
    /// A lowercase fragment. It may contain text from the server: escape it before showing it.
    pub message: String,
    /// How to correct the problem; `None` if no advice is known.
    pub hint: Option<String>,
    /// Output that the program printed before it failed, several lines.
    pub said: Option<String>,
    /// Set if a cluster that does not exist yet fails like this too.
    pub absence: Option<ClusterAbsence>,
    /// Whether the API answered and denied the request (403).
    pub denied: bool,
}

impl KubeError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, said: None, absence: None, denied: false }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(super) fn with_absence(self, absence: ClusterAbsence) -> Self {
        Self { absence: Some(absence), ..self }
    }

    pub(super) fn mark_denied(self) -> Self {
        Self { denied: true, ..self }
    }

    pub(super) fn with_output(self, said: impl Into<String>) -> Self {
        Self { said: Some(said.into()).filter(|said| !said.is_empty()), ..self }
    }

    /// Converts the error of a request to `server`, sent directly or through a host.
    pub(super) fn from_client_error(server: &str, through: bool, error: &::kube::Error) -> Self {
        match error {
            ::kube::Error::Api(status) => Self::from_status(server, status.code, &hide_quoted_objects(&status.message)),
            other => Self::from_no_answer(server, through, &innermost_cause(other), find_certificate_error(other)),
        }
    }

    /// Converts an error of the host that the connection goes through.
    pub fn from_transport_error(host: &HostName, error: &TransportError) -> Self {
        Self { hint: error.hint.clone(), ..Self::new(format!("`{host}`: {}", error.message)) }
    }

    /// The server answered with an error status.
    fn from_status(server: &str, code: u16, said: &str) -> Self {
        match code {
            401 => Self::new(format!("`{server}` rejected the credentials (401)"))
                .hint("check the credentials of this context: they are invalid or expired"),
            403 => Self::new(format!("`{server}` denied the request (403): {said}"))
                .mark_denied()
                .hint("grant this permission to the user of this context"),
            code => Self::new(format!("`{server}` returned {code}: {said}")),
        }
    }

    /// The server did not answer.
    fn from_no_answer(server: &str, through: bool, why: &str, certificate: Option<CertificateRejection>) -> Self {
        let error = Self::new(format!("request to `{server}` failed: {why}"));
        match certificate {
            Some(CertificateRejection::UnknownIssuer) => {
                error.hint("check `certificate-authority` in the kubeconfig: it did not sign the server's certificate")
            }
            Some(CertificateRejection::OtherName) => {
                error.hint("the certificate is for another name: use that name as `server`, or set `tls-server-name`")
            }
            Some(CertificateRejection::Expired) => {
                error.hint("renew the server's certificate, or correct this machine's clock")
            }
            None if through => error
                .with_absence(ClusterAbsence::NoAnswer)
                .hint("check `server` of this context, and that sshd on that host has `AllowTcpForwarding`"),
            None => error
                .with_absence(ClusterAbsence::NoAnswer)
                .hint("check `server` of this context, and that this machine can reach the API"),
        }
    }
}

/// Why the server's certificate was rejected, where a hint helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CertificateRejection {
    UnknownIssuer,
    OtherName,
    Expired,
}

/// Returns why the server's certificate was rejected, if that is the cause.
fn find_certificate_error(error: &(dyn Error + 'static)) -> Option<CertificateRejection> {
    let mut error = error;
    loop {
        if let Some(rustls::Error::InvalidCertificate(reason)) = error.downcast_ref() {
            return classify_certificate_error(reason);
        }
        // An I/O error hides the error that it wraps from `source`.
        let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        error = match wrapped {
            Some(wrapped) => wrapped,
            None => error.source()?,
        };
    }
}

fn classify_certificate_error(reason: &rustls::CertificateError) -> Option<CertificateRejection> {
    use rustls::CertificateError::{Expired, ExpiredContext, NotValidForName, NotValidForNameContext, UnknownIssuer};
    match reason {
        UnknownIssuer => Some(CertificateRejection::UnknownIssuer),
        NotValidForName | NotValidForNameContext { .. } => Some(CertificateRejection::OtherName),
        Expired | ExpiredContext { .. } => Some(CertificateRejection::Expired),
        _ => None,
    }
}

/// Returns the innermost error: the outer ones only repeat it.
fn innermost_cause(error: &dyn Error) -> String {
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
    fn client_error_reports_its_root_cause_and_a_hint() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let error = KubeError::from_client_error("https://a:1", false, &::kube::Error::Service(Box::new(refused)));
        assert_eq!(error.message, "request to `https://a:1` failed: connection refused");
        let hint = "check `server` of this context, and that this machine can reach the API";
        assert_eq!(error.hint.as_deref(), Some(hint));
        let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let stranger = ::kube::Error::Service(Box::new(std::io::Error::other(unknown)));
        let stranger = KubeError::from_client_error("https://a:1", false, &stranger);
        assert_eq!(stranger.message, "request to `https://a:1` failed: invalid peer certificate: UnknownIssuer");
        let hint = "check `certificate-authority` in the kubeconfig: it did not sign the server's certificate";
        assert_eq!(stranger.hint.as_deref(), Some(hint));
    }

    #[test]
    fn status_401_and_403_have_different_messages() {
        assert_eq!(
            KubeError::from_status("https://a:1", 401, "Unauthorized").message,
            "`https://a:1` rejected the credentials (401)"
        );
        let message = KubeError::from_status("https://a:1", 403, "no").message;
        assert_eq!(message, "`https://a:1` denied the request (403): no");
        assert_eq!(KubeError::from_status("https://a:1", 500, "oh").message, "`https://a:1` returned 500: oh");
    }
}
