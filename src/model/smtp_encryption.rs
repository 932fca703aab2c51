//! How the connection to a mail server is encrypted.

use super::http_url::is_loopback_host;

/// How the connection to a mail server is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpEncryption {
    /// Encrypted by STARTTLS before anything else is sent; an error if the server does not offer it.
    StartTls,
    /// Encrypted from the start.
    Implicit,
    /// Not encrypted.
    None,
}

impl SmtpEncryption {
    /// Returns the value of `tls`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StartTls => "starttls",
            Self::Implicit => "implicit",
            Self::None => "none",
        }
    }

    /// Returns the port on which servers expect it.
    pub fn default_port(self) -> u16 {
        match self {
            Self::StartTls => 587,
            Self::Implicit => SMTPS_PORT,
            Self::None => 25,
        }
    }

    /// Returns the encryption that servers expect on a port.
    pub fn of_port(port: u16) -> Self {
        match port {
            SMTPS_PORT => Self::Implicit,
            _ => Self::StartTls,
        }
    }

    /// Reports whether a password can be sent to `host` without anyone on the network reading it.
    pub fn protects_password(self, host: &str) -> bool {
        self != Self::None || is_loopback_host(host)
    }
}

/// The port of SMTP over TLS (RFC 8314).
const SMTPS_PORT: u16 = 465;
